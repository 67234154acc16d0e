"""Lists over HTTP: what a tenant's bulk mail is sent under, and who joins and leaves."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.audience import contacts, lists
from mailwright.audience.status import ContactStatusService
from mailwright.outbox.audit_log import API
from mailwright.schemas import answers
from mailwright.sources.api.requests import ListRequest, ListUpdateRequest, SubscribeRequest, UnsubscribeRequest, parse
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_body, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.parts import Parts

router = APIRouter(prefix="/v1/lists", tags=["lists"])

_BODY_PROBLEMS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.ListsResponse}))
async def list_lists(parts: Parts, caller: CallerDep) -> Response:
    """By name. `general`, which stands for all bulk mail, is always there and not among them."""
    found = await lists.list_all(parts.database, caller.tenant_id)
    return json_response({"lists": [answers.mailing_list(entry) for entry in found]})


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(ListRequest),
    responses=describe_responses({HTTPStatus.CREATED: answers.ListResponse}, HTTPStatus.CONFLICT, *_BODY_PROBLEMS),
)
async def create(request: Request, parts: Parts, caller: CallerDep) -> Response:
    """A list that is not public is shown only to those who are on it. One that requires confirmation asks everyone who
    is put on it by mail, and sends them nothing else before they have agreed."""
    wanted = parse(ListRequest, await read_json(request))
    made = await lists.create(
        parts.database,
        parts.clock,
        caller.tenant_id,
        wanted.list_key,
        name=wanted.name,
        description=wanted.description,
        is_public=wanted.is_public,
        requires_confirmation=wanted.requires_confirmation,
        actor=API,
    )
    return json_response(answers.mailing_list(made), HTTPStatus.CREATED)


@router.patch(
    "/{listKey}",
    openapi_extra=describe_body(ListUpdateRequest),
    responses=describe_responses({HTTPStatus.OK: answers.ListResponse}, HTTPStatus.NOT_FOUND, *_BODY_PROBLEMS),
)
async def change(request: Request, listKey: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """What is not given stays as it is, and so do its key and everyone who is on it: another way of joining holds for
    those who come from now on. An empty description takes it away."""
    wanted = parse(ListUpdateRequest, await read_json(request))
    changed = await lists.edit(
        parts.database,
        parts.clock,
        caller.tenant_id,
        listKey,
        name=wanted.name,
        description=wanted.description,
        is_public=wanted.is_public,
        requires_confirmation=wanted.requires_confirmation,
        actor=API,
    )
    return json_response(answers.mailing_list(changed))


@router.post(
    "/{listKey}/subscribe",
    openapi_extra=describe_body(SubscribeRequest),
    responses=describe_responses({HTTPStatus.OK: answers.ContactResponse}, HTTPStatus.NOT_FOUND, *_BODY_PROBLEMS),
)
async def subscribe(request: Request, listKey: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Puts a person on the list, also one who left it: ask them first. It opens no other door: whoever left all bulk
    mail, bounced or complained gets nothing all the same, and `suppressions` says so. Where the list requires it, the
    person gets a mail to confirm, and `isPending` says that they have not yet."""
    wanted = parse(SubscribeRequest, await read_json(request))
    await lists.find(parts.database, caller.tenant_id, listKey)
    if wanted.confirmed:
        standing = ContactStatusService(parts.database, parts.clock)
        await standing.subscribe(caller.tenant_id, wanted.email, listKey, source="api", actor=API)
    else:
        double_opt_in = await parts.double_opt_in()
        await double_opt_in.subscribe(caller.tenant_id, wanted.email, listKey, source="api", actor=API)
    return await _shown(parts, caller, wanted.email)


@router.post(
    "/{listKey}/unsubscribe",
    openapi_extra=describe_body(UnsubscribeRequest),
    responses=describe_responses({HTTPStatus.OK: answers.ContactResponse}, HTTPStatus.NOT_FOUND, *_BODY_PROBLEMS),
)
async def unsubscribe(request: Request, listKey: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """The person leaves the list; `general` leaves all bulk mail. Doing it again changes nothing."""
    email = parse(UnsubscribeRequest, await read_json(request)).email
    await lists.find(parts.database, caller.tenant_id, listKey)
    standing = ContactStatusService(parts.database, parts.clock)
    await standing.unsubscribe(caller.tenant_id, email, listKey, source="api", actor=API)
    return await _shown(parts, caller, email)


async def _shown(parts: Parts, caller: CallerDep, email: str) -> Response:
    return json_response(answers.portrait(await contacts.load_details(parts.database, caller.tenant_id, email)))
