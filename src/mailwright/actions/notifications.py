"""Notifications from an external queue: publish events, list notifications, and requeue them.

The commands `notify run` and `notify init` are written by hand: one is a service, the other one creates the queue.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, tzinfo
from http import HTTPStatus
from typing import Annotated, Any, Final

from annotated_types import Ge, Le
from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    MANAGE,
    Argument,
    Badge,
    Line,
    LocalSetting,
    Moment,
    Noun,
    Option,
    Table,
    Tone,
    TwoLines,
)
from mailwright.app.notification_queue import open_notification_service
from mailwright.domain.errors import ConfigurationInvalid, NotFound, NotPossibleNow
from mailwright.outbox import tenants
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.schemas.paging import Page, decode_cursor
from mailwright.sources.api.fields import RequestModel, RequestTime, Variables
from mailwright.sources.api.validation import FieldError, RequestInvalid
from mailwright.sources.notifications.event_kinds import OPEN_SEAT
from mailwright.sources.notifications.producer import NewEvent
from mailwright.sources.notifications.service import NEWEST, NotificationService, NotificationStatus
from mailwright.sources.notifications.statuses import FanoutStatus, WaitReason
from mailwright.texts.explanations import message_text


async def _find_owner(at: Context) -> int:
    return (await tenants.find(at.database, at.settings.notify_tenant)).id


noun = Noun(
    "notify",
    "Notifications from an external queue.",
    "/v1/notifications",
    parameters={"notification_id": ("ID", "The id shown by `notify list`.")},
    has_one_tenant=True,
    find_owner=_find_owner,
    local_settings={
        "database": LocalSetting(
            "notify_database_url", "URL", "The database of the queue.", "MAILWRIGHT_NOTIFY_DATABASE_URL"
        ),
        "schema": LocalSetting("notify_schema", "TEXT", "The PostgreSQL schema of the queue's tables."),
    },
    guard=Context.require_default_sender,  # Notifications are sent from it.
)

_LOOKS: Final[Mapping[str, tuple[Tone, str]]] = {
    FanoutStatus.PENDING: ("waiting", ""),
    FanoutStatus.SENT: ("good", ""),
    FanoutStatus.SKIPPED: ("off", ""),
    FanoutStatus.FAILED: ("bad", ""),
    FanoutStatus.EXPIRED: ("off", "⊘"),
}
_NO_QUEUE: Final = "No notification queue is configured. Set MAILWRIGHT_NOTIFY_DATABASE_URL."
_Text = Annotated[str, Field(min_length=1, max_length=200)]
_Id = Annotated[int, Ge(1), Le(2**53)]


class NotificationEventRequest(RequestModel):
    """An event and its subject. The term, campus and index number identify the subject, as in subscriptions."""

    term_id: Annotated[_Text, Field(description="The term of the subject."), Option("--term")]
    campus_code: Annotated[_Text, Field(description="The campus of the subject."), Option("--campus")]
    index_number: Annotated[_Text, Field(description="The index number of the subject."), Option("--index")]
    status_after: Annotated[_Text, Field(description="The current status, for example Open."), Option("--after")]
    status_before: Annotated[
        _Text | None, Field(description="The previous status, for example Closed."), Option("--before")
    ] = None
    event_type: Annotated[_Text, Field(description="The event type."), Option("--kind")] = OPEN_SEAT
    event_at: Annotated[
        RequestTime | None, Field(description="The time of the event."), Option("--at", "now", "TIME")
    ] = None
    payload: Annotated[
        Variables | None, Field(description='Template data as a JSON object, for example {"courseTitle": "Algebra"}.')
    ] = None
    dedupe_key: Annotated[_Text | None, Field(description="The deduplication key."), Option(default="derived")] = None
    trace_id: Annotated[_Text | None, Field(description="Stored with each message.")] = None
    section_id: Annotated[
        Annotated[int, Field(ge=1, le=2**31 - 1)] | None,
        Field(description="The section of the subject."),
        Option(default="found by its index number"),
    ] = None

    def event(self) -> NewEvent:
        fields: dict[str, Any] = self.model_dump(exclude={"event_type", "payload"})
        return NewEvent(kind=self.event_type, payload=self.payload or {}, **fields)


class NotificationPage(Page):
    status: Annotated[FanoutStatus | None, Field(description="Only notifications with this status.")] = None


class RequeueNotificationsRequest(RequestModel):
    """Either the id of a notification, or a status: all notifications with it are requeued."""

    notification_id: Annotated[_Id | None, Field(description="The id shown by `notify list`."), Argument("[ID]")] = None
    status: Annotated[
        FanoutStatus | None, Field(description="Requeue all with this status: failed, skipped or expired.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=10_000, description="Maximum number of notifications, newest first.")] = 10_000


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


def explanation_sentence(notification: NotificationStatus, zone: tzinfo = UTC) -> str | None:
    """Return the sentence that `message explain` shows for the message of a locked notification."""
    found = notification.explanation
    return None if found is None else message_text(found, zone).sentence


def _response(at: Context, found: NotificationStatus) -> NotificationResponse:
    return combine(NotificationResponse, found, found.row, explanation=explanation_sentence(found, at.zone))


def _status(found: NotificationResponse) -> Badge:
    tone, shape = _LOOKS.get(found.status, ("off", " "))
    return Badge(found.status, tone, shape=shape)


def _reason(found: NotificationResponse) -> TwoLines:
    """Describe why a notification waits and until when, or its error."""
    if found.wait is not None:
        until = ("until ", Moment(found.wait.until, names_zone=True)) if found.wait.until is not None else ""
        return TwoLines(f"{found.wait.reason}: {found.wait.detail}", until)
    if found.outlook is not None:
        return TwoLines(found.outlook, "")
    if isinstance(found.error, dict) and "code" in found.error:
        return TwoLines(str(found.error["code"]), str(found.error.get("message") or ""))
    return TwoLines("", "")


@noun.get(
    command="list",
    help="List notifications, latest first, each with the reason why it waits.",
    shown=Table(
        "notifications",
        {
            "Id#": "notification_id",
            "Status!": _status,
            "To": lambda each: each.to or "–",
            "Attempts#": "attempts",
            "Reason": _reason,
        },
        nothing="No notifications.",
    ),
    conflicts=True,
)
async def list_notifications(at: Context, page: NotificationPage) -> NotificationListResponse:
    """List the notifications, latest first, each with the reason why it waits. Empty if no queue is configured."""
    before = decode_cursor("notification", page.cursor)[0] if page.cursor is not None else NEWEST
    async with _open_service(at) as service:
        found = await service.list_notifications(status=page.status, before=before, limit=page.limit) if service else []
    return NotificationListResponse(
        notifications=[_response(at, each) for each in found],
        next_cursor=page.next_cursor("notification", [each.row.notification_id for each in found]),
    )


def _published_lines(found: NotificationEventResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    if found.is_repeat:
        yield f"Nothing was written: event {found.open_event_id} is the same, within the deduplication window."
    else:
        yield f"Published event {found.open_event_id}. Notifications created: {found.notifications}."


@noun.post(
    "/events",
    status=HTTPStatus.CREATED,
    scope=MANAGE,
    audit=None,
    command="emit",
    help="Publish an event. Every subscriber of its subject gets a notification.",
    shown=_published_lines,
    conflicts=True,
)
async def emit(at: Context, wanted: NotificationEventRequest) -> NotificationEventResponse:
    """Publish an event; every subscriber of its subject gets a notification.

    Repeating an event within the deduplication window of its kind changes nothing, and `isRepeat` is true.
    """
    async with _open_service(at) as service:
        if service is None:
            raise NotPossibleNow(_NO_QUEUE)
        return NotificationEventResponse.model_validate(await service.emit(wanted.event()))


def _lines(found: NotificationResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield (f"{found.notification_id}  ", _status(found), f"  to {found.to or 'nobody'}")
    for part in _reason(found):
        if part:
            yield ("  ", *(part if isinstance(part, tuple) else (part,)))
    if found.explanation is not None:
        yield f"  {found.explanation}"
    if found.outbox_id is not None:
        yield f"  `mailwright message show {found.outbox_id}` shows the message."


@noun.get("/{notificationId}", command="show", shown=_lines, conflicts=True)
async def show(at: Context, notification_id: _Id) -> NotificationResponse:
    """Show a notification: its status, why it waits, and its message."""
    async with _open_service(at) as service:
        if service is None:
            raise NotFound
        return _response(at, await service.find(notification_id))


@noun.post("/{notificationId}/requeue", scope=MANAGE, audit="notification.requeue")
async def requeue(at: Context, notification_id: _Id) -> NotificationResponse:
    """Requeue a notification that failed, was skipped or expired. One that was sent stays sent."""
    async with _open_service(at) as service:
        if service is None:
            raise NotFound
        return _response(at, await service.requeue(notification_id, actor=at.actor))


@noun.post(
    "/requeue",
    scope=MANAGE,
    audit="notification.requeue",
    command="requeue",
    help="Reset notifications to pending with no attempts. Sent notifications stay sent.",
    shown="{requeued} requeued.",
)
async def requeue_many(at: Context, wanted: RequeueNotificationsRequest) -> RequeuedNotificationsResponse:
    """Requeue one notification, or all that failed, were skipped or expired. Sent notifications stay sent."""
    if (wanted.notification_id is None) == (wanted.status is None):
        raise RequestInvalid([FieldError("status", "INVALID", "is needed without an id, and not allowed with one")])
    async with _open_service(at) as service:
        if service is None:
            raise NotPossibleNow(_NO_QUEUE)
        return RequeuedNotificationsResponse(requeued=await _requeue(at, service, wanted))


async def _requeue(at: Context, service: NotificationService, wanted: RequeueNotificationsRequest) -> int:
    if wanted.status is not None:
        return await service.requeue_all(wanted.status, actor=at.actor, limit=wanted.limit)
    assert wanted.notification_id is not None
    try:
        await service.requeue(wanted.notification_id, actor=at.actor)
    except NotFound:
        raise RequestInvalid([FieldError("notificationId", "UNKNOWN_ID", "names no notification")]) from None
    return 1


@asynccontextmanager
async def _open_service(at: Context) -> AsyncIterator[NotificationService | None]:
    """Yield None if the server has no queue, or if the queue belongs to another tenant."""
    if at.engine is None:
        async with open_notification_service(at.settings, at.database, at.clock) as service:
            yield service
        return
    if at.engine.open_notifications is None:
        yield None
        return
    try:
        async with at.engine.open_notifications() as service:
            yield service if service.tenant_id == at.tenant_id else None
    except ConfigurationInvalid as error:
        raise NotPossibleNow("The notification queue cannot be used. `mailwright notify list` shows why.") from error
