"""Forecast when each queued campaign starts and finishes, and at which times limits defer it.

The forecast reads the queue, the counters, the limits and the quota as they are now, and simulates the rest.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy import select

from mailwright.domain.campaign import AWAITING_WINNER, INDEFINITELY, NEXT_WAVE, CampaignStatus
from mailwright.domain.clock import DAY, HOUR, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import (
    PROVIDER_LIMIT,
    PROVIDER_RATE,
    BulkLimit,
    Deferral,
    DeferReason,
    DomainLimits,
    LimitLevel,
    split_defer_reason,
)
from mailwright.outbox.ledger import read_counters
from mailwright.outbox.limits import DefaultLimits, LimitRules, load_limit_rules
from mailwright.outbox.sending_hold import load_hold
from mailwright.outbox.workers import (
    WorkerPresence,
    best_rate,
    find_lost_leases,
    learned_rate_of,
    list_present,
    sending_rate,
)
from mailwright.policies.reserve import quota_for_bulk
from mailwright.sources.campaigns.bulk_limits import load_bulk_limits
from mailwright.sources.campaigns.deferrals import LaneProviders, load_lane_deferrals, load_lane_providers
from mailwright.sources.campaigns.enqueue import size_of_test_group, size_of_waves
from mailwright.sources.campaigns.entries import QUEUE_ORDER, CampaignSnapshot, RunningWaves
from mailwright.sources.campaigns.expected_sends import (
    MAX_AHEAD,
    NOTHING_EXPECTED,
    ExpectedContext,
    ExpectedSends,
    load_expected,
)
from mailwright.sources.campaigns.forecast_drafts import ForecastDraft, queued_draft
from mailwright.sources.campaigns.forecast_values import (
    ASSUMED_RATE,
    LOW_RATE,
    MAX_UNCERTAINTY,
    YEAR,
    CampaignForecast,
    ForecastAssumption,
    ForecastKind,
    ForecastPause,
    QueuedCampaign,
    in_sender_zone,
)
from mailwright.sources.campaigns.recipient_groups import load_groups
from mailwright.sources.campaigns.simulated_campaign import CampaignRun
from mailwright.sources.campaigns.simulated_queue import quota_periods
from mailwright.sources.campaigns.simulation import SimulationConditions, needed_counters, simulate
from mailwright.storage.database import Readable, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaigns, lane_deferrals, queue_entries, tenants

_OUTAGES = (DeferReason.PROVIDER_UNAVAILABLE, DeferReason.PROVIDER_THROTTLED)

COUNT_UNSENT = statement(__package__, "count_unsent")


@dataclass(frozen=True, slots=True)
class Forecast:
    computed_at: Instant
    looked_until: Instant
    rate: float  # messages per second without any limit
    is_rate_measured: bool
    workers: int  # the number of running workers; if it is 0, the times assume that one starts now
    campaigns: tuple[CampaignForecast, ...]
    assumptions: tuple[ForecastAssumption, ...]
    # Other emails that use the limits until the last campaign finishes.
    sequence_emails: int = 0
    occurrences: int = 0  # of recurring campaigns
    occurrence_emails: int = 0
    limits: tuple[BulkLimit, ...] = ()  # of the tenant, or of the installation if all tenants are shown


async def forecast(
    database: Readable,
    clock: Clock,
    defaults: DefaultLimits,
    *,
    tenant_id: int | None,
    measured_rate: float | None = None,
    horizon: Instant = YEAR,
    draft: ForecastDraft | None = None,
) -> Forecast:
    """Forecast the campaigns of one tenant, or of all. All are simulated, because they share workers and quota.

    A `draft` is simulated as if it were started now.
    """
    now = clock.now()
    lanes, rules = await _load_rules_by_provider(database, defaults)
    # Workers take permits all the time, so one snapshot has both the messages with permits and the counters.
    async with database.read() as tx:
        queue = await _load_queue(tx, rules[None], defaults.domains, lanes, now)
        is_held, lost = await load_hold(tx) is not None, await find_lost_leases(tx, now)
        queue += [] if draft is None else [queued_draft(draft, rules[None], lanes.routes, now)]
        counters = await _load_counters(tx, queue, rules, now)
    present = await list_present(database, now)
    workers = {presence.worker for presence in present}

    async def simulate_queue() -> list[_ForecastShare]:
        """Simulate each provider separately, because it has its own workers, quota and rate."""
        found = []
        for name, own in rules.items():
            share = _share_of(queue, name, own)
            if share or name is None:
                conditions = _ShareConditions(now, horizon, len(workers), lanes.present(present, name), measured_rate)
                found.append(await _forecast_share(database, own, share, conditions, counters))
        return found

    shares = await simulate_queue()
    context = ExpectedContext(rules[None], lanes.routes, defaults.limits.timezone, now)
    expected = await _load_expected(database, context, shares, horizon) if queue else NOTHING_EXPECTED
    if any(expected):
        queue = [*expected.sequences, *queue, *expected.occurrences]
        shares = await simulate_queue()
    order = {queued.campaign_id: place for place, queued in enumerate(queue)}
    found = sorted((each for share in shares for each in share.campaigns), key=lambda each: order[each.campaign_id])
    facts = {"has_worker": bool(workers), "is_held": is_held, "has_lost": bool(lost)}
    assumed = dict.fromkeys(each for share in shares for each in _assumptions(share, **facts))
    visible = [each for each in found if tenant_id in (None, each.tenant_id)]
    occurrences = _sent(visible, ForecastKind.OCCURRENCE)
    return Forecast(
        computed_at=now,
        looked_until=min((each.looked_until for each in shares if each.is_cut_off), default=now + horizon),
        rate=shares[0].rate,
        is_rate_measured=shares[0].source is None,
        workers=len(workers),
        campaigns=tuple(each for each in visible if each.kind is ForecastKind.CAMPAIGN),
        assumptions=tuple(assumed),
        sequence_emails=sum(_sent(visible, ForecastKind.SEQUENCES)),
        occurrences=len(occurrences),
        occurrence_emails=sum(occurrences),
        limits=await load_bulk_limits(database, defaults, tenant_id, now),
    )


def _sent(found: Iterable[CampaignForecast], kind: ForecastKind) -> list[int]:
    """Return how many emails of each sequence and recurring campaign are sent, without those after the forecast."""
    return [each.sent for each in found if each.kind is kind and each.sent]


async def _load_expected(
    database: Readable, context: ExpectedContext, shares: Sequence["_ForecastShare"], horizon: Instant
) -> ExpectedSends:
    """Load the emails that become due while the campaigns are sent, for twice the time that the campaigns need alone.

    Emails of other providers have other limits.
    """
    now, providers = context.now, {queued.provider for share in shares for queued in share.queue}
    ends = [each.finishes_at or now + horizon for share in shares for each in share.campaigns]
    ahead = min(2 * (max(ends) - now) + HOUR, horizon, MAX_AHEAD)
    async with database.read() as tx:
        found = await load_expected(tx, context, now + ahead)
    return ExpectedSends(*([each for each in sends if each.provider in providers] for sends in found))


@dataclass(frozen=True, slots=True)
class _ShareConditions:
    now: Instant
    horizon: Instant
    workers: int
    present: list[WorkerPresence]  # the reports about the providers of this share
    measured_rate: float | None


@dataclass(frozen=True, slots=True)
class _ForecastShare:
    """The forecast of the campaigns that one provider sends."""

    queue: list[QueuedCampaign]
    rules: LimitRules
    rate: float
    source: ForecastAssumption | None
    learned: float | None
    campaigns: tuple[CampaignForecast, ...]
    looked_until: Instant
    is_cut_off: bool


async def _load_rules_by_provider(
    database: Readable, defaults: DefaultLimits
) -> tuple[LaneProviders, dict[str | None, LimitRules]]:
    """Load the providers of the lanes, and the limits of each provider; None for the installation's own."""
    async with database.read() as tx:
        lanes = await load_lane_providers(tx)
    providers = sorted({*lanes.routes.providers, *lanes.by_lane.values()})
    return lanes, {name: await _load_rules(database, defaults, name) for name in (None, *providers)}


