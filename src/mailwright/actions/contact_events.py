"""Contact events: what contacts did in your own systems."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from mailwright.actions.accepted_messages import ItemErrorResponse
from mailwright.actions.context import Context
from mailwright.actions.declaration import Noun, Table, time_of
from mailwright.audience.contact_events import list_latest
from mailwright.audience.event_schema import EventSchemaCounter, load_schema
from mailwright.domain import address
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.schemas.paging import Page
from mailwright.sources.api.contact_events import EventName, EventResult
from mailwright.sources.api.fields import Address

noun = Noun("event", "Contact events: what contacts did in your own systems.", "/v1/events")


class EventPage(Page):
    event: Annotated[EventName | None, Field(description="Only events with this name.")] = None
    email: Annotated[Address | None, Field(description="Only events of this address.")] = None

    @property
    def address(self) -> str | None:
        return None if self.email is None else address.normal(self.email)


class EventResultResponse(ResponseModel):
    """The result for one event. A duplicate was stored by an earlier request."""

    event_id: Annotated[str | None, Field(description="Null if the event is invalid.")]
    status: Literal["accepted", "duplicate", "refused"]
    error: Annotated[ItemErrorResponse | None, Field(description="Why the event was refused.")]


class EventsResponse(ResponseModel):
    """One result for each event, in the same order, and their number by status."""

    accepted: int
    duplicate: int
    refused: int
    results: list[EventResultResponse]


class ContactEventResponse(ResponseModel):
    event_id: str
    event: str
    email: str
    properties: dict[str, Any]
    occurred_at: Time
    received_at: Time
    is_late: Annotated[bool, Field(description="It arrived more than a day after it occurred.")]


class ContactEventListResponse(ResponseModel):
    events: list[ContactEventResponse]
    next_cursor: str | None


class EventPropertyResponse(ResponseModel):
    name: str
    types: Annotated[dict[str, int], Field(description="How many events had a value of each JSON type.")]


class EventNameResponse(ResponseModel):
    event: str
    count: int
    first_at: Time
    last_at: Time
    properties: list[EventPropertyResponse]


class EventSchemaResponse(ResponseModel):
    """The names of all events since the first one, with their properties. New events appear within seconds."""

    events: list[EventNameResponse]


def events_content(results: Sequence[EventResult]) -> dict[str, Any]:
    """Return the content of an `EventsResponse`, without a model for each event."""
    rows = [
        {
            "eventId": result.event_id,
            "status": "refused" if result.status is None else result.status.value,
            "error": None
            if result.error is None
            else {"code": result.error.code, "detail": result.error.detail, "field": result.error.field},
        }
        for result in results
    ]
    statuses = [row["status"] for row in rows]
    return {**{status: statuses.count(status) for status in ("accepted", "duplicate", "refused")}, "results": rows}


@noun.get(
    command="list",
    command_defaults={"limit": 20},
    shown=Table(
        "events",
        {
            "Time ({zone})!": time_of("occurred_at"),
            "Event": "event",
            "Address": "email",
            "Properties": lambda each: orjson.dumps(each.properties).decode(),
        },
        nothing="No events.",
    ),
)
async def list_events(at: Context, page: EventPage) -> ContactEventListResponse:
    """List events, latest first."""
    found = await list_latest(
        at.database,
        at.tenant_id,
        limit=page.limit,
        before=page.before("event"),
        email=page.address,
        name=page.event,
    )
    return ContactEventListResponse(
        events=[combine(ContactEventResponse, each, event=each.name) for each in found],
        next_cursor=page.next_cursor("event", [each.id for each in found]),
    )


@noun.get(
    "/schema",
    command="schema",
    shown=Table(
        "events",
        {
            "Event": "event",
            "Count#": lambda each: f"{each.count:,}",
            "Last ({zone})!": time_of("last_at"),
            "Properties": lambda each: ", ".join(f"{one.name} ({' or '.join(one.types)})" for one in each.properties),
        },
        nothing="No events.",
    ),
)
async def schema(at: Context) -> EventSchemaResponse:
    """Show the names of events with their properties, types, counts and times."""
    if at.engine is None:  # A server counts new events in the background.
        await EventSchemaCounter(at.database).count_all()
    found = await load_schema(at.database, at.tenant_id)
    return EventSchemaResponse(
        events=[combine(EventNameResponse, each, event=each.name, count=each.events) for each in found]
    )
