"""Models of notifications and of the events that cause them."""

from datetime import UTC, tzinfo
from typing import Annotated, Any

from pydantic import Field

from mailwright.schemas.base import ResponseModel, Time
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import RequestModel, RequestTime, Variables
from mailwright.sources.notifications import times
from mailwright.sources.notifications.event_kinds import OPEN_SEAT
from mailwright.sources.notifications.producer import NewEvent
from mailwright.sources.notifications.service import NotificationStatus
from mailwright.sources.notifications.statuses import FanoutStatus, WaitReason
from mailwright.texts.explanations import message_text

Word = Annotated[str, Field(min_length=1, max_length=200)]


class NotificationEventRequest(RequestModel):
    """An event and its subject. The term, campus and index number identify the subject, as in subscriptions."""

    event_type: Word = OPEN_SEAT
    term_id: Word
    campus_code: Word
    index_number: Word
    status_before: Word | None = None
    status_after: Word
    event_at: RequestTime | None = None
    section_id: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    dedupe_key: Word | None = None
    trace_id: Word | None = None
    payload: Variables | None = None

    def event(self) -> NewEvent:
        fields: dict[str, Any] = self.model_dump(exclude={"event_type", "payload"})
        return NewEvent(kind=self.event_type, payload=self.payload or {}, **fields)


class NotificationPage(Page):
    status: Annotated[FanoutStatus | None, Field(description="Only notifications with this status.")] = None


class NotificationWaitResponse(ResponseModel):
    """`until` is null if the end of the wait is unknown."""

    reason: WaitReason
    until: Time | None
    detail: str


class NotificationResponse(ResponseModel):
    """`wait`: why a pending notification is not sent now. `outlook`: what will happen to a notification that is due.

    `explanation`: why the message of a locked notification is not sent yet, as a sentence; only for one notification.
    """

    notification_id: int
    open_event_id: int
    subscription_id: int
    dedupe_key: str
    to: str | None
    status: str
    attempts: int
    last_attempt_at: str | None
    locked_by: str | None
    locked_at: str | None
    error: Any
    created_at: str | None
    wait: NotificationWaitResponse | None
    outlook: str | None
    explanation: str | None
    outbox_id: str | None


class NotificationListResponse(ResponseModel):
    notifications: list[NotificationResponse]
    next_cursor: str | None


class RequeuedNotificationsResponse(ResponseModel):
    requeued: int


class NotificationEventResponse(ResponseModel):
    """`isRepeat`: true if the same event came within the deduplication window, so that nothing was written."""

    open_event_id: int
    notifications: int
    is_repeat: bool


def notification_response(notification: NotificationStatus) -> NotificationResponse:
    row = notification.row
    return NotificationResponse(
        notification_id=row.notification_id,
        open_event_id=row.open_event_id,
        subscription_id=row.subscription_id,
        dedupe_key=row.dedupe_key,
        to=notification.to,
        status=row.status,
        attempts=row.attempts,
        last_attempt_at=row.last_attempt_at,
        locked_by=row.locked_by,
        locked_at=row.locked_at,
        error=notification.error,
        created_at=row.created_at,
        wait=_wait(notification),
        outlook=notification.outlook,
        explanation=explanation_sentence(notification),
        outbox_id=notification.outbox_id,
    )


def explanation_sentence(notification: NotificationStatus, zone: tzinfo = UTC) -> str | None:
    """Return the sentence that `message explain` shows for the message of a locked notification."""
    found = notification.explanation
    return None if found is None else message_text(found, zone).sentence


def _wait(notification: NotificationStatus) -> NotificationWaitResponse | None:
    wait = notification.wait
    if wait is None:
        return None
    until = None if wait.until is None else times.format_time(wait.until)
    return NotificationWaitResponse(reason=wait.reason, until=until, detail=wait.detail)