class _Counters:
    """The counters that the simulations start with."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self._read: set[str] = set()

    async def add(self, tx: Transaction, names: set[str]) -> None:
        """Read the counters that were not read yet."""
        if missing := names - self._read:
            self.used |= await read_counters(tx, sorted(missing))
            self._read |= missing


async def _load_counters(
    tx: Transaction, queue: Sequence[QueuedCampaign], rules: Mapping[str | None, LimitRules], now: Instant
) -> _Counters:
    """Load the counters of all providers."""
    counters = _Counters()
    for name, own in rules.items():
        await counters.add(tx, needed_counters(_share_of(queue, name, own), own.quota, now))
    return counters


async def _load_rules(database: Readable, defaults: DefaultLimits, provider: str | None) -> LimitRules:
    """Load the limits for the campaigns of a named provider; None for the installation's own."""
    if provider is not None:
        defaults = replace(defaults, providers={provider: None}, named_provider=provider)
    rules = await load_limit_rules(database, defaults)
    return replace(rules, quota=quota_for_bulk(rules.quota, rules.default.reserve_percent))


def _share_of(queue: Iterable[QueuedCampaign], provider: str | None, rules: LimitRules) -> list[QueuedCampaign]:
    """Return the campaigns of a provider, with the limits of this provider."""
    share = [queued for queued in queue if queued.provider == provider]
    if rules.provider is None:
        return share
    # The rate is part of the rate of the whole share.
    limits = replace(rules.provider.limits, rate_per_second=None, is_of_provider=False)
    return [replace(queued, shared=LimitLevel(rules.provider.owner, limits)) for queued in share]


