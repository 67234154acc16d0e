"""Deferrals of campaigns that may be sent, but none of whose messages is due yet."""

from mailwright.domain.clock import Instant
from mailwright.domain.permits import Deferral
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement

LIST_DEFERRED_LANES = statement(__package__, "list_deferred_lanes")

# The reason of a message that failed temporarily and has no other reason.
RETRY_SCHEDULED = "retry_scheduled"


async def load_lane_deferrals(tx: Transaction, now: Instant) -> dict[int, Deferral]:
    """Return by lane when its first message is due, and why not earlier."""
    rows = await tx.run(LIST_DEFERRED_LANES, now=now)
    return {row.lane: Deferral(row.claimable_at, row.defer_reason) for row in rows}
