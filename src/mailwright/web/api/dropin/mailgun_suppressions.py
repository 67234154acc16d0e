"""Mailgun's suppressions: `/v3/{domain}/bounces`, `/complaints` and `/unsubscribes`."""

from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.audience.status import SuppressionReason
from mailwright.audience.suppression_selection import (
    BOUNCES,
    COMPLAINTS,
    UNSUBSCRIBES,
    SuppressionPage,
    SuppressionSelection,
    add_each,
    find_selected,
    list_selected,
    remove_selected,
)
from mailwright.audience.suppressions import NEWEST, Suppression
from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.validation import FieldError, RequestInvalid
from mailwright.web.api.dropin.mailgun import mailgun_key, read_fields, respond
from mailwright.web.api.dropin.requests import answer_errors, checked_address, sending_context
from mailwright.web.bodies import json_response, read_json
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = APIRouter(prefix="/v3/{domain}", route_class=PlainRoute, include_in_schema=False)

MAX_LIMIT: Final = 1_000
_DEFAULT_LIMIT: Final = 100
_FIELDS: Final = frozenset({"address", "code", "error", "created_at", "tag", "tags", "reason"})


@dataclass(frozen=True, slots=True)
class _Kind:
    """A list of suppressions: what it contains, the reason of entries that are added, and Mailgun's words."""

    selection: SuppressionSelection
    reason: SuppressionReason
    removed: str

    def item(self, entry: Suppression) -> dict[str, Any]:
        shared = {"address": entry.email, "created_at": _time_text(entry.created_at)}
        if self.reason is SuppressionReason.BOUNCE:
            return {**shared, "code": "550", "error": entry.reason}
        return {**shared, "tags": ["*"]} if self.reason is SuppressionReason.UNSUBSCRIBED else shared


_KINDS: Final = {
    "bounces": _Kind(BOUNCES, SuppressionReason.BOUNCE, "Bounced address has been removed"),
    "complaints": _Kind(COMPLAINTS, SuppressionReason.COMPLAINT, "Spam complaint has been removed"),
    "unsubscribes": _Kind(UNSUBSCRIBES, SuppressionReason.UNSUBSCRIBED, "Unsubscribe event has been removed"),
}
_PATHS: Final = tuple(_KINDS)


def _kind_of(request: Request) -> tuple[str, _Kind]:
    # `request.url` ends the path at a decoded `?` or `#`.
    path: str = request.scope["path"]
    name = path.removeprefix(f"/v3/{request.path_params['domain']}/").partition("/")[0]
    return name, _KINDS[name]


async def _context(request: Request, scope: Scope) -> RequestContext:
    return await sending_context(request, mailgun_key(request), scope)


@answer_errors(respond)
async def list_entries(request: Request) -> Response:
    """List the entries, newest first."""
    context, engine, (name, kind) = await _context(request, Scope.READ), engine_of(request), _kind_of(request)
    limit, before = _number(request, "limit", _DEFAULT_LIMIT, MAX_LIMIT), _number(request, "cursor", None)
    page = SuppressionPage(limit or _DEFAULT_LIMIT, before)
    found = await list_selected(engine.database, context.caller.tenant_id, kind.selection, page)
    last = found[-1].id if found else before
    base = f"{engine.public_url}/v3/{request.path_params['domain']}/{name}"
    first = f"limit={page.limit}"
    following = first if last is None else f"page=next&cursor={last}&{first}"
    # Entries are added at the beginning, so what precedes a page begins there.
    places = {"first": first, "next": following, "previous": first, "last": first}
    paging = {each: f"{base}?{query}" for each, query in places.items()}
    return json_response({"items": [kind.item(each) for each in found], "paging": paging})


@answer_errors(respond)
async def find_entry(request: Request) -> Response:
    """Return the entry of an address."""
    context, (name, kind) = await _context(request, Scope.READ), _kind_of(request)
    email = checked_address(request.path_params["address"], "address")
    found = await find_selected(engine_of(request).database, context.caller.tenant_id, kind.selection, email)
    return _missing(name) if found is None else json_response(kind.item(found))


@answer_errors(respond)
async def add_entries(request: Request) -> Response:
    """Add one address, or those of a list, all or none."""
    context, engine, (name, kind) = await _context(request, Scope.MANAGE), engine_of(request), _kind_of(request)
    emails = await _addresses(request)
    await add_each(
        engine.database,
        engine.clock,
        context.caller.tenant_id,
        emails,
        reason=kind.reason,
        actor=context.caller.audit_name,
    )
    if len(emails) == 1:
        return json_response({"message": f"Address has been added to the {name} table", "address": emails[0]})
    return json_response({"message": f"{len(emails)} addresses have been added to the {name} table"})


@answer_errors(respond)
async def remove_entry(request: Request) -> Response:
    """Remove the entry of an address."""
    context, engine, (name, kind) = await _context(request, Scope.MANAGE), engine_of(request), _kind_of(request)
    email = checked_address(request.path_params["address"], "address")
    removed = await remove_selected(
        engine.database,
        engine.clock,
        context.caller.tenant_id,
        kind.selection,
        [email],
        actor=context.caller.audit_name,
    )
    return json_response({"message": kind.removed, "address": email}) if removed else _missing(name)


for _path in _PATHS:
    router.add_api_route(f"/{_path}", list_entries, methods=["GET"])
    router.add_api_route(f"/{_path}", add_entries, methods=["POST"])
    router.add_api_route(f"/{_path}/{{address:path}}", find_entry, methods=["GET"])
    router.add_api_route(f"/{_path}/{{address:path}}", remove_entry, methods=["DELETE"])


async def _addresses(request: Request) -> list[str]:
    """Return the addresses of a form, or of a JSON list. A `tag` other than * is not supported."""
    is_json = request.headers.get("content-type", "").startswith("application/json")
    items = await read_json(request) if is_json else [await read_fields(request, _FIELDS)]
    listed = items if isinstance(items, list) else [items]
    if not 1 <= len(listed) <= MAX_LIMIT or not all(isinstance(each, dict) for each in listed):
        raise _invalid("address", f"must be in a form, or in a list of 1 to {MAX_LIMIT} objects")
    if any(each.get("tag", "*") != "*" or each.get("tags", ["*"]) not in (["*"], "*", []) for each in listed):
        raise _invalid("tag", "must be *; use the lists of Mailwright for parts of your email")
    return [checked_address(each.get("address"), "address") for each in listed]


def _number(request: Request, name: str, default: int | None, most: int = NEWEST) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or not 1 <= int(text) <= most:
        raise _invalid(name, f"must be a number from 1 to {most}")
    return int(text)


def _missing(name: str) -> Response:
    return json_response({"message": f"Address not found in {name} table"}, HTTPStatus.NOT_FOUND)


def _time_text(instant: Instant) -> str:
    return formatdate(instant / SECOND, usegmt=True).replace("GMT", "UTC")


def _invalid(field: str, message: str) -> RequestInvalid:
    return RequestInvalid([FieldError(field[:100], "INVALID", message)])
