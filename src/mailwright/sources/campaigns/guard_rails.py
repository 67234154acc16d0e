"""Apply the guard rails of campaigns: warn, slow down or stop when hard bounces or complaints pass a threshold.

The numbers are read from the database in the transaction that acts on them, so they are exact with any number of
workers, and include bounces and complaints that arrive days after the send.
"""

from dataclasses import replace
from typing import Any, Final

import orjson
from sqlalchemy import select, update

from mailwright.domain.campaign import GUARD_RAILS, INDEFINITELY, CampaignStatus
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.guard_rails import (
    DEFAULT_GUARD_RAILS,
    GuardAction,
    GuardFinding,
    GuardRails,
    GuardRailSettings,
    GuardState,
    Incident,
    IncidentCounts,
)
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.logs import logger
from mailwright.outbox import audit_log, defer
from mailwright.outbox.incidents import count_incidents
from mailwright.policies.guard_rails import judge
from mailwright.sources.campaigns.announce import AnnouncedCampaign, announce_hold, announce_warning
from mailwright.sources.campaigns.entries import CampaignSnapshot, QueueEntry, RunningWaves, find_entry, update_entry
from mailwright.sources.campaigns.progress import COUNT_LANE, has_nothing_to_send
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaigns, lane_deferrals, queue_entries, tenants

# The actor in the audit log.
ACTOR: Final = "guard rails"
GUARDED_STATUSES: Final = (CampaignStatus.READY, CampaignStatus.SENDING)
# A campaign without new incidents is judged again after this time, because its thresholds may have changed.
JUDGE_AGAIN_AFTER: Final[Instant] = MINUTE

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class GuardReport:
    """The guard rails of a started campaign, the numbers that they check, and their actions so far."""

    rails: GuardRails
    counts: IncidentCounts
    state: GuardState
    is_stopped: bool  # guard rails stopped the campaign or hold its next wave
    wave: int | None = None  # the open wave, while later waves follow
    waves: RunningWaves | None = None

    @property
    def finding(self) -> GuardFinding | None:
        """The threshold that is passed now."""
        return judge(self.rails, self.counts)


class CampaignGuard:
    """Judges campaigns on behalf of a scheduler. It remembers which of them have no new incidents."""

    def __init__(self, database: Database, clock: Clock, general: GuardRails) -> None:
        self._database = database
        self._clock = clock
        self.general = general
        self._judged: dict[int, tuple[GuardReport, Instant]] = {}

    async def check(self, campaign_key: int) -> bool:
        """Judge a campaign that is being sent, and act if it has passed a threshold. Return whether it was stopped."""
        now = self._clock.now()
        async with self._database.read() as tx:
            if not await self._is_worth_judging(tx, campaign_key, now):
                return False
            report = await load_guard(tx, campaign_key, self.general)
        self._judged[campaign_key] = (report, now)
        if not _is_news(report):
            return False
        async with self._database.write() as tx:
            entry = await find_entry(tx, campaign_key, to_change=True)
            if entry is None or entry.campaign_status not in GUARDED_STATUSES:
                return False
            report = await load_guard(tx, campaign_key, self.general)
            if (finding := report.finding) is None or not _is_news(report):
                return False
            if finding.action is GuardAction.STOP and await has_nothing_to_send(tx, entry):
                return False  # There is nothing to stop, and its failures can be retried or accepted at once.
            await act(tx, entry, report, finding, now)
            return finding.action is GuardAction.STOP

    async def _is_worth_judging(self, tx: Transaction, campaign_key: int, now: Instant) -> bool:
        """Return whether the result may differ from the last one.

        The share of the same number of incidents only falls while more messages are sent. So without new incidents a
        campaign passes no threshold, unless it had too few messages before.
        """
        rows = await tx.execute(select(queue_entries.c.guard).where(queue_entries.c.campaign_key == campaign_key))
        incidents = await count_incidents(tx, campaign_key, GuardState.read(rows[0].guard).since if rows else 0)
        if not incidents:
            return False
        last, judged_at = self._judged.get(campaign_key, (None, 0))
        if last is None or not 0 <= now - judged_at < JUDGE_AGAIN_AFTER:
            return True
        known = {kind: last.counts.of(kind) for kind in Incident if last.counts.of(kind)}
        return incidents != known or last.counts.messages < last.rails.min_messages


