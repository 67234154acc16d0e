"""Segment's HTTP API: `POST /v1/track`, `/v1/identify` and `/v1/batch`. The write key is an API key."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.app.wiring import Engine
from mailwright.audience import contacts
from mailwright.audience.contact_events import is_erased
from mailwright.audience.contact_fields import attribute_name_from_title, is_address, normalize_deliverable_email
from mailwright.audience.contacts import ContactChange
from mailwright.audience.external_ids import find_addresses, record_external_id
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.errors import InvalidInput, MailwrightError, NotDurable, Unauthorized
from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.schedule import has_zone, parse_time
from mailwright.sources.api.messages import RequestContext
from mailwright.web.api.dropin.requests import answer_errors, basic_credentials, bearer_key
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import MAX_BODY_BYTES, json_response, read_bytes, too_large
from mailwright.web.errors import ErrorResponse, InvalidJson
from mailwright.web.plain_route import PlainRoute
from mailwright.web.request_ids import request_id_of
from mailwright.web.state import engine_of

router = Routes(prefix="/v1", route_class=PlainRoute, include_in_schema=False)

MAX_CALLS: Final = 2_500
MAX_ID_LENGTH: Final = 200

_NO_ADDRESS: Final = (
    "The call names no email address. Put it into properties.email, traits.email or context.traits.email, use it as "
    "userId, or identify the userId with traits.email first."
)


class UnknownAddress(InvalidInput):
    """The call names no email address."""

    code = "ADDRESS_UNKNOWN"


@dataclass(slots=True)
class _Batch:
    """The calls of one request, and the problem of each call that was refused, by its position."""

    engine: Engine
    context: RequestContext
    calls: Sequence[Any]
    problems: dict[int, MailwrightError] = field(default_factory=dict)

    def of_type(self, type_: str) -> list[tuple[int, Mapping[str, Any]]]:
        return [
            (position, call)
            for position, call in enumerate(self.calls)
            if position not in self.problems and call["type"] == type_
        ]


def _respond(error: ErrorResponse) -> Response:
    """Write an error in Segment's format. Segment answers 400 for all invalid requests."""
    status = HTTPStatus.BAD_REQUEST if error.status is HTTPStatus.UNPROCESSABLE_ENTITY else error.status
    return json_response({"success": False, "code": error.code, "message": error.detail}, status)


@router.post("/track", scope=Scope.EVENTS)
@answer_errors(_respond)
async def track(request: Request) -> Response:
    return await _one(request, "track")


@router.post("/identify", scope=Scope.EVENTS)
@answer_errors(_respond)
async def identify(request: Request) -> Response:
    return await _one(request, "identify")


@router.post("/batch", scope=Scope.EVENTS)
@answer_errors(_respond)
async def batch(request: Request) -> Response:
    """Store the valid calls. The response is an error only if all calls were refused."""
    context, body = await _context(request), await _read(request)
    calls = body.get("batch")
    if not isinstance(calls, list) or not 1 <= len(calls) <= MAX_CALLS:
        raise InvalidInput(f"batch must be a list of 1 to {MAX_CALLS:,} calls.", field="batch")
    shared = {name: body[name] for name in ("context", "sentAt") if body.get(name) is not None}
    merged = [{**shared, **call} if isinstance(call, dict) else call for call in calls]
    problems = await _store(_Batch(engine_of(request), context, merged))
    if len(problems) == len(calls):
        raise problems[0]
    errors = [
        {"index": position, "code": error.code, "message": str(error)} for position, error in sorted(problems.items())
    ]
    return json_response({"success": True, **({"errors": errors} if errors else {})})


async def _one(request: Request, type_: str) -> Response:
    context, body = await _context(request), await _read(request)
    if problems := await _store(_Batch(engine_of(request), context, [{**body, "type": type_}])):
        raise problems[0]
    return json_response({"success": True})


async def _context(request: Request) -> RequestContext:
    key = basic_credentials(request)[0] or bearer_key(request)
    caller = await engine_of(request).keys.authenticate_key(key)
    caller.require(Scope.EVENTS)
    return RequestContext(caller, request_id_of(request))


async def _read(request: Request) -> dict[str, Any]:
    """Read a JSON object. Segment's clients may compress it, and browsers send it as text."""
    content = await read_bytes(request, MAX_BODY_BYTES)
    if request.headers.get("content-encoding", "").strip().lower() == "gzip":
        content = _decompress(content)
    try:
        body = load_json(content)
    except orjson.JSONDecodeError as error:
        raise InvalidJson(f"The body is not valid JSON: {error}") from error
    if not isinstance(body, dict):
        raise InvalidJson("The body must be a JSON object.")
    return body


