"""Requests about notifications: an event, and which notifications to list."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field

from mailwright.schemas.paging import Page
from mailwright.sources.api.requests import Moment, RequestModel, Variables
from mailwright.sources.notifications.event_kinds import OPEN_SEAT
from mailwright.sources.notifications.producer import NewEvent
from mailwright.sources.notifications.statuses import FanoutStatus

Word = Annotated[str, Field(min_length=1, max_length=200)]


class NotificationEventRequest(RequestModel):
    """What happened, to which subject: the term, the campus and the index number name it, as subscriptions do."""

    event_type: Word = OPEN_SEAT
    term_id: Word
    campus_code: Word
    index_number: Word
    status_before: Word | None = None
    status_after: Word
    event_at: Moment | None = None
    section_id: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    dedupe_key: Word | None = None
    trace_id: Word | None = None
    payload: Variables | None = None

    def happening(self) -> NewEvent:
        given: dict[str, Any] = self.model_dump(exclude={"event_type", "payload"})
        return NewEvent(kind=self.event_type, payload=self.payload or {}, **given)


class NotificationPage(Page):
    status: Annotated[FanoutStatus | None, Field(description="Only these.")] = None


NotificationQuery = Annotated[NotificationPage, Query()]