async def load_guard(tx: Transaction, campaign_key: int, general: GuardRails) -> GuardReport:
    """Read the guard rails of a started campaign and count its incidents."""
    [row] = await tx.execute(
        select(
            queue_entries.c.lane,
            queue_entries.c.recipients,
            queue_entries.c.limits,
            queue_entries.c.guard,
            queue_entries.c.wave,
            queue_entries.c.content,
            tenants.c.guard_rails,
        )
        .join(tenants, tenants.c.id == queue_entries.c.tenant_id)
        .where(queue_entries.c.campaign_key == campaign_key)
    )
    rails = rails_of(row.guard_rails, orjson.loads(row.limits).get("guard_rails"), general)
    state = GuardState.read(row.guard)
    incidents = await count_incidents(tx, campaign_key, state.since)
    [lane] = await tx.run(COUNT_LANE, lane=row.lane)
    messages = _with_result(row.recipients, lane) - state.messages_before
    counts = IncidentCounts(
        max(messages, 0), incidents.get(Incident.HARD_BOUNCE, 0), incidents.get(Incident.COMPLAINT, 0)
    )
    waves = CampaignSnapshot.read(row.content).waves if row.wave is not None else None
    return GuardReport(rails, counts, state, await is_stopped(tx, row.lane), row.wave, waves)


def rails_of(tenant: str | None, campaign: dict[str, Any] | None, general: GuardRails) -> GuardRails:
    """Return the guard rails that apply: the campaign's own, else the tenant's, else those of the installation."""
    rails = general if tenant is None else GuardRailSettings.model_validate_json(tenant).over(general)
    return rails if campaign is None else GuardRailSettings.model_validate(campaign).over(rails)


def _with_result(recipients: int, lane: Any) -> int:
    """Return how many messages were attempted and do not wait for another attempt."""
    return int(recipients - lane.waiting - lane.sending - lane.suppressed - lane.cancelled)


def _is_news(report: GuardReport) -> bool:
    """Return whether the passed threshold requires a stricter action than the current one."""
    found, known = report.finding, report.state.finding
    if known is not None and known.action is GuardAction.STOP and not report.is_stopped:
        known = None  # The campaign continues, so this stop must not hide the next one.
    return found is not None and (known is None or found.action.severity > known.action.severity)


async def act(tx: Transaction, entry: QueueEntry, report: GuardReport, finding: GuardFinding, now: Instant) -> None:
    """Warn, slow the campaign down or stop it, and record who did what and why."""
    slow = report.rails.slow_per_hour if finding.action is GuardAction.SLOW_DOWN else report.state.slow_per_hour
    state = replace(report.state, finding=finding, found_at=now, slow_per_hour=slow)
    await update_entry(tx, entry.campaign_key, guard=state.as_text())
    announced = AnnouncedCampaign(entry.campaign_key, entry.campaign_id, entry.campaign_name, entry.tenant_id)
    if finding.action is GuardAction.STOP:
        paused = {"status": CampaignStatus.PAUSED, "updated_at": now}
        await tx.execute(update(campaigns).where(campaigns.c.id == entry.campaign_key).values(**paused))
        await defer.record_lane_deferral(tx, entry.lane, GUARD_RAILS, INDEFINITELY)
        await announce_hold(tx, announced, GUARD_RAILS, now, details=finding.detail)
    else:
        await announce_warning(tx, announced, now, finding.detail)
    await audit_log.record(
        tx,
        now,
        actor=ACTOR,
        action=f"campaign.guard_{finding.action}",
        subject=entry.campaign_id,
        tenant_id=entry.tenant_id,
        detail={"name": entry.campaign_name, **finding.detail},
    )
    log.warning("campaign_guard_rail", campaign=entry.campaign_id, **finding.detail)


async def is_stopped(tx: Transaction, lane: int) -> bool:
    """Return whether guard rails stopped the campaign or hold its next wave."""
    mine = (lane_deferrals.c.lane == lane, lane_deferrals.c.defer_reason == GUARD_RAILS)
    return bool(await tx.execute(select(lane_deferrals.c.lane).where(*mine)))


async def restart_count(tx: Transaction, entry: QueueEntry, now: Instant) -> None:
    """Judge the campaign by later messages only: an operator has seen its failures and retries them."""
    report = await load_guard(tx, entry.campaign_key, DEFAULT_GUARD_RAILS)
    if report.counts.hard_bounces or report.counts.complaints:
        before = report.state.messages_before + report.counts.messages
        await update_entry(tx, entry.campaign_key, guard=GuardState(now, before).as_text())


async def accept_incidents(tx: Transaction, entry: QueueEntry, general: GuardRails, now: Instant) -> GuardState:
    """Start counting again from now: an operator has seen the incidents and lets the campaign continue."""
    report = await load_guard(tx, entry.campaign_key, general)
    if report.state.finding is None:
        return report.state
    before = report.state.messages_before + report.counts.messages
    await update_entry(tx, entry.campaign_key, guard=GuardState(now, before).as_text())
    return report.state
