"""Who works: each worker reports its presence, so that anyone can tell why nothing moves."""

from dataclasses import dataclass

from sqlalchemy import delete, select

from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import workers

REPORT_PRESENCE = statement(__package__, "report_presence")

# A worker that was not heard of for so long is not counted any more.
SILENCE: Instant = 30_000
FORGET_AFTER: Instant = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class Presence:
    provider: str
    unavailable_until: Instant | None = None
    unavailable_reason: str | None = None


class Roster:
    def __init__(self, database: Database, clock: Clock, worker: str) -> None:
        self._database = database
        self._clock = clock
        self._worker = worker

    async def report(self, presence: Presence) -> None:
        async with self._database.write() as tx:
            await tx.run(
                REPORT_PRESENCE,
                worker=self._worker,
                provider=presence.provider,
                now=self._clock.now(),
                unavailable_until=presence.unavailable_until,
                unavailable_reason=presence.unavailable_reason,
            )

    async def leave(self) -> None:
        async with self._database.write() as tx:
            await tx.execute(delete(workers).where(workers.c.worker_id == self._worker))

    async def forget_lost(self) -> None:
        async with self._database.write() as tx:
            await tx.execute(delete(workers).where(workers.c.seen_at < self._clock.now() - FORGET_AFTER))


async def present(database: Database, now: Instant) -> list[Presence]:
    """The workers that were heard of lately."""
    async with database.read() as tx:
        rows = await tx.execute(select(workers).where(workers.c.seen_at >= now - SILENCE))
    return [Presence(row.provider, row.unavailable_until, row.unavailable_reason) for row in rows]
