"""The desk: where people see how notifications stand and why they wait, and requeue what has ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.outbox import audit_log
from mailwright.sources.notifications import jobs, links
from mailwright.sources.notifications.decisions import End, GiveUp, House, Send, decide, lock_wait
from mailwright.sources.notifications.event_types import Kind
from mailwright.sources.notifications.fanout import beside
from mailwright.sources.notifications.jobs import Row
from mailwright.sources.notifications.links import Link
from mailwright.sources.notifications.preferences import Wait
from mailwright.sources.notifications.producer import Emitted, Happening, Producer
from mailwright.sources.notifications.queue import Queue
from mailwright.sources.notifications.statuses import Fanout
from mailwright.storage.database import Database

NEWEST = 2**62


@dataclass(frozen=True, slots=True)
class Standing:
    """A notification as it stands now."""

    row: Row
    wait: Wait | None  # why a pending one is not sent now
    outlook: str | None  # what happens to a pending one that does not wait, in a sentence
    outbox_id: str | None  # its message, where it became one

    @property
    def to(self) -> str | None:
        value = (self.row.subscription or {}).get("contact_value")
        return None if value is None else str(value)

    @property
    def error(self) -> Any:
        found = jobs.json_of(self.row.error)
        return self.row.error if isinstance(found, jobs.Invalid) else found


class Desk:
    def __init__(self, database: Database, clock: Clock, queue: Queue, house: House, tenant_id: int) -> None:
        self.tenant_id = tenant_id  # whose mail the queue's notifications are
        self._database = database
        self._clock = clock
        self._queue = queue
        self._house = house

    @property
    def kinds(self) -> list[Kind]:
        """The declared types of events, by their name."""
        return sorted(self._house.kinds.by_name.values(), key=lambda kind: kind.name)

    async def some(
        self, *, status: Fanout | None = None, kind: str | None = None, before: int = NEWEST, limit: int = 50
    ) -> list[Standing]:
        """The newest first; of one kind of event, where it is named."""
        rows: list[Row] = []
        while len(rows) < limit:
            found = await self._queue.newest(status=status, kind=kind, before=before, limit=limit)
            rows += [row for row in found if kind is None or _kind_of(row) == kind]
            if len(found) < limit:
                break
            before = found[-1].notification_id
        return await self._standings(rows[:limit])

    async def find(self, notification_id: int) -> Standing:
        rows = await self._queue.find([notification_id])
        if not rows:
            raise NotFound
        [standing] = await self._standings(list(rows.values()))
        return standing

    async def counts(self) -> dict[str, int]:
        return await self._queue.counts()

    async def emit(self, happening: Happening) -> Emitted:
        return await Producer(self._queue, self._clock, self._house.kinds).emit(happening)

    async def requeue(self, notification_id: int, *, actor: str) -> Standing:
        """From the beginning: pending, no attempts, no error. What was sent stays sent."""
        standing = await self.find(notification_id)
        if standing.row.status in (Fanout.SENT, Fanout.PENDING):
            raise NotPossibleNow(
                f"The notification is {standing.row.status}; only one that failed, was skipped or expired is requeued."
            )
        await self._requeue([notification_id], actor)
        return await self.find(notification_id)

    async def requeue_all(self, status: Fanout, *, actor: str, limit: int) -> int:
        if status in (Fanout.SENT, Fanout.PENDING):
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

    async def _standings(self, rows: Sequence[Row]) -> list[Standing]:
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
            wait, outlook = self._outlook(row, beside(row, neighbours, under_way), link, now)
            standings.append(Standing(row, wait, outlook, link.outbox_id if link else None))
        return standings

    def _outlook(self, row: Row, near: Any, link: Link | None, now: Instant) -> tuple[Wait | None, str | None]:
        if row.status != Fanout.PENDING:
            return None, None
        if (locked := lock_wait(row, self._house.kinds, now)) is not None:
            return locked, None
        decision = decide(row, near, self._house, now)
        match decision:
            case Wait():
                return decision, None
            case Send():
                return None, "It is due: the next worker that looks takes it."
            case End(status, because):
                return None, f"It will be {status}: {because.message}"
            case GiveUp():
                return None, "It has had its attempts and will be failed."
            case _:
                assert_never(decision)


def _kind_of(row: Row) -> Any:
    return jobs.kind_name(jobs.json_of((row.event or {}).get("payload")))
