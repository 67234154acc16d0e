"""Answers about notifications: how one stands, why it waits, and what an event made."""

from typing import Any

from mailwright.schemas.answers import ResponseModel, Time
from mailwright.sources.notifications import times
from mailwright.sources.notifications.producer import EmittedEvent
from mailwright.sources.notifications.service import NotificationStatus
from mailwright.sources.notifications.statuses import WaitReason


class NotificationWaitResponse(ResponseModel):
    """`until` is null where nobody knows when the wait ends."""

    reason: WaitReason
    until: Time | None
    detail: str


class NotificationResponse(ResponseModel):
    """As the queue has it. `wait` says why a pending one is not sent now; `outlook` what happens to one that is due."""

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
    outbox_id: str | None


class NotificationListResponse(ResponseModel):
    notifications: list[NotificationResponse]
    next_cursor: str | None


class NotificationEventResponse(ResponseModel):
    """`isRepeat`: the same was told within the window, and nothing was written."""

    open_event_id: int
    notifications: int
    is_repeat: bool


def notification(standing: NotificationStatus) -> dict[str, Any]:
    row, wait = standing.row, standing.wait
    return {
        "notificationId": row.notification_id,
        "openEventId": row.open_event_id,
        "subscriptionId": row.subscription_id,
        "dedupeKey": row.dedupe_key,
        "to": standing.to,
        "status": row.status,
        "attempts": row.attempts,
        "lastAttemptAt": row.last_attempt_at,
        "lockedBy": row.locked_by,
        "lockedAt": row.locked_at,
        "error": standing.error,
        "createdAt": row.created_at,
        "wait": None
        if wait is None
        else {
            "reason": wait.reason,
            "until": None if wait.until is None else times.format_time(wait.until),
            "detail": wait.detail,
        },
        "outlook": standing.outlook,
        "outboxId": standing.outbox_id,
    }


def emitted(found: EmittedEvent) -> dict[str, Any]:
    return {
        "openEventId": found.open_event_id,
        "notifications": found.notifications,
        "isRepeat": found.is_repeat,
    }
