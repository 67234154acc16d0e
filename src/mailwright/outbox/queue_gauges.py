"""Metrics of the whole queue: the number of waiting messages, their age, and the number that need an operator."""

from sqlalchemy import select, text

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops import metrics
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import deliveries

QUEUE_STATE = statement(__package__, "queue_state")
OLDEST_DUE = statement(__package__, "oldest_due")

FRESH: Instant = 5 * SECOND


@dataclass(frozen=True, slots=True)
class QueueState:
    due: int
    later: int  # Scheduled, deferred or waiting for a retry.
    sending: int  # Claimed by a worker.
    in_doubt: int
    dead_letters: int
    oldest_due: Instant | None  # Since when it could have been sent; planned waits do not count.


async def queue_state(database: Database, now: Instant) -> QueueState:
    """Read the state of the queue. The cost depends on the waiting messages, not on the sent ones."""
    async with database.read() as tx:
        [row] = await tx.run(QUEUE_STATE, now=now)
        [oldest] = await tx.run(OLDEST_DUE, now=now)
    return QueueState(
        due=row.due,
        later=row.waiting - row.due,
        sending=row.sending,
        in_doubt=row.in_doubt,
        dead_letters=row.dead_letters,
        oldest_due=oldest.since,
    )


async def is_sending(database: Database) -> bool:
    """Return whether a worker has claimed messages. Reads one row of the index of claimed messages."""
    d = deliveries.c
    query = select(d.message_key).where(text("locked_by IS NOT NULL")).order_by(d.claimable_at).limit(1)
    async with database.read() as tx:
        return bool(await tx.execute(query))


class QueueGauges:
    """Updates the gauges at most once every few seconds, even if the metrics are read more often."""

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
