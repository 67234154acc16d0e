"""The forecast: when each campaign in line begins and ends, and which rule load_lane_deferrals it at each point.

What waits, the counters, the limits and the quota are read as they are now; the rest is the simulation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import select

from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.permits import Deferral, LimitLevel, split_defer_reason
from mailwright.outbox.ledger import LOOK_AT_COUNTERS
from mailwright.outbox.limits import DefaultLimits, LimitRules, load_limit_rules
from mailwright.outbox.workers import sending_rate
from mailwright.sources.campaigns.deferrals import load_lane_deferrals
from mailwright.sources.campaigns.enqueue import size_of_test_group
from mailwright.sources.campaigns.entries import CampaignSnapshot
from mailwright.sources.campaigns.simulation import (
    ASSUMED_RATE,
    YEAR,
    AbTestPhase,
    CampaignForecast,
    ForecastAssumption,
    QueuedCampaign,
    SimulationConditions,
    needed_counters,
    simulate,
)
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaigns, lane_deferrals, queue_entries, tenants

COUNT_UNSENT = statement(__package__, "count_unsent")


@dataclass(frozen=True, slots=True)
class Forecast:
    computed_at: Instant
    looked_until: Instant
    rate: float  # mails per second where nothing limits them
    is_rate_measured: bool
    campaigns: tuple[CampaignForecast, ...]
    assumptions: tuple[ForecastAssumption, ...]


async def forecast(
    database: Database,
    clock: Clock,
    defaults: DefaultLimits,
    *,
    tenant_id: int | None,
    measured_rate: float | None = None,
    horizon: Instant = YEAR,
) -> Forecast:
    """Of one tenant's campaigns, or of all. Others' campaigns share workers and quota, so they are simulated too."""
    now = clock.now()
    measured = await sending_rate(database, now) if measured_rate is None else measured_rate
    rules = await load_limit_rules(database, defaults)
    async with database.read() as tx:
        line = await _line(tx, rules, now)
        names = [{"name": name} for name in sorted(needed_counters(line, rules.quota, now))]
        used = {row.name: int(row.used) for row in await tx.run(LOOK_AT_COUNTERS, wanted=names)}
    rate = measured if measured > 0 else ASSUMED_RATE
    if rules.provider_rate is not None:
        rate = min(rate, rules.provider_rate)
    outlook = simulate(line, SimulationConditions(now, rate, used, rules.quota, horizon))
    return Forecast(
        computed_at=now,
        looked_until=outlook.looked_until
        if any(each.finishes_at is None for each in outlook.campaigns)
        else now + horizon,
        rate=rate,
        is_rate_measured=measured > 0,
        campaigns=tuple(each for each in outlook.campaigns if tenant_id in (None, each.tenant_id)),
        assumptions=tuple(_assumptions(line, rules, is_rate_measured=measured > 0)),
    )


async def _line(tx: Transaction, rules: LimitRules, now: Instant) -> list[QueuedCampaign]:
    """In the order in which they go."""
    left = {row.lane: row.waiting + row.sending for row in await tx.run(COUNT_UNSENT)}
    held = (lane_deferrals.c.lane == queue_entries.c.lane) & (lane_deferrals.c.deferred_until > now)
    rows = await tx.execute(
        select(
            campaigns.c.campaign_id,
            campaigns.c.name,
            queue_entries,
            tenants.c.weight,
            lane_deferrals.c.defer_reason,
            lane_deferrals.c.deferred_until,
        )
        .join(campaigns, campaigns.c.id == queue_entries.c.campaign_key)
        .join(tenants, tenants.c.id == queue_entries.c.tenant_id)
        .outerjoin(lane_deferrals, held)
        .where(queue_entries.c.completed_at.is_(None), campaigns.c.status != CampaignStatus.CANCELLED)
        .order_by(queue_entries.c.id)
    )
    waiting = await load_lane_deferrals(tx, now)
    return [_queued(row, rules, left.get(row.lane, 0), waiting.get(row.lane)) for row in rows]


def _queued(row: Any, rules: LimitRules, left: int, wait: Deferral | None) -> QueuedCampaign:
    coming, trial = _to_come(row, left)
    tenant, *own = rules.levels(row.tenant_id, row.lane)
    return QueuedCampaign(
        campaign_id=row.campaign_id,
        name=row.name,
        tenant_id=row.tenant_id,
        remaining=left + coming,
        tenant=tenant,
        own=_by_the_senders_clock(own[0]) if own else None,
        weight=row.weight,
        held=_held(wait) if row.deferred_until is None else Deferral(row.deferred_until, row.defer_reason),
        trial=trial,
    )


def _held(wait: Deferral | None) -> Deferral | None:
    return None if wait is None else Deferral(wait.until, split_defer_reason(wait.reason)[0] or wait.reason)


def _to_come(row: Any, left: int) -> tuple[int, AbTestPhase | None]:
    """How many have no message yet, and who of all that are left tries the versions before the others go on."""
    coming = max(0, row.planned - row.recipients)
    # Most campaigns try nothing: only those that do are read as a whole.
    if not orjson.loads(row.content).get("contest"):
        return (coming if row.enqueue_ended_at is None else 0), None
    content = CampaignSnapshot.read(row.content)
    contest = content.ab_test
    assert contest is not None
    if contest.decides_at is not None:
        return coming, None
    share = sum(version.share for version in content.variants)
    untried = max(0, size_of_test_group(row.planned, share) - row.recipients) if row.enqueue_ended_at is None else 0
    return coming, AbTestPhase(left + untried, contest.wait)


def _by_the_senders_clock(level: LimitLevel) -> LimitLevel:
    """Readers' own zones are as many clocks as there are readers; the sender's stands for all."""
    return LimitLevel(level.owner, replace(level.limits, in_recipient_zone=False))


def _assumptions(
    line: list[QueuedCampaign], rules: LimitRules, *, is_rate_measured: bool
) -> Iterator[ForecastAssumption]:
    yield ForecastAssumption.NO_OTHER_MESSAGES
    if not is_rate_measured:
        yield ForecastAssumption.ASSUMED_RATE
    if any(level.limits.one_at_a_time for queued in line for level in queued.levels):
        yield ForecastAssumption.ONE_AT_A_TIME_RATE
    if any(level.limits.in_recipient_zone for level in rules.campaigns.values()):
        yield ForecastAssumption.SENDER_TIME_ZONE
    if line and rules.quota is not None:
        yield ForecastAssumption.NO_MORE_QUOTA if rules.quota.per_day is None else ForecastAssumption.DAILY_QUOTA
