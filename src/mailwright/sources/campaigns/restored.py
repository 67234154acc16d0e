"""Pause campaigns of a restored database: what is due may have been sent after the backup, so a person decides."""

from typing import Final

from sqlalchemy import select, update

from mailwright.domain.campaign import INDEFINITELY, PAUSED, CampaignStatus
from mailwright.domain.clock import Clock, Instant
from mailwright.outbox import audit_log
from mailwright.outbox.defer import record_lane_deferral
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaign_repeats, campaigns, queue_entries

# A campaign with nothing left to send stays as it is, so that its failures can be retried or accepted.
_RUNNING: Final = (
    select(campaigns.c.id, campaigns.c.campaign_id, campaigns.c.name, queue_entries.c.lane)
    .join(queue_entries, queue_entries.c.campaign_key == campaigns.c.id)
    .where(
        campaigns.c.status.in_([CampaignStatus.READY.value, CampaignStatus.SENDING.value]),
        queue_entries.c.completed_at.is_(None),
    )
    .order_by(campaigns.c.id)
)


async def list_running_campaigns(database: Database) -> list[str]:
    """Return the names of the campaigns that will be paused when sending resumes after a hold."""
    async with database.read() as tx:
        return [row.name for row in await tx.execute(_RUNNING)]


async def pause_running_campaigns(database: Database, clock: Clock) -> tuple[str, ...]:
    """Pause running and scheduled campaigns, and return their ids."""
    async with database.write() as tx:
        rows = await tx.execute(_RUNNING)
        for row in rows:
            await record_lane_deferral(tx, row.lane, PAUSED, INDEFINITELY)
        keys = [row.id for row in rows]
        values = {"status": CampaignStatus.PAUSED.value, "updated_at": clock.now()}
        await tx.execute(update(campaigns).where(campaigns.c.id.in_(keys)).values(**values))
    return tuple(row.campaign_id for row in rows)


async def pause_repeats(tx: Transaction, now: Instant, *, actor: str) -> None:
    """Pause recurring campaigns."""
    held = {"paused_at": now, "failed_at": now, "starting_key": None, "starting_digest": None}
    paused = update(campaign_repeats).values(**held, last_result="Paused because the database was restored.")
    keys = [row.campaign_key for row in await tx.execute(paused.returning(campaign_repeats.c.campaign_key))]
    c = campaigns.c
    entry = {"actor": actor, "action": "campaign.pause_repeat"}
    for row in await tx.execute(select(c.campaign_id, c.tenant_id, c.name).where(c.id.in_(keys)).order_by(c.id)):
        detail = {"name": row.name, **audit_log.RESTORED}
        await audit_log.record(tx, now, **entry, subject=row.campaign_id, tenant_id=row.tenant_id, detail=detail)
