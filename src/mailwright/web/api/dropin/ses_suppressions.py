"""The suppression list of Amazon SES, version 2: `/v2/email/suppression/addresses`."""

from datetime import UTC, datetime
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.audience.status import SuppressionReason
from mailwright.audience.suppression_selection import (
    BOUNCES,
    COMPLAINTS,
    SuppressionPage,
    SuppressionSelection,
    add_each,
    find_selected,
    list_selected,
    remove_selected,
)
from mailwright.audience.suppressions import Suppression
from mailwright.domain.clock import SECOND, Instant, to_instant
from mailwright.domain.errors import NotFound
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse
from mailwright.web.api.dropin.requests import answer_errors, checked_address
from mailwright.web.api.dropin.ses import SesModel, authenticate, read_object, respond
from mailwright.web.bodies import json_response
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = APIRouter(prefix="/v2/email/suppression/addresses", route_class=PlainRoute, include_in_schema=False)

MAX_PAGE: Final = 1_000
_DEFAULT_PAGE: Final = 100
_SELECTIONS: Final = {"BOUNCE": BOUNCES, "COMPLAINT": COMPLAINTS}
_REASONS: Final = {"BOUNCE": SuppressionReason.BOUNCE, "COMPLAINT": SuppressionReason.COMPLAINT}
_ALL: Final = SuppressionSelection((*BOUNCES.reasons, *COMPLAINTS.reasons))


class SesSuppression(SesModel):
    email_address: str
    reason: Literal["BOUNCE", "COMPLAINT"]


@router.get("")
@answer_errors(respond)
async def list_entries(request: Request) -> Response:
    """List the addresses that bounced or complained, newest first."""
    context, _ = await authenticate(request, Scope.READ)
    wanted = request.query_params.getlist("Reason")
    if any(each not in _SELECTIONS for each in wanted):
        raise _invalid("Reason", "must be BOUNCE or COMPLAINT")
    selection = _SELECTIONS[wanted[0]] if len(set(wanted)) == 1 else _ALL
    page = SuppressionPage(
        _number(request, "PageSize", MAX_PAGE) or _DEFAULT_PAGE,
        _number(request, "NextToken", 2**63 - 1),
        since=_time(request, "StartDate"),
        until=_time(request, "EndDate"),
    )
    found = await list_selected(engine_of(request).database, context.caller.tenant_id, selection, page)
    answer: dict[str, Any] = {"SuppressedDestinationSummaries": [_summary(each) for each in found]}
    if len(found) == page.limit:
        answer["NextToken"] = str(found[-1].id)
    return json_response(answer)


@router.put("")
@answer_errors(respond)
async def add(request: Request) -> Response:
    """Suppress all email to an address."""
    context, body = await authenticate(request, Scope.MANAGE)
    wanted, engine = parse(SesSuppression, read_object(body)), engine_of(request)
    await add_each(
        engine.database,
        engine.clock,
        context.caller.tenant_id,
        [checked_address(wanted.email_address, "EmailAddress")],
        reason=_REASONS[wanted.reason],
        actor=context.caller.audit_name,
    )
    return json_response({})


@router.get("/{email:path}")
@answer_errors(respond)
async def find(request: Request) -> Response:
    """Return the entry of an address."""
    context, _ = await authenticate(request, Scope.READ)
    email = checked_address(request.path_params["email"], "EmailAddress")
    found = await find_selected(engine_of(request).database, context.caller.tenant_id, _ALL, email)
    if found is None:
        raise NotFound(f"Email address {email} does not exist on your suppression list.")
    return json_response({"SuppressedDestination": {**_summary(found), "Attributes": {}}})


@router.delete("/{email:path}")
@answer_errors(respond)
async def remove(request: Request) -> Response:
    """Remove the entry of an address."""
    context, _ = await authenticate(request, Scope.MANAGE)
    email, engine = checked_address(request.path_params["email"], "EmailAddress"), engine_of(request)
    tenant_id, actor = context.caller.tenant_id, context.caller.audit_name
    if not await remove_selected(engine.database, engine.clock, tenant_id, _ALL, [email], actor=actor):
        raise NotFound(f"Email address {email} does not exist on your suppression list.")
    return json_response({})


def _summary(entry: Suppression) -> dict[str, Any]:
    is_complaint = entry.reason == SuppressionReason.COMPLAINT
    return {
        "EmailAddress": entry.email,
        "Reason": "COMPLAINT" if is_complaint else "BOUNCE",
        "LastUpdateTime": entry.created_at / SECOND,
    }


def _number(request: Request, name: str, most: int) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or not 1 <= int(text) <= most:
        raise _invalid(name, f"must be a number from 1 to {most}" if name == "PageSize" else "is not valid")
    return int(text)


def _time(request: Request, name: str) -> Instant | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise _invalid(name, "must be a time such as 2027-01-15T08:00:00Z") from error
    return to_instant(time if time.tzinfo else time.replace(tzinfo=UTC))


def _invalid(field: str, message: str) -> RequestInvalid:
    return RequestInvalid([FieldError(field, "INVALID", message)])
