"""Postmark's suppressions: `/message-streams/{stream}/suppressions`, with `/dump` and `/delete`."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.audience import lists
from mailwright.audience.status import SuppressionReason
from mailwright.audience.suppression_selection import (
    WIDE_SCOPES,
    SuppressionPage,
    SuppressionSelection,
    add_each,
    find_selected,
    list_selected,
    remove_selected,
)
from mailwright.audience.suppressions import ALL_MESSAGES, Suppression
from mailwright.domain.address import InvalidAddress, normal
from mailwright.domain.clock import DAY, Instant, isoformat, to_instant
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.requests import ListNotFound
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse
from mailwright.web.api.dropin.postmark import TOKEN_HEADER, TRANSACTIONAL_STREAM, PostmarkModel, respond
from mailwright.web.api.dropin.requests import answer_errors, checked_address, sending_context
from mailwright.web.bodies import json_response, read_json
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = APIRouter(prefix="/message-streams/{stream}/suppressions", route_class=PlainRoute, include_in_schema=False)

MAX_EMAILS: Final = 50
# The most entries in one response, which has no pages.
MAX_ENTRIES: Final = 100_000
_REASONS: Final = {
    SuppressionReason.BOUNCE: "HardBounce",
    SuppressionReason.SOFT_BOUNCES: "HardBounce",
    SuppressionReason.COMPLAINT: "SpamComplaint",
}
_MANUAL: Final = "ManualSuppression"
_FILTERS: Final = frozenset({"SuppressionReason", "Origin", "fromdate", "todate", "EmailAddress"})


class PostmarkSuppression(PostmarkModel):
    email_address: str


class PostmarkSuppressions(PostmarkModel):
    suppressions: Annotated[list[PostmarkSuppression], Field(min_length=1, max_length=MAX_EMAILS)]


@router.get("/dump")
@answer_errors(respond)
async def dump(request: Request) -> Response:
    """List the suppressions of a stream, newest first."""
    context, engine = await _context(request, Scope.READ), engine_of(request)
    given = dict(request.query_params)
    if unknown := sorted(set(given) - _FILTERS):
        raise _invalid(unknown[0], "is not supported by Mailwright; remove it")
    selection, tenant_id = await _selection(request, context), context.caller.tenant_id
    if "EmailAddress" in given:
        one = await find_selected(
            engine.database, tenant_id, selection, checked_address(given["EmailAddress"], "EmailAddress")
        )
        found = [] if one is None else [one]
    else:
        page = SuppressionPage(MAX_ENTRIES, since=_day(given, "fromdate"), until=_day(given, "todate", is_end=True))
        found = await list_selected(engine.database, tenant_id, selection, page)
    items = [_item(each) for each in found]
    wanted = {name: given[name] for name in ("SuppressionReason", "Origin") if name in given}
    return json_response({"Suppressions": [each for each in items if wanted.items() <= each.items()]})


@router.post("")
@answer_errors(respond)
async def add(request: Request) -> Response:
    """Suppress up to 50 addresses. An invalid one does not stop the others."""
    context, engine = await _context(request, Scope.MANAGE), engine_of(request)
    wanted, stream = parse(PostmarkSuppressions, await read_json(request)), request.path_params["stream"]
    await _selection(request, context)
    given = [each.email_address for each in wanted.suppressions]
    errors = _errors(given)
    await add_each(
        engine.database,
        engine.clock,
        context.caller.tenant_id,
        [each for each in given if each not in errors],
        reason=SuppressionReason.UNSUBSCRIBED,
        actor=context.caller.audit_name,
        scope=ALL_MESSAGES if stream == TRANSACTIONAL_STREAM else stream,
    )
    return _results(given, "Suppressed", errors)


@router.post("/delete")
@answer_errors(respond)
async def remove(request: Request) -> Response:
    """Remove the suppressions of up to 50 addresses from a stream.

    Complaints and, in the stream of transactional email, unsubscribes from bulk email stay.
    """
    context, engine = await _context(request, Scope.MANAGE), engine_of(request)
    wanted = parse(PostmarkSuppressions, await read_json(request))
    selection, tenant_id = await _selection(request, context), context.caller.tenant_id
    given = [each.email_address for each in wanted.suppressions]
    errors = _errors(given)
    valid = [each for each in given if each not in errors]
    scope = selection.scopes[0]
    for each in valid:
        found = await find_selected(engine.database, tenant_id, selection, each)
        if found is not None and (found.reason == SuppressionReason.COMPLAINT or found.list_key != scope):
            errors[each] = "You do not have the required authority to change this suppression."
    removed = SuppressionSelection((SuppressionReason.COMPLAINT,), (scope,), is_exclusion=True)
    removable = [each for each in valid if each not in errors]
    await remove_selected(engine.database, engine.clock, tenant_id, removed, removable, actor=context.caller.audit_name)
    return _results(given, "Deleted", errors)


async def _context(request: Request, scope: Scope) -> RequestContext:
    return await sending_context(request, request.headers.get(TOKEN_HEADER, ""), scope)


async def _selection(request: Request, context: RequestContext) -> SuppressionSelection:
    """Return the suppressions of a stream: those of all email, or those of a list."""
    stream = request.path_params["stream"]
    if stream == TRANSACTIONAL_STREAM:
        return SuppressionSelection((), WIDE_SCOPES, is_exclusion=True)
    async with engine_of(request).database.read() as tx:
        if stream not in await lists.existing_keys(tx, context.caller.tenant_id, [stream]):
            raise RequestInvalid([FieldError("MessageStream", ListNotFound.code, "names no list of Mailwright")])
    return SuppressionSelection((), (stream,), is_exclusion=True)


def _errors(emails: list[str]) -> dict[str, str]:
    """Return why addresses are invalid."""
    found = {}
    for each in emails:
        try:
            normal(each)
        except InvalidAddress as error:
            found[each] = f"An invalid email address was provided: {error}"
    return found


def _results(emails: list[str], done: str, errors: dict[str, str]) -> Response:
    items = [
        {"EmailAddress": each, "Status": "Failed" if each in errors else done, "Message": errors.get(each)}
        for each in emails
    ]
    return json_response({"Suppressions": items})


def _item(entry: Suppression) -> dict[str, Any]:
    reason = next((name for known, name in _REASONS.items() if known == entry.reason), _MANUAL)
    is_own = reason != _MANUAL or entry.reason == SuppressionReason.UNSUBSCRIBED
    return {
        "EmailAddress": entry.email,
        "SuppressionReason": reason,
        "Origin": "Recipient" if is_own else "Customer",
        "CreatedAt": isoformat(entry.created_at),
    }


def _day(given: dict[str, str], name: str, *, is_end: bool = False) -> Instant | None:
    """Return the beginning of a day, or its end."""
    if name not in given:
        return None
    try:
        begin = to_instant(datetime.strptime(given[name], "%Y-%m-%d").replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise _invalid(name, "must be a day such as 2027-01-15") from error
    return begin + DAY - 1 if is_end else begin


def _invalid(field: str, message: str) -> RequestInvalid:
    return RequestInvalid([FieldError(field[:100], "INVALID", message)])
