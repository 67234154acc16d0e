"""Contact events that applications submit through the API: validation, and one result for each event."""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StrictBool

from mailwright.audience.contact_events import ContactEvents, EventStatus, NewContactEvent, encode_properties
from mailwright.domain import address
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.errors import IdempotencyConflict
from mailwright.domain.ids import uuid7s
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.sources.api.fields import Address, Identifier, RequestModel, RequestTime, is_deeper_than
from mailwright.sources.api.messages import RejectedItem, RequestContext
from mailwright.sources.api.validation import FieldError, RequestInvalid, invalid, parse

MAX_BATCH: Final = 1_000
MAX_NAME_LENGTH: Final = 100
MAX_PROPERTIES: Final = 100
MAX_PROPERTY_NAME_LENGTH: Final = 100
MAX_PROPERTIES_BYTES: Final = 32 * 1024
MAX_DEPTH: Final = 5
# Clocks of other servers differ. A later time is a mistake, and would count in segments before it happens.
MAX_AHEAD: Final[Instant] = 10 * MINUTE

# The error code if the ID of an event was already used for another event.
ID_USED: Final = "EVENT_ID_USED"


def _name(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise invalid("invalid", lazy_gettext("must be printable text without spaces at its ends"))
    return text


def _properties(data: dict[str, Any]) -> dict[str, Any]:
    for name in data:
        if not 1 <= len(name) <= MAX_PROPERTY_NAME_LENGTH or not name.isprintable():
            reason = f"have a name that is empty, unprintable or longer than {MAX_PROPERTY_NAME_LENGTH} characters"
            raise invalid("invalid_name", reason)
    if len(data) > MAX_PROPERTIES:
        raise invalid("too_many", lazy_gettext("are more than {max_properties}", max_properties=MAX_PROPERTIES))
    if is_deeper_than(data, MAX_DEPTH + 1):
        raise invalid("too_deep", lazy_gettext("are nested more than {max_depth} levels deep", max_depth=MAX_DEPTH))
    encoded = encode_properties(data)
    if len(encoded.encode()) > MAX_PROPERTIES_BYTES:
        raise invalid(
            "too_large",
            lazy_gettext(
                "are larger than {max_properties_bytes} KB", max_properties_bytes=MAX_PROPERTIES_BYTES // 1024
            ),
        )
    if "\\u0000" in encoded:
        raise invalid("invalid", lazy_gettext("contain a character that cannot be stored (U+0000)"))
    return data


EventName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH), AfterValidator(_name)]
EventId = Annotated[Identifier, Field(description="Your own ID. Mailwright stores only the first event with it.")]
Properties = Annotated[dict[str, Any], AfterValidator(_properties)]
CreateContact = Annotated[
    StrictBool,
    Field(description="Create the contact if there is none. It is not subscribed to anything."),
]


class EventRequest(RequestModel):
    """An action of a contact, for example `order.placed`."""

    event: EventName
    email: Address
    properties: Annotated[Properties, Field(default_factory=dict)]
    occurred_at: Annotated[RequestTime | None, Field(description="By default, when the request arrived.")] = None
    event_id: EventId | None = None
    create_contact: CreateContact = False


class EventsRequest(RequestModel):
    """One event with its fields, or up to 1,000 in `events`. Each of these is validated on its own."""

    event: EventName | None = None
    email: Address | None = None
    properties: Properties | None = None
    occurred_at: RequestTime | None = None
    event_id: EventId | None = None
    create_contact: CreateContact | None = None
    events: Annotated[list[Any], Field(min_length=1, max_length=MAX_BATCH)] | None = None


class _BatchRequest(RequestModel):
    events: Annotated[list[Any], Field(min_length=1, max_length=MAX_BATCH)]


@dataclass(slots=True)  # Not declared frozen: one is created for each event.
class EventResult:
    """The result for one event. `error` is set if it was refused."""

    event_id: str | None
    status: EventStatus | None
    error: RejectedItem | None = None


class ApiEvents:
    def __init__(self, clock: Clock, events: ContactEvents) -> None:
        self._clock = clock
        self._events = events

    async def submit(self, context: RequestContext, body: Any) -> list[EventResult]:
        """Store the events of a request durably.

        The results are in the order of the events. If the request has a single event and it is refused, raise an error
        instead.
        """
        if isinstance(body, dict) and "events" in body:
            return await self.submit_all(context, parse(_BatchRequest, body).events)
        parse(EventRequest, body)
        results = await self.submit_all(context, [body])
        if (error := results[0].error) is not None:
            if error.code == ID_USED:
                raise IdempotencyConflict(error.detail)
            field = error.field or "body"
            raise RequestInvalid([FieldError(field, error.code, error.detail.removeprefix(f"{field}: "))])
        return results

    async def close(self) -> None:
        await self._events.close()

    async def submit_all(self, context: RequestContext, items: Sequence[Any]) -> list[EventResult]:
        """Store all valid events in one commit."""
        now = self._clock.now()
        ids = _ids(context.idempotency_key, now, len(items))
        parsed = [_parse(context, item, event_id, now) for item, event_id in zip(items, ids, strict=True)]
        statuses = iter(await self._events.accept([one for one in parsed if isinstance(one, NewContactEvent)]))
        return [
            EventResult(None, None, one) if isinstance(one, RejectedItem) else _result(one, next(statuses))
            for one in parsed
        ]


def _ids(key: str | None, now: Instant, count: int) -> list[str]:
    """Return IDs for events without one. With an idempotency key, a repeated request gets the same IDs."""
    if key is None:
        return uuid7s(now, count)
    return [hashlib.sha256(f"{index}:{key}".encode()).hexdigest()[:32] for index in range(count)]


def _parse(context: RequestContext, item: Any, event_id: str, now: Instant) -> NewContactEvent | RejectedItem:
    try:
        request = parse(EventRequest, item)
    except RequestInvalid as error:
        first = error.errors[0]
        return RejectedItem(first.code, str(error), first.field)
    occurred_at = now if request.occurred_at is None else request.occurred_at
    if occurred_at > now + MAX_AHEAD:
        detail = f"occurredAt: is more than {MAX_AHEAD // MINUTE} minutes in the future"
        return RejectedItem("IN_THE_FUTURE", detail, "occurredAt")
    return NewContactEvent(
        context.caller.tenant_id,
        request.event_id or event_id,
        address.normal(request.email),
        request.event,
        encode_properties(request.properties),
        occurred_at,
        request.event_id is not None or context.idempotency_key is not None,
        request.create_contact,
    )


def _result(event: NewContactEvent, status: EventStatus) -> EventResult:
    if status is not EventStatus.CONFLICT:
        return EventResult(event.event_id, status)
    detail = "This eventId or idempotency key was already used for a different event. Use a new one for each event."
    return EventResult(event.event_id, None, RejectedItem(ID_USED, detail, "eventId"))