def _decompress(content: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)
    try:
        found = decompressor.decompress(content, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise InvalidJson("The body is not compressed with gzip.") from error
    if len(found) > MAX_BODY_BYTES:
        raise too_large(MAX_BODY_BYTES)
    return found


async def _store(calls: _Batch) -> dict[int, MailwrightError]:
    """Store the calls of a request, contacts first, and return the problems by position."""
    for position, call in enumerate(calls.calls):
        if problem := _problem(call):
            calls.problems[position] = problem
    for position, call in calls.of_type("identify"):
        try:
            await _identify(calls, call)
        except (NotDurable, Unauthorized):
            raise
        except MailwrightError as error:
            calls.problems[position] = error
    await _track(calls)
    return calls.problems


def _problem(call: Any) -> MailwrightError | None:
    if not isinstance(call, dict):
        return InvalidInput("A call must be an object.")
    if call.get("type") not in ("track", "identify"):
        return InvalidInput("Mailwright supports the types track and identify.", field="type")
    context = call.get("context")
    nested = context.get("traits") if isinstance(context, dict) else None
    objects = {"traits": call.get("traits"), "properties": call.get("properties"), "context": context}
    for name, value in {**objects, "context.traits": nested}.items():
        if value is not None and not isinstance(value, dict):
            return InvalidInput(f"{name} must be an object.", field=name)
    for name in ("userId", "anonymousId", "messageId"):
        if len(str(call.get(name) or "")) > MAX_ID_LENGTH or not str(call.get(name) or "").isprintable():
            return InvalidInput(f"{name} must have at most {MAX_ID_LENGTH} printable characters.", field=name)
    return None


async def _identify(calls: _Batch, call: Mapping[str, Any]) -> None:
    """Create or change a contact. Traits become attributes; they never subscribe anybody."""
    engine, tenant_id = calls.engine, calls.context.caller.tenant_id
    user_id = _user_id(call)
    known = await find_addresses(engine.database, tenant_id, [user_id] if user_id else [])
    email = _address(call, known)
    if await is_erased(engine.database, tenant_id, email):
        return
    traits = {**((call.get("context") or {}).get("traits") or {}), **(call.get("traits") or {})}
    await contacts.put(engine.database, engine.clock, tenant_id, email, _change(traits))
    if user_id and known.get(user_id) != email and not is_address(user_id):
        await record_external_id(engine.database, tenant_id, user_id, email)


def _change(traits: Mapping[str, Any]) -> ContactChange:
    name = traits.get("name")
    attributes = {
        attribute: value
        for trait, value in traits.items()
        if trait not in ("email", "name") and (attribute := _attribute_name(trait))
    }
    return ContactChange(name=name if isinstance(name, str) else None, attributes=attributes)


def _attribute_name(trait: str) -> str | None:
    return trait if trait.isidentifier() else attribute_name_from_title(trait)


async def _track(calls: _Batch) -> None:
    """Store all events in one commit."""
    engine, now = calls.engine, calls.engine.clock.now()
    tracked = calls.of_type("track")
    ids = {user_id for _, call in tracked if (user_id := _user_id(call))}
    known = await find_addresses(engine.database, calls.context.caller.tenant_id, ids)
    events: dict[int, dict[str, Any]] = {}
    for position, call in tracked:
        try:
            events[position] = _event(call, _address(call, known), now)
        except MailwrightError as error:
            calls.problems[position] = error
    results = await engine.api_events.submit_all(calls.context, list(events.values()))
    for position, result in zip(events, results, strict=True):
        if result.error is not None:
            calls.problems[position] = InvalidInput(result.error.detail, field=result.error.field)


def _event(call: Mapping[str, Any], email: str, now: Instant) -> dict[str, Any]:
    event = {"event": call.get("event"), "email": email, "properties": call.get("properties") or {}}
    if call.get("messageId"):
        event["eventId"] = str(call["messageId"])[:128]
    if (occurred_at := _occurred_at(call, now)) is not None:
        try:
            event["occurredAt"] = isoformat(occurred_at)
        except (ValueError, OverflowError) as error:
            raise InvalidInput("timestamp and sentAt are too far apart.", field="timestamp") from error
    return event


def _occurred_at(call: Mapping[str, Any], now: Instant) -> Instant | None:
    """Return when the event occurred. The client's clock may be wrong, so its own time of sending is subtracted."""
    timestamp = _time(call.get("timestamp"), "timestamp")
    sent_at = _time(call.get("sentAt"), "sentAt")
    if timestamp is None or sent_at is None:
        return timestamp
    return now - max(sent_at - timestamp, 0)


def _time(value: Any, name: str) -> Instant | None:
    if value is None:
        return None
    try:
        if isinstance(value, str) and has_zone(value):
            return max(parse_time(value, UTC), 0)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(f"{name} must be a time with its zone, for example 2027-01-15T08:00:00Z.", field=name)


def _address(call: Mapping[str, Any], known: Mapping[str, str]) -> str:
    """Return the address that a call is about."""
    sources = (call.get("properties"), call.get("traits"), (call.get("context") or {}).get("traits"))
    user_id = _user_id(call)
    given = [source["email"] for source in sources if source and source.get("email")]
    if user_id and is_address(user_id):
        given.append(user_id)
    if given:
        return normalize_deliverable_email(str(given[0]))
    if user_id in known:
        return known[user_id]
    raise UnknownAddress(_NO_ADDRESS, field="userId")


def _user_id(call: Mapping[str, Any]) -> str:
    return str(call.get("userId") or "")
