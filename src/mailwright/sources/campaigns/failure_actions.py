"""Give the failed messages of a campaign all their attempts again."""

from sqlalchemy import delete

from mailwright.domain.clock import Instant
from mailwright.domain.message import Event
from mailwright.domain.states import EventType
from mailwright.outbox.operations import discard_proofs
from mailwright.outbox.settle import append_events, event_row
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import dead_letters

REQUEUE_FAILED = statement(__package__, "requeue_failed")

# Databases limit the number of parameters of a statement.
BATCH_SIZE = 2_000


async def requeue_failed(tx: Transaction, lane: int, now: Instant) -> int:
    """Requeue every failed message of the lane and remove its dead letter. Return how many there were."""
    requeued = Event(EventType.REQUEUED, now, {"by": "campaign"})
    count = 0
    while rows := await tx.run(REQUEUE_FAILED, lane=lane, now=now, limit=BATCH_SIZE):
        await tx.execute(delete(dead_letters).where(dead_letters.c.message_key.in_([row.message_key for row in rows])))
        await discard_proofs(tx, [row.message_key for row in rows])
        await append_events(tx, [event_row(row.message_key, row.tenant_id, requeued) for row in rows])
        count += len(rows)
    return count
