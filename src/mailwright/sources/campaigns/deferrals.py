"""Deferrals of campaigns that may be sent, but none of whose messages can be sent yet."""

from sqlalchemy import select

from mailwright.domain.campaign import INDEFINITELY
from mailwright.domain.clock import Instant
from mailwright.domain.permits import Deferral
from mailwright.outbox.sending_hold import load_hold
from mailwright.outbox.workers import load_present, outage_of
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import lane_deferrals, queue_entries

LIST_DEFERRED_LANES = statement(__package__, "list_deferred_lanes")

# The default reason for a message that failed temporarily.
RETRY_SCHEDULED = "retry_scheduled"


async def load_lane_deferrals(tx: Transaction, now: Instant) -> dict[int, Deferral]:
    """Return for each lane the time when its first message is due, and the reason for the wait.

    While all sending is on hold, or no worker can use any provider, every lane has that reason.
    """
    if (hold := await load_hold(tx)) is not None:
        rows = await tx.execute(select(queue_entries.c.lane).where(queue_entries.c.completed_at.is_(None)))
        return {row.lane: Deferral(INDEFINITELY, hold.reason) for row in rows}
    outage = outage_of(await load_present(tx, now), now)
    if outage is not None:
        return dict.fromkeys(await _undeferred_lanes(tx, now), outage)
    rows = await tx.run(LIST_DEFERRED_LANES, now=now)
    return {row.lane: Deferral(row.claimable_at, row.defer_reason) for row in rows}


async def _undeferred_lanes(tx: Transaction, now: Instant) -> list[int]:
    deferred = select(lane_deferrals.c.lane).where(lane_deferrals.c.deferred_until > now)
    rows = await tx.execute(
        select(queue_entries.c.lane).where(
            queue_entries.c.completed_at.is_(None), queue_entries.c.lane.not_in(deferred)
        )
    )
    return [row.lane for row in rows]
