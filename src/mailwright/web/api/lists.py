"""HTTP routes of mailing lists and subscriptions."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.audience import contacts, lists
from mailwright.audience.status import ContactStatusService
from mailwright.schemas.contacts import ContactResponse, contact_response
from mailwright.schemas.lists import (
    ListRequest,
    ListResponse,
    ListsQuery,
    ListsResponse,
    ListUpdateRequest,
    SubscribeRequest,
    UnsubscribeRequest,
)
from mailwright.sources.api.senders import require_sender
from mailwright.sources.api.validation import parse
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/v1/lists", tags=["lists"])

_REMOVAL_RESPONSES = describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


@router.get("", responses=describe_responses({HTTPStatus.OK: ListsResponse}))
async def list_lists(engine: EngineDep, caller: CallerDep, query: Annotated[ListsQuery, Query()]) -> Response:
    """List the mailing lists, by name. `general`, which stands for all bulk messages, is not listed."""
    found = await lists.list_all(engine.database, caller.tenant_id, with_archived=query.archived)
    return json_response(ListsResponse(lists=found))


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(ListRequest),
    responses=describe_responses({HTTPStatus.CREATED: ListResponse}, HTTPStatus.CONFLICT, *BODY_PROBLEMS),
)
async def create(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Create a mailing list.

    A list that is not public is visible only to its subscribers. A list that requires confirmation sends new
    subscribers a confirmation email, and nothing else before they confirm.
    """
    wanted = parse(ListRequest, await read_json(request))
    created = await lists.create(
        engine.database,
        engine.clock,
        caller.tenant_id,
        wanted.list_key,
        name=wanted.name,
        description=wanted.description,
        is_public=wanted.is_public,
        requires_confirmation=wanted.requires_confirmation,
        tracking=wanted.tracking,
        actor=actor_of(caller),
    )
    return json_response(ListResponse.model_validate(created), HTTPStatus.CREATED)


@router.patch(
    "/{listKey}",
    openapi_extra=describe_body(ListUpdateRequest),
    responses=describe_responses({HTTPStatus.OK: ListResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def change(request: Request, listKey: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Change a mailing list. Fields that are left out keep their value; an empty string removes the description.

    The key and the subscribers stay. A change of `requiresConfirmation` affects new subscribers only.
    """
    wanted = parse(ListUpdateRequest, await read_json(request))
    changed = await lists.edit(
        engine.database,
        engine.clock,
        caller.tenant_id,
        listKey,
        name=wanted.name,
        description=wanted.description,
        is_public=wanted.is_public,
        requires_confirmation=wanted.requires_confirmation,
        tracking=wanted.tracking,
        actor=actor_of(caller),
    )
    return json_response(ListResponse.model_validate(changed))


@router.delete(
    "/{listKey}",
    status_code=HTTPStatus.NO_CONTENT,
    responses=_REMOVAL_RESPONSES,
)
async def delete(listKey: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Delete a mailing list and its subscriptions. The contacts stay, and past unsubscribes stay recorded.

    A list that an unfinished campaign, an article or a segment uses cannot be deleted. `restore` brings the list and
    its subscriptions back for 30 days.
    """
    await engine.list_removal.delete(caller.tenant_id, listKey, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post("/{listKey}/archive", status_code=HTTPStatus.NO_CONTENT, responses=_REMOVAL_RESPONSES)
async def archive(listKey: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Hide a mailing list: sign-up forms, preference pages and campaigns no longer offer it. Its subscribers stay."""
    await engine.list_removal.archive(caller.tenant_id, listKey, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post("/{listKey}/restore", status_code=HTTPStatus.NO_CONTENT, responses=_REMOVAL_RESPONSES)
async def restore(listKey: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Bring back an archived or deleted mailing list with its subscribers."""
    await engine.list_removal.restore(caller.tenant_id, listKey, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    "/{listKey}/subscribe",
    openapi_extra=describe_body(SubscribeRequest),
    responses=describe_responses({HTTPStatus.OK: ContactResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def subscribe(request: Request, listKey: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Subscribe a contact to the list, even one who unsubscribed before. Get their consent first.

    Suppressions stay: a contact who bounced, complained or unsubscribed from all bulk messages still gets nothing, and
    `suppressions` shows it. If the list requires confirmation, the contact gets a confirmation email, and `isPending`
    is true until they confirm.
    """
    wanted = parse(SubscribeRequest, await read_json(request))
    await lists.find(engine.database, caller.tenant_id, listKey)
    if wanted.confirmed:
        status = ContactStatusService(engine.database, engine.clock)
        await status.subscribe(caller.tenant_id, wanted.email, listKey, source="api", actor=actor_of(caller))
    else:
        require_sender(caller, await engine.directory.default_sender(caller.tenant_id))
        double_opt_in = await engine.double_opt_in()
        await double_opt_in.subscribe(caller.tenant_id, wanted.email, listKey, source="api", actor=actor_of(caller))
    return await _contact(engine, caller, wanted.email)


@router.post(
    "/{listKey}/unsubscribe",
    openapi_extra=describe_body(UnsubscribeRequest),
    responses=describe_responses({HTTPStatus.OK: ContactResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def unsubscribe(request: Request, listKey: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Unsubscribe a contact from the list, or with `general` from all bulk messages. Repeating it changes nothing."""
    email = parse(UnsubscribeRequest, await read_json(request)).email
    await lists.find(engine.database, caller.tenant_id, listKey)
    status = ContactStatusService(engine.database, engine.clock)
    await status.unsubscribe(caller.tenant_id, email, listKey, source="api", actor=actor_of(caller))
    return await _contact(engine, caller, email)


async def _contact(engine: EngineDep, caller: CallerDep, email: str) -> Response:
    return json_response(contact_response(await contacts.load_details(engine.database, caller.tenant_id, email)))
