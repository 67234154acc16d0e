"""Resume sending that was held because the database was restored to an earlier state."""

from sqlalchemy import select, update

from mailwright.domain.campaign import INDEFINITELY, PAUSED, CampaignStatus
from mailwright.domain.clock import Clock
from mailwright.outbox.defer import record_lane_deferral
from mailwright.outbox.sending_hold import DueMessages, release_hold
from mailwright.storage.database import Database
from mailwright.storage.tables import campaigns, queue_entries

_RUNNING = (CampaignStatus.READY.value, CampaignStatus.SENDING.value)


async def release_sending(database: Database, clock: Clock, *, actor: str, due: DueMessages) -> tuple[int, int]:
    """Resume sending; return the numbers of messages put in doubt and of campaigns paused.

    With `in-doubt`, campaigns are paused first, because their remaining audience may have received them after the
    backup was made.
    """
    paused = await _pause_campaigns(database, clock) if due is DueMessages.IN_DOUBT else 0
    return await release_hold(database, clock, actor=actor, due=due), paused


async def _pause_campaigns(database: Database, clock: Clock) -> int:
    running = (
        select(campaigns.c.id, queue_entries.c.lane)
        .join(queue_entries, queue_entries.c.campaign_key == campaigns.c.id)
        .where(campaigns.c.status.in_(_RUNNING))
    )
    async with database.write() as tx:
        rows = await tx.execute(running)
        for row in rows:
            await record_lane_deferral(tx, row.lane, PAUSED, INDEFINITELY)
        keys = [row.id for row in rows]
        values = {"status": CampaignStatus.PAUSED.value, "updated_at": clock.now()}
        await tx.execute(update(campaigns).where(campaigns.c.id.in_(keys)).values(**values))
    return len(rows)
