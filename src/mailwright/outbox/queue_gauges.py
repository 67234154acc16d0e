"""The queue at a glance: how much waits, how long, and what needs a person."""

from dataclasses import dataclass

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.ops import metrics
from mailwright.storage.database import Database
from mailwright.storage.statements import statement

QUEUE_STATE = statement(__package__, "queue_state")

FRESH: Instant = 5 * SECOND


@dataclass(frozen=True, slots=True)
class QueueState:
    due: int
    later: int  # scheduled, or waiting for a retry
    sending: int  # in a worker's hands
    in_doubt: int
    dead_letters: int
    oldest_due: Instant | None


async def queue_state(database: Database, now: Instant) -> QueueState:
    """The cost grows with what waits, never with what was ever sent."""
    async with database.read() as tx:
        [row] = await tx.run(QUEUE_STATE, now=now)
    return QueueState(
        due=row.due,
        later=row.waiting - row.due,
        sending=row.sending,
        in_doubt=row.in_doubt,
        dead_letters=row.dead_letters,
        oldest_due=row.earliest if row.due else None,
    )


class QueueGauges:
    """Keeps the gauges fresh enough: however often somebody asks, the database is asked every few seconds only."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._fresh_until: Instant = 0

    async def refresh(self) -> None:
        now = self._clock.now()
        if now < self._fresh_until:
            return
        state = await queue_state(self._database, now)
        self._fresh_until = now + FRESH
        metrics.QUEUE_DEPTH.labels("due").set(state.due)
        metrics.QUEUE_DEPTH.labels("later").set(state.later)
        metrics.QUEUE_DEPTH.labels("sending").set(state.sending)
        metrics.OLDEST_DUE_AGE.set((now - state.oldest_due) / SECOND if state.oldest_due is not None else 0)
        metrics.IN_DOUBT.set(state.in_doubt)
        metrics.DEAD_LETTERS.set(state.dead_letters)
