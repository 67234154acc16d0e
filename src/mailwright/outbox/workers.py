"""Who works: each worker reports its presence and its providers, so that anyone can tell why nothing moves."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import delete, func, select

from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import workers

REPORT_PRESENCE = statement(__package__, "report_presence")

# A worker that was not heard of for so long is not counted any more.
PRESENCE_TIMEOUT: Instant = 30_000
FORGET_AFTER: Instant = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class WorkerPresence:
    """One provider, as one worker sees it."""

    provider: str
    unavailable_until: Instant | None = None
    unavailable_reason: str | None = None
    worker: str = ""  # whoever reads the registry is told
    sent: int = 0  # as many as it took from this worker so far; whoever reads the registry is not told


class WorkerRegistry:
    """A worker has a row for each of its providers, under its own name and the provider's."""

    def __init__(self, database: Database, clock: Clock, worker: str) -> None:
        self._database = database
        self._clock = clock
        self._worker = worker
        self._rows: set[str] = set()
        self._told: dict[str, tuple[Instant, int]] = {}  # by provider: when it was last told of, and what it had taken

    async def report(self, *providers: WorkerPresence) -> None:
        now = self._clock.now()
        async with self._database.write() as tx:
            for presence in providers:
                self._rows.add(row := f"{self._worker}/{presence.provider}")
                await tx.run(
                    REPORT_PRESENCE,
                    worker=row,
                    provider=presence.provider,
                    now=now,
                    unavailable_until=presence.unavailable_until,
                    unavailable_reason=presence.unavailable_reason,
                    per_second=self._per_second(presence, now),
                )
        self._told = {presence.provider: (now, presence.sent) for presence in providers}

    async def deregister(self) -> None:
        async with self._database.write() as tx:
            await tx.execute(delete(workers).where(workers.c.worker_id.in_(self._rows)))

    async def delete_lost(self) -> None:
        async with self._database.write() as tx:
            await tx.execute(delete(workers).where(workers.c.seen_at < self._clock.now() - FORGET_AFTER))

    def _per_second(self, presence: WorkerPresence, now: Instant) -> float:
        """Since the provider was last told of."""
        last, taken = self._told.get(presence.provider, (now, presence.sent))
        return (presence.sent - taken) * SECOND / (now - last) if now > last else 0.0


async def list_present(database: Database, now: Instant) -> list[WorkerPresence]:
    """The providers of the workers that were heard of lately."""
    async with database.read() as tx:
        rows = await tx.execute(
            select(workers).where(workers.c.seen_at >= now - PRESENCE_TIMEOUT).order_by(workers.c.worker_id)
        )
    return [
        WorkerPresence(row.provider, row.unavailable_until, row.unavailable_reason, row.worker_id.rpartition("/")[0])
        for row in rows
    ]


async def presence_by_provider(
    database: Database, now: Instant, route: Iterable[str]
) -> dict[str, list[WorkerPresence]]:
    """Each provider of a route as those workers see it, also where none does; then any other that they have."""
    found: dict[str, list[WorkerPresence]] = {name: [] for name in route}
    for presence in await list_present(database, now):
        found.setdefault(presence.provider, []).append(presence)
    return found


async def sending_rate(database: Database, now: Instant) -> float:
    """Mails per second, all workers together, as they were sent lately."""
    lately = workers.c.seen_at >= now - PRESENCE_TIMEOUT
    async with database.read() as tx:
        rows = await tx.execute(select(func.coalesce(func.sum(workers.c.per_second), 0)).where(lately))
    return float(rows[0][0])