async def _forecast_share(
    database: Readable, rules: LimitRules, queue: list[QueuedCampaign], given: _ShareConditions, counters: _Counters
) -> _ForecastShare:
    now = given.now
    async with database.read() as tx:
        await counters.add(tx, needed_counters(queue, rules.quota, now))
    names = {presence.provider for presence in given.present}
    rate, source = await _full_rate(database, queue, given, names)
    reason: str | None = None
    # Sending at the learned rate was measured too, so the measured rate may be equal or slightly lower.
    learned = learned_rate_of(given.present)
    if learned is not None and learned <= 1.1 * rate:
        rate, reason = min(rate, learned), DeferReason.PROVIDER_THROTTLED
    if rules.provider_rate is not None and rules.provider_rate < rate:
        rate, reason = rules.provider_rate, PROVIDER_RATE
    own_rate = None if rules.provider is None else rules.provider.limits.rate_per_second
    if own_rate is not None and own_rate < rate:
        rate, reason = own_rate, f"{PROVIDER_LIMIT}:rate_per_second"
    conditions = SimulationConditions(now, rate, counters.used, rules.quota, given.horizon, reason)
    result = simulate(queue, conditions)
    found = result.campaigns
    if source is ForecastAssumption.ASSUMED_RATE:
        slow = simulate(queue, replace(conditions, rate=min(rate, LOW_RATE)))
        found = tuple(map(_without_uncertain_end, found, slow.campaigns))
    is_cut_off = any(each.finishes_at is None for each in result.campaigns if each.kind is ForecastKind.CAMPAIGN)
    return _ForecastShare(queue, rules, rate, source, learned, found, result.looked_until, is_cut_off)


def _without_uncertain_end(forecast: CampaignForecast, slow: CampaignForecast) -> CampaignForecast:
    """Remove an end that depends on the send rate, which nobody knows yet."""
    if forecast.finishes_at is None:
        return forecast
    if slow.finishes_at is not None and slow.finishes_at - forecast.finishes_at <= MAX_UNCERTAINTY:
        return forecast
    return replace(forecast, finishes_at=None, is_rate_unknown=True)


async def _full_rate(
    database: Readable, queue: Sequence[QueuedCampaign], given: _ShareConditions, providers: Collection[str]
) -> tuple[float, ForecastAssumption | None]:
    """Return the rate without limits: the rate measured now, else a past rate, else an assumed one.

    While a limit slows sending down, the measured rate is not the rate without limits.
    """
    if given.measured_rate is not None:
        return given.measured_rate, None
    now = given.now
    measured = await sending_rate(database, now, providers)
    is_slowed = any(
        queued.groups or CampaignRun(0, queued, now).pace[0] is not None
        for queued in queue
        if queued.kind is ForecastKind.CAMPAIGN
    )
    if measured > 0 and not is_slowed:
        return measured, None
    best = await best_rate(database, now) * max(1, given.workers)
    if measured > max(best, 0.0):
        return measured, None
    return (best, ForecastAssumption.LAST_RATE) if best > 0 else (ASSUMED_RATE, ForecastAssumption.ASSUMED_RATE)


async def _load_queue(
    tx: Transaction, rules: LimitRules, domains: DomainLimits, lanes: LaneProviders, now: Instant
) -> list[QueuedCampaign]:
    """Return the queued campaigns in the order in which they are sent."""
    unsent = {row.lane: row for row in await tx.run(COUNT_UNSENT)}
    is_deferred = (lane_deferrals.c.lane == queue_entries.c.lane) & (lane_deferrals.c.deferred_until > now)
    rows = await tx.execute(
        select(
            campaigns.c.campaign_id,
            campaigns.c.name,
            queue_entries,
            tenants.c.weight,
            tenants.c.max_in_flight,
            lane_deferrals.c.defer_reason.label("lane_reason"),
            lane_deferrals.c.deferred_until.label("lane_until"),
        )
        .join(campaigns, campaigns.c.id == queue_entries.c.campaign_key)
        .join(tenants, tenants.c.id == queue_entries.c.tenant_id)
        .outerjoin(lane_deferrals, is_deferred)
        .where(queue_entries.c.completed_at.is_(None), campaigns.c.status != CampaignStatus.CANCELLED)
        .order_by(QUEUE_ORDER)
    )
    deferrals = await load_lane_deferrals(tx, now)
    queue = []
    for row in rows:
        counts, deferral = unsent[row.lane], deferrals.get(row.lane)
        # They have their permits, or a lost worker's permits return when its lease ends and these messages take them.
        in_flight = counts.in_flight
        if deferral is not None and deferral.reason in _OUTAGES:
            in_flight = 0  # A provider that does not answer has not sent them.
        queued = _queued(row, rules, counts.waiting + counts.sending, in_flight, deferral)
        groups = await load_groups(tx, row, queued, domains, now)
        queue.append(replace(queued, groups=groups, provider=lanes.provider_of(row.lane)))
    return queue


