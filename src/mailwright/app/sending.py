"""Resume sending that was held because the database was restored to an earlier state."""

from sqlalchemy import select, update

from mailwright.domain.campaign import INDEFINITELY, PAUSED, CampaignStatus
from mailwright.domain.clock import Clock
from mailwright.domain.lanes import sequence_lane
from mailwright.domain.states import Resolution
from mailwright.outbox import audit_log
from mailwright.outbox.defer import record_lane_deferral
from mailwright.outbox.quarantine import EVERYTHING, QuarantineFilter, resolve_quarantined
from mailwright.outbox.sending_hold import DueMessages, release_hold, require_hold
from mailwright.storage.database import Database
from mailwright.storage.tables import campaign_repeats, campaign_runs, campaigns, queue_entries, sequences

_RUNNING = (CampaignStatus.READY.value, CampaignStatus.SENDING.value)


async def release_sending(database: Database, clock: Clock, *, actor: str, due: DueMessages) -> tuple[int, int]:
    """Resume sending; return the numbers of messages put in doubt and of campaigns paused.

    All running and scheduled campaigns are paused first: recipients who have no message yet may have received them
    after the backup. Running sequences and recurring campaigns are paused for the same reason.
    """
    await require_hold(database)  # Nothing is paused if someone else has decided already.
    paused = await _pause_campaigns(database, clock)
    await _pause_repeats(database, clock, actor)
    return await release_hold(database, clock, actor=actor, due=due), paused


async def decide_quarantine(
    database: Database,
    clock: Clock,
    resolution: Resolution,
    *,
    was_held: bool,
    actor: str,
    only: QuarantineFilter = EVERYTHING,
) -> tuple[int, int]:
    """Resume sending, and send or close the messages that may have been sent.

    Return the number of messages and of paused campaigns. `was_held` is the hold that the operator has seen. If someone
    else has resumed sending since then, nothing is changed.
    """
    paused = 0
    if was_held:
        _, paused = await release_sending(database, clock, actor=actor, due=DueMessages.IN_DOUBT)
    return await resolve_quarantined(database, clock, resolution, actor=actor, only=only), paused


async def list_running_campaigns(database: Database) -> list[str]:
    """Return the names of the campaigns that will be paused when sending resumes after a hold."""
    async with database.read() as tx:
        running = select(campaigns.c.name).where(campaigns.c.status.in_(_RUNNING)).order_by(campaigns.c.id)
        return [row.name for row in await tx.execute(running)]


async def stop_article_runs(database: Database, clock: Clock) -> None:
    """Stop article runs that still add recipients, because these may have received the article after the backup."""
    failure = "The database was restored while this run was adding recipients. Start another run for the rest."
    async with database.write() as tx:
        is_open = campaign_runs.c.enqueue_ended_at.is_(None)
        await tx.execute(update(campaign_runs).where(is_open).values(enqueue_ended_at=clock.now(), failure=failure))


async def _pause_repeats(database: Database, clock: Clock, actor: str) -> None:
    """Pause sequences and recurring campaigns.

    Their due emails may have been sent after the backup, so a person must decide.
    """
    now = clock.now()
    q = sequences.c
    running = update(sequences).where(q.status == "running").values(status="paused", updated_at=now)
    async with database.write() as tx:
        held = {"paused_at": now, "failed_at": now, "starting_key": None, "starting_digest": None}
        paused = update(campaign_repeats).values(**held, last_result="Paused because the database was restored.")
        keys = [row.campaign_key for row in await tx.execute(paused.returning(campaign_repeats.c.campaign_key))]
        c = campaigns.c
        drafts = select(c.campaign_id.label("subject"), c.tenant_id).where(c.id.in_(keys)).order_by(c.id)
        stopped = running.returning(q.id, q.sequence_id.label("subject"), q.tenant_id)
        for action, query in (("campaign.pause_repeat", drafts), ("sequence.pause", stopped)):
            for row in await tx.execute(query):
                detail = {"because": "the database was restored"}
                if query is stopped:
                    await record_lane_deferral(tx, sequence_lane(row.tenant_id, row.id), PAUSED, INDEFINITELY)
                await audit_log.record(
                    tx, now, actor=actor, action=action, subject=row.subject, tenant_id=row.tenant_id, detail=detail
                )


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
