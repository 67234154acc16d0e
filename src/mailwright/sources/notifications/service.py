"""List notifications with the reason why each waits, requeue ended ones, and write events."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.explanation import MessageExplanation
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import Status
from mailwright.outbox import audit_log
from mailwright.outbox.explain import explain
from mailwright.sources.notifications import jobs, links
from mailwright.sources.notifications.decisions import (
    EndDecision,
    GiveUpDecision,
    NotificationConfig,
    RowContext,
    SendDecision,
    decide,
    lock_wait,
)
from mailwright.sources.notifications.event_kinds import EventKind
from mailwright.sources.notifications.fanout import row_context
from mailwright.sources.notifications.jobs import NotificationRow
from mailwright.sources.notifications.links import MessageLink
from mailwright.sources.notifications.preferences import WaitDecision
from mailwright.sources.notifications.producer import EmittedEvent, EventProducer, NewEvent
from mailwright.sources.notifications.queue import NotificationQueue
from mailwright.sources.notifications.row_notes import Outage, find_outage, is_deferred_by_provider
from mailwright.sources.notifications.statuses import FanoutStatus, MessageLinkState, WaitReason
from mailwright.storage.database import Database

NEWEST = 2**62
# The reasons of rows whose messages a worker holds.
HELD = (
    WaitReason.LOCKED,
    WaitReason.IN_DOUBT,
    WaitReason.PROVIDER_UNAVAILABLE,
    WaitReason.PROVIDER_THROTTLED,
    WaitReason.DEFERRED,
)


@dataclass(frozen=True, slots=True)
class NotificationStatus:
    """A notification with its current status."""

    row: NotificationRow
    wait: WaitDecision | None  # why a pending notification is not sent now
    outlook: str | None  # what happens next to a pending notification that does not wait, as a sentence
    outbox_id: str | None  # its message, if one was created
    explanation: MessageExplanation | None = None  # why its message is not sent yet; only for one notification

    @property
    def to(self) -> str | None:
        value = (self.row.subscription or {}).get("contact_value")
        return None if value is None else str(value).strip()

    @property
    def error(self) -> Any:
        error = jobs.parse_json_column(self.row.error)
        return self.row.error if isinstance(error, jobs.RowError) else error


class NotificationService:
    def __init__(
        self, database: Database, clock: Clock, queue: NotificationQueue, config: NotificationConfig, tenant_id: int
    ) -> None:
        self.tenant_id = tenant_id  # the tenant that the notifications belong to
        self._database = database
        self._clock = clock
        self._queue = queue
        self._config = config

    @property
    def kinds(self) -> list[EventKind]:
        """The declared event kinds, sorted by name."""
        return sorted(self._config.kinds.by_name.values(), key=lambda kind: kind.name)

    async def list_notifications(
        self, *, status: FanoutStatus | None = None, kind: str | None = None, before: int = NEWEST, limit: int = 50
    ) -> list[NotificationStatus]:
        """Return the newest notifications first, optionally of one status or event kind."""
        rows: list[NotificationRow] = []
        while len(rows) < limit:
            page = await self._queue.newest(status=status, kind=kind, before=before, limit=limit)
            rows += [row for row in page if kind is None or _event_kind(row) == kind]
            if len(page) < limit:
                break
            before = page[-1].notification_id
        return await self._statuses(rows[:limit])

    async def find(self, notification_id: int) -> NotificationStatus:
        rows = await self._queue.find([notification_id])
        if not rows:
            raise NotFound
        [notification] = await self._statuses(list(rows.values()))
        if notification.outbox_id is None or notification.row.status != FanoutStatus.PENDING:
            return notification
        if notification.wait is None or notification.wait.reason not in HELD:
            return notification
        found = await explain(self._database, self._clock, notification.outbox_id, tenant_id=None)
        return replace(notification, explanation=found)

    async def count_by_status(self) -> dict[str, int]:
        return await self._queue.count_by_status()

    async def emit(self, event: NewEvent) -> EmittedEvent:
        return await EventProducer(self._queue, self._clock, self._config.kinds).emit(event)

    async def requeue(self, notification_id: int, *, actor: str) -> NotificationStatus:
        """Reset an ended notification to pending, without attempts and error. A sent one cannot be requeued."""
        notification = await self.find(notification_id)
        if notification.row.status in (FanoutStatus.SENT, FanoutStatus.PENDING):
            raise NotPossibleNow(
                "The notification is {status}. Only failed, skipped or expired ones can be requeued.",
                status=notification.row.status,
            )
        await self._requeue([notification_id], actor)
        return await self.find(notification_id)

    async def requeue_all(self, status: FanoutStatus, *, actor: str, limit: int) -> int:
        if status in (FanoutStatus.SENT, FanoutStatus.PENDING):
            raise NotPossibleNow(
                "Notifications that are {status} cannot be requeued; failed, skipped and expired ones can.",
                status=status,
            )
        rows = await self._queue.newest(status=status, before=NEWEST, limit=limit)
        return len(await self._requeue([row.notification_id for row in rows], actor))

    async def _requeue(self, notification_ids: Sequence[int], actor: str) -> set[int]:
        requeued = await self._queue.requeue(notification_ids)
        if requeued:
            async with self._database.write() as tx:
                await audit_log.record(
                    tx,
                    self._clock.now(),
                    actor=actor,
                    action="notification.requeue",
                    subject="notifications",
                    tenant_id=self.tenant_id,
                    detail={"notificationIds": sorted(requeued)[:100], "count": len(requeued)},
                )
        return requeued

    async def _statuses(self, rows: Sequence[NotificationRow]) -> list[NotificationStatus]:
        if not rows:
            return []
        now = self._clock.now()
        async with self._database.read() as tx:
            known = await links.find_newest(tx, self._queue.name, [row.key for row in rows])
            in_progress = await links.count_in_progress(tx, self._queue.name, (row.subscription_id for row in rows))
        related = await self._queue.related(rows)
        outage = await find_outage(self._database, self.tenant_id, now)
        statuses = []
        for row in rows:
            link = known.get(row.key)
            wait = _message_wait(link, outage, now)
            if wait is not None and row.status == FanoutStatus.PENDING:
                outlook = None
            else:
                wait, outlook = self._outlook(row, row_context(row, related, in_progress), now)
            statuses.append(NotificationStatus(row, wait, outlook, link.outbox_id if link else None))
        return statuses

    def _outlook(
        self, row: NotificationRow, context: RowContext, now: Instant
    ) -> tuple[WaitDecision | None, str | None]:
        if row.status != FanoutStatus.PENDING:
            return None, None
        if (locked := lock_wait(row, self._config.kinds, now)) is not None:
            return locked, None
        decision = decide(row, context, self._config, now)
        match decision:
            case WaitDecision():
                return decision, None
            case SendDecision():
                return None, "Due now. The next available worker will send it."
            case EndDecision(status, reason):
                return None, f"Will be marked {status}: {reason.message}"
            case GiveUpDecision():
                return None, "All attempts are used. Will be marked failed."
            case _:
                assert_never(decision)


def _message_wait(link: MessageLink | None, outage: Outage | None, now: Instant) -> WaitDecision | None:
    """Return why the message of a row is not sent yet: the doubt, the provider's reason, or another deferral."""
    if link is None or link.state is not MessageLinkState.SENDING:
        return None
    if link.status == Status.IN_DOUBT:
        detail = f"the provider may have the message: {_words(link.error_code, link.error_reason)}"
        return WaitDecision(WaitReason.IN_DOUBT, link.claimable_at, detail)
    is_waiting = link.status in (Status.PENDING, Status.RETRY_SCHEDULED) and not link.is_parked
    if is_waiting and link.error_code is not None and is_deferred_by_provider(link):
        detail = f"{link.provider}: {_words(link.error_code, link.error_reason)}"
        return WaitDecision(WaitReason(link.defer_reason or ""), link.claimable_at, detail)
    if is_waiting and outage is not None:
        detail = f"{outage.provider}: {_words(outage.code, outage.message)}"
        return WaitDecision(WaitReason(outage.reason), outage.until, detail)
    if is_waiting and link.defer_reason is not None and link.claimable_at > now:
        return WaitDecision(WaitReason.DEFERRED, link.claimable_at, f"deferred by {link.defer_reason}")
    return None


def _words(code: str | None, reason: str | None) -> str:
    return f"{code}: {reason}" if reason else str(code)


def _event_kind(row: NotificationRow) -> Any:
    return jobs.event_kind_name(jobs.parse_json_column((row.event or {}).get("payload")))
