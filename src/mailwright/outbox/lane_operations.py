"""Retry the failed messages of a lane, and resolve those in doubt, all at once."""

from sqlalchemy import delete

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event
from mailwright.domain.states import EventType, Resolution
from mailwright.outbox.operations import count_final_state, discard_proofs, outcome_of
from mailwright.outbox.settle import append_events, event_row
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import message_dead_letters

COUNT_NOT_RETRIED = statement(__package__, "count_not_retried")
REQUEUE_FAILED = statement(__package__, "requeue_failed")
RESOLVE_IN_DOUBT = statement(__package__, "resolve_in_doubt")

# Databases limit the number of parameters of a statement.
BATCH_SIZE = 2_000


@dataclass(frozen=True, slots=True)
class RetriedMessages:
    """How many failed messages are sent again, and how many stay failed because their address is suppressed."""

    retried: int
    bounced: int  # not retried: the address is suppressed because it bounced
    suppressed: int  # not retried: the recipient unsubscribed, complained or was suppressed by a user


async def requeue_failed(tx: Transaction, lane: int, now: Instant, *, by: str) -> RetriedMessages:
    """Requeue the failed messages of the lane and remove their dead letters."""
    requeued = Event(EventType.REQUEUED, now, {"by": by})
    count = 0
    while rows := await tx.run(REQUEUE_FAILED, lane=lane, now=now, limit=BATCH_SIZE):
        await tx.execute(
            delete(message_dead_letters).where(
                message_dead_letters.c.message_key.in_([row.message_key for row in rows])
            )
        )
        await discard_proofs(tx, [row.message_key for row in rows])
        await append_events(tx, [event_row(row.message_key, row.tenant_id, requeued) for row in rows])
        count += len(rows)
    [left] = await tx.run(COUNT_NOT_RETRIED, lane=lane)
    return RetriedMessages(count, left.bounced, left.messages - left.bounced)


async def resolve_in_doubt(tx: Transaction, lane: int, resolution: Resolution, now: Instant, *, by: str) -> int:
    """Resolve every message in doubt of the lane. Return how many there were; expired ones are not resent."""
    status, event = outcome_of(resolution)
    resolved = Event(event, now, {"resolvedBy": "operator", "as": resolution, "by": by})
    count = 0
    while rows := await tx.run(RESOLVE_IN_DOUBT, lane=lane, status=status, now=now, limit=BATCH_SIZE):
        await append_events(tx, [event_row(row.message_key, row.tenant_id, resolved) for row in rows])
        count += len(rows)
    count_final_state(status, count)
    return count
