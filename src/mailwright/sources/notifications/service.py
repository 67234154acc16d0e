"""The desk: where people see how notifications stand and why they wait, and requeue what has ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.outbox import audit_log
from mailwright.sources.notifications import jobs, links
from mailwright.sources.notifications.decisions import (
    EndDecision,
    GiveUpDecision,
    NotificationConfig,
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
from mailwright.sources.notifications.statuses import FanoutStatus
from mailwright.storage.database import Database

NEWEST = 2**62


@dataclass(frozen=True, slots=True)
class NotificationStatus:
    """A notification as it stands now."""

    row: NotificationRow
    wait: WaitDecision | None  # why a pending one is not sent now
    outlook: str | None  # what happens to a pending one that does not wait, in a sentence
    outbox_id: str | None  # its message, where it became one

    @property
    def to(self) -> str | None:
        value = (self.row.subscription or {}).get("contact_value")
        return None if value is None else str(value)

    @property
    def error(self) -> Any:
        found = jobs.parse_json_column(self.row.error)
        return self.row.error if isinstance(found, jobs.RowError) else found


class NotificationService:
    def __init__(
        self, database: Database, clock: Clock, queue: NotificationQueue, house: NotificationConfig, tenant_id: int
    ) -> None:
        self.tenant_id = tenant_id  # whose mail the queue's notifications are
        self._database = database
        self._clock = clock
        self._queue = queue
        self._house = house

    @property
    def kinds(self) -> list[EventKind]:
        """The declared types of events, by their name."""
        return sorted(self._house.kinds.by_name.values(), key=lambda kind: kind.name)

    async def list_notifications(
        self, *, status: FanoutStatus | None = None, kind: str | None = None, before: int = NEWEST, limit: int = 50
    ) -> list[NotificationStatus]:
        """The newest first; of one kind of event, where it is named."""
        rows: list[NotificationRow] = []
        while len(rows) < limit:
            found = await self._queue.newest(status=status, kind=kind, before=before, limit=limit)
            rows += [row for row in found if kind is None or _kind_of(row) == kind]
            if len(found) < limit:
                break
            before = found[-1].notification_id
        return await self._standings(rows[:limit])

    async def find(self, notification_id: int) -> NotificationStatus:
        rows = await self._queue.find([notification_id])
        if not rows:
            raise NotFound
        [standing] = await self._standings(list(rows.values()))
        return standing

    async def counts(self) -> dict[str, int]:
        return await self._queue.counts()

    async def emit(self, happening: NewEvent) -> EmittedEvent:
        return await EventProducer(self._queue, self._clock, self._house.kinds).emit(happening)

    async def requeue(self, notification_id: int, *, actor: str) -> NotificationStatus:
        """From the beginning: pending, no attempts, no error. What was sent stays sent."""
        standing = await self.find(notification_id)
        if standing.row.status in (FanoutStatus.SENT, FanoutStatus.PENDING):
            raise NotPossibleNow(
                f"The notification is {standing.row.status}; only one that failed, was skipped or expired is requeued."
            )
        await self._requeue([notification_id], actor)
        return await self.find(notification_id)

    async def requeue_all(self, status: FanoutStatus, *, actor: str, limit: int) -> int:
        if status in (FanoutStatus.SENT, FanoutStatus.PENDING):
            raise NotPossibleNow(f"What is {status} is not requeued; what failed, was skipped or expired is.")
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

    async def _standings(self, rows: Sequence[NotificationRow]) -> list[NotificationStatus]:
        if not rows:
            return []
        now = self._clock.now()
        async with self._database.read() as tx:
            known = await links.newest(tx, self._queue.name, [row.key for row in rows])
            under_way = await links.under_way(tx, self._queue.name, (row.subscription_id for row in rows))
        neighbours = await self._queue.neighbours(rows)
        standings = []
        for row in rows:
            link = known.get(row.key)
            wait, outlook = self._outlook(row, row_context(row, neighbours, under_way), link, now)
            standings.append(NotificationStatus(row, wait, outlook, link.outbox_id if link else None))
        return standings

    def _outlook(
        self, row: NotificationRow, near: Any, link: MessageLink | None, now: Instant
    ) -> tuple[WaitDecision | None, str | None]:
        if row.status != FanoutStatus.PENDING:
            return None, None
        if (locked := lock_wait(row, self._house.kinds, now)) is not None:
            return locked, None
        decision = decide(row, near, self._house, now)
        match decision:
            case WaitDecision():
                return decision, None
            case SendDecision():
                return None, "It is due: the next worker that looks takes it."
            case EndDecision(status, because):
                return None, f"It will be {status}: {because.message}"
            case GiveUpDecision():
                return None, "It has had its attempts and will be failed."
            case _:
                assert_never(decision)


def _kind_of(row: NotificationRow) -> Any:
    return jobs.event_kind_name(jobs.parse_json_column((row.event or {}).get("payload")))
