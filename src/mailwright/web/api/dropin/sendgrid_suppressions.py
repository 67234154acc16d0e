"""SendGrid's suppressions: bounces, spam reports, global unsubscribes and those of groups."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.audience import lists
from mailwright.audience.status import SuppressionReason
from mailwright.audience.suppression_selection import (
    BOUNCES,
    COMPLAINTS,
    UNSUBSCRIBES,
    WIDE_SCOPES,
    SuppressionPage,
    SuppressionSelection,
    add_each,
    find_selected,
    list_selected,
    remove_selected,
)
from mailwright.audience.suppressions import ALL_MESSAGES, Suppression
from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.errors import NotFound
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse
from mailwright.web.api.dropin.requests import (
    ServiceModel,
    answer_errors,
    bearer_key,
    checked_address,
    sending_context,
)
from mailwright.web.api.dropin.sendgrid import respond
from mailwright.web.bodies import json_response, read_json
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = APIRouter(prefix="/v3", route_class=PlainRoute, include_in_schema=False)

MAX_LIMIT: Final = 500
MAX_EMAILS: Final = 1_000
_MAX_NUMBER: Final = 10**10
_KINDS: Final = {"bounces": BOUNCES, "spam_reports": COMPLAINTS, "unsubscribes": UNSUBSCRIBES}


class SendGridDeletion(ServiceModel):
    delete_all: bool = False
    emails: Annotated[list[str], Field(default_factory=list, max_length=MAX_EMAILS)]


class SendGridRecipients(ServiceModel):
    recipient_emails: Annotated[list[str], Field(min_length=1, max_length=MAX_EMAILS)]


@answer_errors(respond)
async def list_entries(request: Request) -> Response:
    """List the entries of one kind, newest first."""
    context, kind = await _context(request, Scope.READ), _kind_of(request)
    found = await list_selected(
        engine_of(request).database, context.caller.tenant_id, _KINDS[kind], _page(request, MAX_LIMIT)
    )
    return json_response([_item(kind, each) for each in found])


@answer_errors(respond)
async def find_entry(request: Request) -> Response:
    """Return the entry of an address in a list, which is empty if there is none."""
    context, kind = await _context(request, Scope.READ), _kind_of(request)
    found = await _find(request, context, _KINDS[kind])
    return json_response([] if found is None else [_item(kind, found)])


@answer_errors(respond)
async def remove_entries(request: Request) -> Response:
    """Remove the entries of the addresses in the body."""
    context, kind = await _context(request, Scope.MANAGE), _kind_of(request)
    wanted = parse(SendGridDeletion, await read_json(request))
    if wanted.delete_all or not wanted.emails:
        raise _invalid("emails", "must name addresses; delete_all is not supported by Mailwright")
    await _remove(request, context, _KINDS[kind], wanted.emails)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@answer_errors(respond)
async def remove_entry(request: Request) -> Response:
    """Remove the entry of an address."""
    context, kind = await _context(request, Scope.MANAGE), _kind_of(request)
    return await _remove_one(request, context, _KINDS[kind])


@router.post("/asm/suppressions/global")
@answer_errors(respond)
async def add_global(request: Request) -> Response:
    """Suppress all email to these addresses, all or none."""
    return await _add(request, await _context(request, Scope.MANAGE), ALL_MESSAGES)


@router.get("/asm/suppressions/global/{email:path}")
@answer_errors(respond)
async def find_global(request: Request) -> Response:
    """Return the address if it is suppressed by a person, otherwise an empty object."""
    found = await _find(request, await _context(request, Scope.READ), UNSUBSCRIBES)
    return json_response({} if found is None else {"recipient_email": found.email})


@router.delete("/asm/suppressions/global/{email:path}")
@answer_errors(respond)
async def remove_global(request: Request) -> Response:
    """Remove the suppression of an address."""
    return await _remove_one(request, await _context(request, Scope.MANAGE), UNSUBSCRIBES)


@router.post("/asm/groups/{group}/suppressions")
@answer_errors(respond)
async def add_to_group(request: Request) -> Response:
    """Suppress the email of a list to these addresses. The group is the key of the list."""
    context = await _context(request, Scope.MANAGE)
    [scope] = (await _group_of(request, context)).scopes
    return await _add(request, context, scope)


@router.get("/asm/groups/{group}/suppressions")
@answer_errors(respond)
async def list_group(request: Request) -> Response:
    """List the addresses that get no email of a list."""
    context = await _context(request, Scope.READ)
    group = await _group_of(request, context)
    found = await list_selected(
        engine_of(request).database, context.caller.tenant_id, group, _page(request, _MAX_NUMBER)
    )
    return json_response([each.email for each in found])


@router.delete("/asm/groups/{group}/suppressions/{email:path}")
@answer_errors(respond)
async def remove_from_group(request: Request) -> Response:
    """Remove the suppression of the email of a list to an address."""
    context = await _context(request, Scope.MANAGE)
    return await _remove_one(request, context, await _group_of(request, context))


for _name in _KINDS:
    router.add_api_route(f"/suppression/{_name}", list_entries, methods=["GET"])
    router.add_api_route(f"/suppression/{_name}", remove_entries, methods=["DELETE"])
for _name in ("bounces", "spam_reports"):
    router.add_api_route(f"/suppression/{_name}/{{email:path}}", find_entry, methods=["GET"])
    router.add_api_route(f"/suppression/{_name}/{{email:path}}", remove_entry, methods=["DELETE"])


def _kind_of(request: Request) -> str:
    # `request.url` ends the path at a decoded `?` or `#`.
    path: str = request.scope["path"]
    return path.removeprefix("/v3/suppression/").partition("/")[0]


async def _group_of(request: Request, context: RequestContext) -> SuppressionSelection:
    """Return the suppressions of a group, which is a list. `general` is not one."""
    group = request.path_params["group"]
    async with engine_of(request).database.read() as tx:
        if group in WIDE_SCOPES or group not in await lists.existing_keys(tx, context.caller.tenant_id, [group]):
            raise NotFound("This group does not exist: no list of Mailwright has this key.")
    return SuppressionSelection((), (group,), is_exclusion=True)


async def _context(request: Request, scope: Scope) -> RequestContext:
    return await sending_context(request, bearer_key(request), scope)


async def _find(request: Request, context: RequestContext, selection: SuppressionSelection) -> Suppression | None:
    email = checked_address(request.path_params["email"], "email")
    return await find_selected(engine_of(request).database, context.caller.tenant_id, selection, email)


async def _add(request: Request, context: RequestContext, scope: str) -> Response:
    engine = engine_of(request)
    wanted = parse(SendGridRecipients, await read_json(request))
    emails = [checked_address(each, "recipient_emails") for each in wanted.recipient_emails]
    await add_each(
        engine.database,
        engine.clock,
        context.caller.tenant_id,
        emails,
        reason=SuppressionReason.UNSUBSCRIBED,
        actor=context.caller.audit_name,
        scope=scope,
    )
    return json_response({"recipient_emails": emails}, HTTPStatus.CREATED)


async def _remove(
    request: Request, context: RequestContext, selection: SuppressionSelection, emails: list[str]
) -> set[str]:
    engine, addresses = engine_of(request), [checked_address(each, "emails") for each in emails]
    tenant_id, actor = context.caller.tenant_id, context.caller.audit_name
    return await remove_selected(engine.database, engine.clock, tenant_id, selection, addresses, actor=actor)


async def _remove_one(request: Request, context: RequestContext, selection: SuppressionSelection) -> Response:
    if not await _remove(request, context, selection, [request.path_params["email"]]):
        raise NotFound("This address is not on the suppression list.")
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _item(kind: str, entry: Suppression) -> dict[str, object]:
    shared: dict[str, object] = {"created": entry.created_at // SECOND, "email": entry.email}
    if kind == "bounces":
        return {**shared, "reason": entry.reason, "status": ""}
    return {**shared, "ip": ""} if kind == "spam_reports" else shared


def _page(request: Request, most: int) -> SuppressionPage:
    return SuppressionPage(
        _number(request, "limit", most) or most,
        offset=_number(request, "offset", _MAX_NUMBER) or 0,
        since=_time(request, "start_time"),
        until=_time(request, "end_time"),
    )


def _time(request: Request, name: str) -> Instant | None:
    seconds = _number(request, name, _MAX_NUMBER)
    return None if seconds is None else seconds * SECOND


def _number(request: Request, name: str, most: int) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 11 or int(text) > most:
        raise _invalid(name, f"must be a number of at most {most}")
    return int(text)


def _invalid(field: str, message: str) -> RequestInvalid:
    return RequestInvalid([FieldError(field, "INVALID", message)])
