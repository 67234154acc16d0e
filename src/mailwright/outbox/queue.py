"""The queue at a glance: how much waits, how long, and what needs a person."""

from dataclasses import dataclass

from mailwright.domain.clock import Instant
from mailwright.storage.database import Database
from mailwright.storage.statements import statement

QUEUE_STATE = statement(__package__, "queue_state")


@dataclass(frozen=True, slots=True)
class QueueState:
    due: int
    later: int  # scheduled, waiting for a retry, or held by a worker
    sending: int
    in_doubt: int
    dead_letters: int
    oldest_due: Instant | None


async def queue_state(database: Database, now: Instant) -> QueueState:
    """The cost grows with what waits, never with what was ever sent."""
    async with database.read() as tx:
        rows = {row.name: row for row in await tx.run(QUEUE_STATE, now=now)}
    return QueueState(
        due=rows["due"].messages,
        later=rows["later"].messages,
        sending=rows["sending"].messages,
        in_doubt=rows["in_doubt"].messages,
        dead_letters=rows["dead_letters"].messages,
        oldest_due=rows["due"].oldest,
    )
