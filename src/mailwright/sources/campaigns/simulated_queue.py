"""The state of a simulated queue: its campaigns, limit counters and deferrals at one time of the virtual clock."""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count

from mailwright.domain.clock import DAY, HOUR, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import QUOTA_EXHAUSTED, Deferral, LimitLevel, LimitWindow, QuotaPeriod, QuotaSnapshot
from mailwright.policies import quota as provider_quota
from mailwright.policies.hours import closes_at
from mailwright.policies.rates import windows
from mailwright.sources.campaigns.forecast_values import IN_LINE, YEAR, ForecastKind, QueuedCampaign
from mailwright.sources.campaigns.simulated_campaign import CampaignRun, SimulatedCounters


@dataclass(slots=True)
class SimulatedTenant:
    level: LimitLevel
    weight: int
    runs: list[CampaignRun]
    current: CampaignRun | None = None
    blocked_until: Instant = 0

    def ready_runs(self, now: Instant) -> Iterable[CampaignRun]:
        return (run for run in self.runs if run.deferred_until <= now)

    def give_turn(self, run: CampaignRun, now: Instant) -> None:
        """Let this campaign send now.

        The campaign that was sending goes back in line if it could still send: the new one is before it in the queue.
        """
        last = self.current
        if last is not None and last is not run and last.deferred_until <= now:
            last.switch_to(IN_LINE, now)
        self.current = run


@dataclass(slots=True)
class CachedWindows:
    windows: tuple[LimitWindow, ...] = ()
    valid_until: Instant = -1
    closes_at: Instant | None = -1


class SimulatedQueue:
    def __init__(
        self,
        queue: Sequence[QueuedCampaign],
        counters: SimulatedCounters,
        quota: QuotaSnapshot | None,
        *,
        now: Instant,
        ends: Instant,
    ) -> None:
        self.now = now
        self.ends = ends
        self.counters = counters
        self.quota = quota
        if quota is not None:
            count_quota(counters, quota)
        self._cached: dict[str, CachedWindows] = {}
        self._deferrals: list[tuple[Instant, int, CampaignRun]] = []
        self._numbers = count()
        self.runs = [CampaignRun(number, queued, now) for number, queued in enumerate(queue)]
        self.tenants = _by_tenant([run for run in self.runs if run.remaining])
        self.started: dict[int, CampaignRun] = {}
        self.levels = list({level.owner: level for run in self.runs for level in run.queued.levels}.values())
        for run in self.runs:
            if not run.remaining:
                run.finish(now)
            elif run.queued.deferral is not None and run.queued.deferral.until > now:
                self.defer(run, run.queued.deferral)

    def windows_of(self, level: LimitLevel) -> CachedWindows:
        """Return the windows, cached until one of them ends, because computing them in each step is slow."""
        known = self._cached.setdefault(level.owner, CachedWindows())
        if self.now >= known.valid_until:
            known.windows = windows(level.limits, level.owner, self.now)
            known.valid_until = min([self.ends, *(window.ends_at for window in known.windows)])
        if known.closes_at is not None and self.now >= known.closes_at:
            known.closes_at = closes_at(level.limits, self.now)
        return known

    def defer(self, run: CampaignRun, deferral: Deferral) -> None:
        run.deferred_until = deferral.until
        run.switch_to(deferral.reason, self.now)
        heappush(self._deferrals, (deferral.until, next(self._numbers), run))

    def end_deferrals(self) -> None:
        while self._deferrals and self._deferrals[0][0] <= self.now:
            run = heappop(self._deferrals)[2]
            if run.finished_at is None and run.deferred_until <= self.now:
                run.switch_to(IN_LINE, self.now)

    @property
    def has_campaigns(self) -> bool:
        """Whether a campaign is not finished. Emails that only share its limits do not count."""
        return any(run.queued.kind is ForecastKind.CAMPAIGN for tenant in self.tenants for run in tenant.runs)

    @property
    def next_deferral_end(self) -> Instant | None:
        return self._deferrals[0][0] if self._deferrals else None

    def deferred(self) -> list[tuple[Instant, CampaignRun]]:
        """Return the end of each deferral, with its campaign."""
        return [(until, run) for until, _, run in self._deferrals]

    def skip_to(self, target: Instant, soon: Instant) -> None:
        """Move the clock to `target`, and shift the deferrals that end by `soon` with it."""
        length = target - self.now
        for tenant in self.tenants:
            if self.now < tenant.blocked_until <= soon:
                tenant.blocked_until += length
        moved = [run for until, _, run in self._deferrals if until <= soon]
        self._deferrals = [item for item in self._deferrals if item[0] > soon]
        for run in moved:
            run.deferred_until += length
            self._deferrals.append((run.deferred_until, next(self._numbers), run))
        heapify(self._deferrals)
        self.now = target
        self._cached.clear()


def _by_tenant(runs: Sequence[CampaignRun]) -> list[SimulatedTenant]:
    found: dict[int, SimulatedTenant] = {}
    for run in runs:
        queued = run.queued
        found.setdefault(queued.tenant_id, SimulatedTenant(queued.tenant, queued.weight, [])).runs.append(run)
    return list(found.values())


def count_quota(counters: SimulatedCounters, quota: QuotaSnapshot) -> None:
    """Count the messages sent since the quota report in each reported period."""
    [counted] = provider_quota.windows(quota, quota.synced_at)
    used = counted.limit - counters.free(counted)
    for window in quota_windows(quota, quota.synced_at):
        counters.used[window.name] = used


def quota_windows(quota: QuotaSnapshot | None, now: Instant) -> tuple[LimitWindow, ...]:
    """Return the windows of the quota. An hour is renewed at its end, a day 24 hours after the report, a plan never."""
    if quota is None:
        return ()
    return tuple(_quota_window(quota, period, now) for period in quota_periods(quota))


def quota_periods(quota: QuotaSnapshot) -> tuple[QuotaPeriod, ...]:
    """Return the reported periods, or else one period for the remaining quota: a day or a plan."""
    if quota.periods:
        return quota.periods
    return (QuotaPeriod(None if quota.per_day is None else DAY, quota.remaining, quota.per_day or 0),)


def _quota_window(quota: QuotaSnapshot, period: QuotaPeriod, now: Instant) -> LimitWindow:
    name = f"{quota.lock_name}:{period.length}"
    left = period.left + quota.counted_before
    if period.length is None:
        ends = quota.synced_at + 20 * YEAR
        return LimitWindow(name, left, ends, QUOTA_EXHAUSTED, ends)
    began = quota.synced_at // HOUR * HOUR if period.length == HOUR else quota.synced_at
    number = max(0, (now - began) // period.length)
    ends = began + (number + 1) * period.length
    return LimitWindow(f"{name}:{number}", left if number == 0 else period.limit, ends, QUOTA_EXHAUSTED, ends)


def quota_period_of(window: LimitWindow) -> Instant:
    """Return the length of a quota's window; a plan lasts longer than any period."""
    length = window.name.rsplit(":", 2)
    return int(length[1]) if length[1].isdecimal() else 20 * YEAR