def _queued(
    row: Any, rules: LimitRules, unsent: int, in_flight: int, message_deferral: Deferral | None
) -> QueuedCampaign:
    not_enqueued, pauses = _not_enqueued(row, unsent)
    tenant, *own = rules.levels(row.tenant_id, row.lane)
    is_held = message_deferral is not None and message_deferral.until == INDEFINITELY  # all sending is held
    is_deferred = row.lane_until is not None and not is_held
    return QueuedCampaign(
        campaign_id=row.campaign_id,
        name=row.name,
        tenant_id=row.tenant_id,
        remaining=unsent + not_enqueued,
        tenant=tenant,
        own=in_sender_zone(own[0]) if own else None,
        weight=row.weight,
        deferral=_without_detail(Deferral(row.lane_until, row.lane_reason) if is_deferred else message_deferral),
        pauses=pauses,
        max_in_flight=row.max_in_flight,
        has_begun=row.recipients > unsent - in_flight,
        in_flight=in_flight,
        follows_zones=any(level.limits.in_recipient_zone for level in (tenant, *own)),
    )


def _without_detail(deferral: Deferral | None) -> Deferral | None:
    return (
        None
        if deferral is None
        else replace(deferral, reason=split_defer_reason(deferral.reason)[0] or deferral.reason)
    )


def _not_enqueued(row: Any, unsent: int) -> tuple[int, tuple[ForecastPause, ...]]:
    """Return how many recipients have no message yet, and the future pauses."""
    planned = max(0, row.planned - row.recipients)
    # Most campaigns have no A/B test and no waves, so the content of only a few is parsed as a whole.
    if not orjson.loads(row.content).get("contest") and row.wave is None:
        return (planned if row.enqueue_ended_at is None else 0), ()
    content = CampaignSnapshot.read(row.content)
    ab_test, waves = content.ab_test, content.waves
    if waves is not None:
        return planned, tuple(_wave_pauses(row, unsent, waves))
    assert ab_test is not None
    if ab_test.decides_at is not None:
        return planned, ()
    share = sum(variant.share for variant in content.variants)
    test_group = size_of_test_group(row.planned, share)
    missing = max(0, test_group - row.recipients) if row.enqueue_ended_at is None else 0
    return planned, (ForecastPause(unsent + missing, ab_test.wait, AWAITING_WINNER),)


def _wave_pauses(row: Any, unsent: int, waves: RunningWaves) -> Iterator[ForecastPause]:
    """Yield the observation after each wave that is not sent yet, except after the last one."""
    size = size_of_waves(row.planned, waves.percents[row.wave - 1])
    if waves.opens_at is None:
        missing = max(0, size - row.recipients) if row.enqueue_ended_at is None else 0
        yield ForecastPause(unsent + missing, waves.wait, NEXT_WAVE)
    for percent in waves.percents[row.wave :]:
        before, size = size, size_of_waves(row.planned, percent)
        yield ForecastPause(size - before, waves.wait, NEXT_WAVE)


def _assumptions(
    share: _ForecastShare, *, has_worker: bool, is_held: bool, has_lost: bool
) -> Iterator[ForecastAssumption]:
    queue, rules = share.queue, share.rules
    if is_held:
        yield ForecastAssumption.SENDING_HELD
    if not has_worker:
        yield ForecastAssumption.NO_WORKER
    if has_lost:
        yield ForecastAssumption.WORKER_LOST
    yield ForecastAssumption.NO_OTHER_MESSAGES
    if share.learned is not None:
        yield ForecastAssumption.LEARNED_RATE
    elif any(queued.deferral and queued.deferral.reason in _OUTAGES for queued in queue):
        yield ForecastAssumption.PROVIDER_RECOVERS
    if share.source is not None:
        yield share.source
    is_alone = any(level.limits.one_at_a_time for queued in queue for level in queued.levels)
    if is_alone or any(queued.max_in_flight is not None for queued in queue):
        yield ForecastAssumption.ONE_AT_A_TIME_RATE
    if queue and rules.quota is not None:
        periods = {period.length for period in quota_periods(rules.quota)}
        renewals = {
            HOUR: ForecastAssumption.HOURLY_QUOTA,
            DAY: ForecastAssumption.DAILY_QUOTA,
            None: ForecastAssumption.NO_MORE_QUOTA,
        }
        yield from (assumption for length, assumption in renewals.items() if length in periods)
