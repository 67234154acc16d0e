"""Mailgun's events API: `GET /v3/{domain}/events`, page by page."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as InvalidBase64
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Final

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.domain.address import InvalidAddress, normal
from mailwright.domain.clock import DAY, SECOND, Instant, to_instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType
from mailwright.events.outbound.formats.mailgun import MailgunFormat, mailgun_event, mailgun_message_id
from mailwright.events.outbound.history import (
    MAX_SEARCHED,
    EventMessageFilter,
    EventSelection,
    Position,
    find_events,
    position_of,
)
from mailwright.events.outbound.outbound_event import OutboundMessage
from mailwright.events.outbound.stored_messages import MESSAGE_ID_FIELDS
from mailwright.sources.api.validation import UNKNOWN_FIELD, FieldError, RequestInvalid
from mailwright.web.api.dropin.mailgun import mailgun_key, respond
from mailwright.web.api.dropin.requests import answer_errors, sending_context
from mailwright.web.bodies import json_response
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = APIRouter(prefix="/v3", route_class=PlainRoute, include_in_schema=False)

MAX_LIMIT: Final = 300
_DEFAULT_LIMIT: Final = 100
# How far back events are listed if the request does not say it. Mailgun keeps its own at most as long.
_DEFAULT_PERIOD: Final[Instant] = 30 * DAY
_EVENTS: Final[Mapping[str, tuple[EventType, ...]]] = {
    "accepted": (EventType.SENT,),
    "delivered": (EventType.DELIVERED,),
    "failed": (EventType.FAILED, EventType.BOUNCED, EventType.DEFERRED),
    "opened": (EventType.OPENED,),
    "clicked": (EventType.CLICKED,),
    "complained": (EventType.COMPLAINED,),
    "unsubscribed": (EventType.UNSUBSCRIBED,),
    # Events that Mailwright does not have.
    "rejected": (),
    "stored": (),
}
_SEVERITIES: Final[Mapping[str, tuple[EventType, ...]]] = {
    "permanent": (EventType.FAILED, EventType.BOUNCED),
    "temporary": (EventType.DEFERRED,),
}
_OR: Final = re.compile(r"\s+OR\s+")
_AND: Final = re.compile(r"\s+AND\s+")
_KNOWN: Final = frozenset(
    {"begin", "end", "ascending", "limit", "event", "tags", "recipient", "message-id", "severity"}
)


@dataclass(frozen=True, slots=True)
class _Page:
    """A page of the result of a query. If it goes back, it has the events before the position."""

    query: Mapping[str, str]
    after: Position | None = None
    goes_back: bool = False

    @property
    def token(self) -> str:
        content = orjson.dumps([self.query, self.after, self.goes_back])
        return urlsafe_b64encode(content).rstrip(b"=").decode()

    @classmethod
    def parse(cls, token: str) -> "_Page":
        try:
            query, after, goes_back = orjson.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            position = None if after is None else (int(after[0]), int(after[1]))
            known = {str(name): str(value) for name, value in query.items() if name in _KNOWN}
            return cls(known, position, goes_back is True)
        except (InvalidBase64, ValueError, TypeError, IndexError, AttributeError) as error:
            raise _invalid("page", "is not a page of this API") from error


@dataclass(frozen=True, slots=True)
class _Query:
    selection: EventSelection
    filter: EventMessageFilter | None
    limit: int
    ascending: bool


@router.get("/{domain}/events")
@answer_errors(respond)
async def list_events(request: Request) -> Response:
    """List the first page of events."""
    return await _list(request, lambda: _Page(_given(request)))


@router.get("/{domain}/events/{page}")
@answer_errors(respond)
async def list_page(request: Request) -> Response:
    """List a page that an earlier response names. Other parameters are part of it already."""
    return await _list(request, lambda: _Page.parse(request.path_params["page"]))


async def _list(request: Request, read_page: Callable[[], _Page]) -> Response:
    context = await sending_context(request, mailgun_key(request), Scope.READ)
    page = read_page()
    engine = engine_of(request)
    query = _query(page.query, engine.clock.now())
    found = await find_events(
        engine.database,
        context.caller.tenant_id,
        query.selection,
        query.filter,
        limit=query.limit,
        after=page.after,
        ascending=query.ascending != page.goes_back,
        default_sender=await engine.directory.default_sender(context.caller.tenant_id),
    )
    items = found.events
    if found.ended_early and not items:
        raise _invalid(
            "tags" if "tags" in page.query else "message-id",
            f"matches none of the {MAX_SEARCHED} events that one request searches; also choose a recipient, an event, "
            "or a shorter time with begin and end",
        )
    first, last = position_of(items[0]) if items else page.after, found.reached
    if page.goes_back:
        items, first, last = items[::-1], last, first
    pages = {
        "first": _Page(page.query),
        "last": _Page(page.query, goes_back=True),
        "next": _Page(page.query, last),
        "previous": _Page(page.query, first, goes_back=True),
    }
    base = f"{engine.public_url}/v3/{request.path_params['domain']}/events"
    paging = {name: f"{base}/{each.token}" for name, each in pages.items()}
    return json_response({"items": [mailgun_event(each) for each in items], "paging": paging})


def _given(request: Request) -> dict[str, str]:
    given = dict(request.query_params)
    if unknown := sorted(set(given) - _KNOWN):
        raise _invalid(unknown[0], "is not supported by Mailwright; remove it")
    return given


def _query(given: Mapping[str, str], now: Instant) -> _Query:
    begin, end = _time(given, "begin"), _time(given, "end")
    ascending = _ascending(given)
    since: Instant | None
    until: Instant | None
    if begin is not None and end is not None:
        ascending = begin <= end if ascending is None else ascending
        since, until = sorted((begin, end))
    else:
        since, until = (begin, end) if ascending else (end, begin)
    if since is None:
        since = (now if until is None else min(now, until)) - _DEFAULT_PERIOD
    return _Query(
        EventSelection(_types(given), since, until, _recipient(given.get("recipient"))),
        _filter(given),
        _limit(given.get("limit")),
        bool(ascending),
    )


def _filter(given: Mapping[str, str]) -> EventMessageFilter | None:
    """Return the filter by tags, of which an event has at least one of each set, and by the Message-ID."""
    tags = [frozenset(_OR.split(each.strip("() "))) for each in _AND.split(given["tags"])] if "tags" in given else []
    wanted_id = given["message-id"].strip("<> ") if "message-id" in given else None

    def accepts(message: OutboundMessage) -> bool:
        if any(each.isdisjoint(message.tags) for each in tags):
            return False
        return wanted_id is None or mailgun_message_id(message) == wanted_id

    fields = {"tags"} if tags else set()
    if wanted_id is not None:
        fields |= MESSAGE_ID_FIELDS
    return EventMessageFilter(frozenset(fields), accepts) if fields else None


def _types(given: Mapping[str, str]) -> tuple[str, ...]:
    names = _OR.split(given.get("event", "").strip("() "))
    if names == [""]:
        types: tuple[str, ...] = MailgunFormat.types
    elif unknown := [each for each in names if each not in _EVENTS]:
        raise _invalid("event", f"has {unknown[0][:80]!r}; choose from {', '.join(_EVENTS)}, with OR between them")
    else:
        types = tuple(type_ for each in names for type_ in _EVENTS[each])
    if "severity" not in given:
        return types
    return tuple(each for each in types if each in _SEVERITIES.get(given["severity"], ()))


def _ascending(given: Mapping[str, str]) -> bool | None:
    text = given.get("ascending", "").lower()
    if text not in ("", "yes", "no", "true", "false"):
        raise _invalid("ascending", "must be yes or no")
    return text in ("yes", "true") if text else None


def _time(given: Mapping[str, str], name: str) -> Instant | None:
    text = given.get(name)
    if not text:
        return None
    try:
        if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text):
            return int(float(text) * SECOND)
        time = parsedate_to_datetime(re.sub(r"\s-0000$", " +0000", text.strip()))
        if time.tzinfo is None:
            raise ValueError(text)
        return to_instant(time)
    except (ValueError, OverflowError, IndexError, TypeError) as error:
        raise _invalid(
            name, "must be a time in seconds since 1970, or such as Fri, 15 Jan 2027 08:00:00 +0000"
        ) from error


def _recipient(text: str | None) -> str | None:
    try:
        return normal(text) if text else None
    except InvalidAddress as error:
        raise _invalid("recipient", f"is not an email address: {error}") from error


def _limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_LIMIT
    if not text.isdecimal() or not 1 <= int(text[:9]) <= MAX_LIMIT:
        raise _invalid("limit", f"must be a number from 1 to {MAX_LIMIT}")
    return int(text)


def _invalid(field: str, message: str) -> RequestInvalid:
    # With this code, the error keeps the name of the parameter, which is no field of an email.
    return RequestInvalid([FieldError(field[:100], UNKNOWN_FIELD, message)])
