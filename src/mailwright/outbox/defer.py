"""Deferring: the only writer of a deferral. Whoever shows why something waits reads what was written here."""

from collections.abc import Sequence

from sqlalchemy import delete

from mailwright.domain.clock import Instant
from mailwright.domain.message import Claimed
from mailwright.domain.permits import Deferral
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import lane_deferrals

DEFER = statement(__package__, "defer")
DEFER_LANE = statement(__package__, "defer_lane")


async def defer_lane(database: Database, lane: int, reason: str, until: Instant) -> None:
    """No worker claims from this lane before `until`; a million waiting messages are held by one row."""
    async with database.write() as tx:
        await record_lane_deferral(tx, lane, reason, until)


async def record_lane_deferral(tx: Transaction, lane: int, reason: str, until: Instant) -> None:
    """The same inside the caller's transaction. What a person holds, no rule of ours lets go."""
    await tx.run(DEFER_LANE, lane=lane, reason=reason, until=until)


async def end_lane_deferral(tx: Transaction, lane: int, *, but: Sequence[str] = ()) -> None:
    """Ends a hold before its time, unless it has one of these reasons."""
    await tx.execute(
        delete(lane_deferrals).where(lane_deferrals.c.lane == lane, lane_deferrals.c.defer_reason.not_in(but))
    )


async def end_deferrals_for(tx: Transaction, reason: str) -> None:
    """Ends all holds of one reason: what they waited for has come for everybody."""
    await tx.execute(delete(lane_deferrals).where(lane_deferrals.c.defer_reason == reason))


async def defer(database: Database, waiting: Sequence[tuple[Claimed, Deferral]]) -> None:
    """Gives back messages that were not started: each waits by itself, and the rest of its lane goes on."""
    rows = [
        {
            "message_key": claimed.message_key,
            "claim_token": claimed.claim_token,
            "due_at": held.until,
            "reason": held.reason,
        }
        for claimed, held in waiting
    ]
    if rows:
        await database.transact(lambda tx: tx.count(DEFER, claims=rows))
