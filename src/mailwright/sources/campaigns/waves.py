"""Send a campaign in waves. The next wave opens after a wait, if the guard rails find nothing in the ones before."""

from dataclasses import replace
from typing import Any, Final

from mailwright.domain.campaign import GUARD_RAILS, INDEFINITELY, NEXT_WAVE, CampaignAction, CampaignStatus
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.guard_rails import GuardFinding, GuardRails
from mailwright.outbox import audit_log, defer
from mailwright.policies.guard_rails import judge
from mailwright.sources.campaigns.announce import AnnouncedCampaign, announce_hold
from mailwright.sources.campaigns.entries import ENQUEUE_AGAIN, QueueEntry, RunningWaves, find_entry, update_entry
from mailwright.sources.campaigns.guard_rails import ACTOR, GuardReport, is_stopped, load_guard
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement

LANE_IS_SENDING = statement(__package__, "lane_is_sending")

HELD_ACTION: Final = "campaign.hold_wave"


async def advance_waves(database: Database, clock: Clock, general: GuardRails, campaign_key: int, lane: int) -> bool:
    """Take the next step of a campaign whose open wave is enqueued. Return whether anything was done."""
    now = clock.now()
    async with database.read() as tx:
        if await _is_sending(tx, lane, now):
            return False
    async with database.write() as tx:
        entry = await find_entry(tx, campaign_key, to_change=True)
        if entry is None or not _is_enqueued(entry) or await _is_sending(tx, lane, now):
            return False
        waves = entry.content.waves
        assert waves is not None
        if waves.opens_at is None:
            await _observe(tx, entry, waves, now)
            return True
        if now < waves.opens_at or await is_stopped(tx, lane):
            return False
        # The numbers are read in the transaction that opens the wave. If they cannot be read, it stays closed.
        report = await load_guard(tx, campaign_key, general)
        if (finding := _finding(report)) is not None:
            await _hold(tx, entry, report, finding, now)
        else:
            await open_wave(tx, entry, waves, now, actor=ACTOR)
        return True


async def open_wave(tx: Transaction, entry: QueueEntry, waves: RunningWaves, now: Instant, *, actor: str) -> None:
    """Enqueue the next wave from the first address on. Recipients who have a message are skipped."""
    assert entry.wave is not None
    number = entry.wave + 1
    content = replace(entry.content, waves=replace(waves, opens_at=None))
    is_last = number > len(waves.percents)
    next_wave = {"content": content.as_text(), "wave": None if is_last else number}
    await update_entry(tx, entry.campaign_key, **next_wave, **ENQUEUE_AGAIN)
    await defer.end_lane_deferral(tx, entry.lane)
    percent = 100 if is_last else waves.percents[number - 1]
    await _record(tx, entry, now, actor, f"campaign.{CampaignAction.OPEN_WAVE}", wave=number, percent=percent)


def _finding(report: GuardReport) -> GuardFinding | None:
    """Judge a wave of any size: a small wave with clearly too many incidents must not open the next one."""
    return judge(replace(report.rails, min_messages=1), report.counts)


async def _observe(tx: Transaction, entry: QueueEntry, waves: RunningWaves, now: Instant) -> None:
    opens_at = now + waves.wait
    content = replace(entry.content, waves=replace(waves, opens_at=opens_at))
    await update_entry(tx, entry.campaign_key, content=content.as_text())
    await defer.record_lane_deferral(tx, entry.lane, NEXT_WAVE, opens_at)


async def _hold(tx: Transaction, entry: QueueEntry, report: GuardReport, finding: GuardFinding, now: Instant) -> None:
    """Keep the next wave closed until a person opens it."""
    state = replace(report.state, finding=finding, found_at=now)
    await update_entry(tx, entry.campaign_key, guard=state.as_text())
    await defer.record_lane_deferral(tx, entry.lane, GUARD_RAILS, INDEFINITELY)
    announced = AnnouncedCampaign(entry.campaign_key, entry.campaign_id, entry.campaign_name, entry.tenant_id)
    await announce_hold(tx, announced, GUARD_RAILS, now, details=finding.detail)
    await _record(tx, entry, now, ACTOR, HELD_ACTION, **finding.detail)


async def _record(
    tx: Transaction, entry: QueueEntry, now: Instant, actor: str, action_name: str, **detail: Any
) -> None:
    await audit_log.record(
        tx,
        now,
        actor=actor,
        action=action_name,
        subject=entry.campaign_id,
        tenant_id=entry.tenant_id,
        detail={"name": entry.campaign_name, **detail},
    )


async def _is_sending(tx: Transaction, lane: int, now: Instant) -> bool:
    [row] = await tx.run(LANE_IS_SENDING, lane=lane, now=now)
    return bool(row.waiting or row.sending)


def _is_enqueued(entry: QueueEntry) -> bool:
    has_more = entry.wave is not None and entry.enqueue_ended_at is not None
    return has_more and entry.campaign_status is CampaignStatus.SENDING
