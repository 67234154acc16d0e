"""Models of contact events."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from mailwright.audience.contact_events import ContactEvent
from mailwright.audience.event_schema import EventSchema
from mailwright.domain import address
from mailwright.schemas.base import ResponseModel, Time
from mailwright.schemas.messages import ItemErrorResponse
from mailwright.schemas.paging import Page
from mailwright.sources.api.contact_events import EventName, EventResult
from mailwright.sources.api.fields import Address


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


def contact_event_response(event: ContactEvent) -> ContactEventResponse:
    return ContactEventResponse(
        event_id=event.event_id,
        event=event.name,
        email=event.email,
        properties=dict(event.properties),
        occurred_at=event.occurred_at,
        received_at=event.received_at,
        is_late=event.is_late,
    )


def event_schema_response(schema: Sequence[EventSchema]) -> EventSchemaResponse:
    return EventSchemaResponse(
        events=[
            EventNameResponse(
                event=each.name,
                count=each.events,
                first_at=each.first_at,
                last_at=each.last_at,
                properties=[EventPropertyResponse(name=one.name, types=dict(one.types)) for one in each.properties],
            )
            for each in schema
        ]
    )
