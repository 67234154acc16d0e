"""Waits of mails: campaigns that nothing holds, and none of whose mails may go yet, as when their provider is down."""

from mailwright.domain.clock import Instant
from mailwright.domain.permits import Deferral
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement

LIST_DEFERRED_LANES = statement(__package__, "list_deferred_lanes")

# Where the mail itself names no reason: it was tried, and is tried again.
RETRY_SCHEDULED = "retry_scheduled"


async def load_lane_deferrals(tx: Transaction, now: Instant) -> dict[int, Deferral]:
    """By lane: when the first of its mails may go, and what that one waits for."""
    rows = await tx.run(LIST_DEFERRED_LANES, now=now)
    return {row.lane: Deferral(row.claimable_at, row.defer_reason) for row in rows}
