"""Deferring: the only writer of a deferral. Whoever shows why something waits reads what was written here."""

from mailwright.domain.clock import Instant
from mailwright.storage.database import Database
from mailwright.storage.statements import statement

HOLD_LANE = statement(__package__, "hold_lane")


async def hold_lane(database: Database, lane: int, reason: str, until: Instant) -> None:
    """No worker claims from this lane before `until`; a million waiting messages are held by one row."""
    async with database.write() as tx:
        await tx.run(HOLD_LANE, lane=lane, reason=reason, until=until)
