"""Simulate the queue of campaigns on a virtual clock, under the policies that limit real sending.

The simulation jumps from event to event: a limit window that is used up or ends, working hours that open or close, a
campaign that finishes. If an hour or a day is like the one before it, all periods that must repeat it are skipped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import ceil

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import Deferral, LimitLevel, LimitWindow, QuotaSnapshot
from mailwright.policies import quota as provider_quota
from mailwright.policies.hours import outside_hours
from mailwright.policies.rates import windows
from mailwright.sources.campaigns.forecast_values import DOMAIN_LIMIT, YEAR, CampaignForecast, QueuedCampaign
from mailwright.sources.campaigns.leaps import PeriodLeaps
from mailwright.sources.campaigns.simulated_campaign import EPSILON, CampaignRun, SimulatedCounters
from mailwright.sources.campaigns.simulated_queue import SimulatedQueue, SimulatedTenant, quota_windows

# The forecast ends after this many steps. Only a queue in which every campaign has its own limits needs more.
MAX_STEPS = 200_000
_MIN_RATE = 0.001  # a rate of 0 would never end


@dataclass(frozen=True, slots=True)
class SimulationConditions:
    """The conditions that apply to the whole queue."""

    now: Instant
    rate: float  # messages per second without any limit of a tenant or campaign
    used: Mapping[str, float] = field(default_factory=dict)  # the values of the real counters
    quota: QuotaSnapshot | None = None
    horizon: Instant = YEAR
    rate_reason: str | None = None  # the provider's limit, if it sets the rate


@dataclass(frozen=True, slots=True)
class SimulationResult:
    campaigns: tuple[CampaignForecast, ...]
    looked_until: Instant
    steps: int  # how many events were simulated


def simulate(queue: Sequence[QueuedCampaign], conditions: SimulationConditions) -> SimulationResult:
    simulation = _Simulation(queue, conditions)
    simulation.run()
    forecasts = tuple(run.forecast() for run in simulation.queue.runs)
    return SimulationResult(forecasts, simulation.queue.now, simulation.steps)


def needed_counters(queue: Iterable[QueuedCampaign], quota: QuotaSnapshot | None, now: Instant) -> set[str]:
    """Return the names of the counters that a simulation starts with."""
    levels = {level.owner: level for queued in queue for level in queued.levels}
    found = [window for level in levels.values() for window in windows(level.limits, level.owner, now)]
    found += provider_quota.windows(quota, quota.synced_at) if quota is not None else ()
    return {window.name for window in found} | {related.name for window in found for related in window.related}


@dataclass(frozen=True, slots=True)
class _Sending:
    run: CampaignRun
    weight: int
    cap: float | None  # its limit per second
    windows: tuple[LimitWindow, ...]
    closes_at: Instant | None


class _Simulation:
    def __init__(self, campaigns: Sequence[QueuedCampaign], conditions: SimulationConditions) -> None:
        now = conditions.now
        self.queue = SimulatedQueue(
            campaigns, SimulatedCounters(conditions.used), conditions.quota, now=now, ends=now + conditions.horizon
        )
        self.steps = 0
        self._rate = max(conditions.rate, _MIN_RATE)
        self._rate_reason = conditions.rate_reason
        self._leaps = PeriodLeaps(self.queue, campaigns)

    def run(self) -> None:
        while self.steps < MAX_STEPS:
            self.queue.end_deferrals()
            self._finish_completed()
            self._begin_pauses()
            sending = self._choose()
            if not self.queue.has_campaigns or self.queue.now >= self.queue.ends:
                break
            self._advance(sending)
            self.steps += 1
            self._leaps.leap()
        for run in self.queue.runs:
            run.end(self.queue.now)

    # Choose the campaigns that send now.

    def _choose(self) -> list[_Sending]:
        found = []
        for tenant in self.queue.tenants:
            chosen = None if tenant.blocked_until > self.queue.now else self._first(tenant)
            if chosen is not None:
                found.append(chosen)
        return found

    def _first(self, tenant: SimulatedTenant) -> _Sending | None:
        for run in tenant.ready_runs(self.queue.now):
            tenant.give_turn(run, self.queue.now)
            if (deferral := self._deferral_of(tenant.level, run)) is not None:
                run.switch_to(deferral.reason, self.queue.now)
                tenant.blocked_until = deferral.until
                return None
            quota = quota_windows(self.queue.quota, self.queue.now)
            if (deferral := self.queue.counters.exhausted(quota, self.queue.now)) is not None:
                run.switch_to(deferral.reason, self.queue.now)
                tenant.blocked_until = deferral.until
                return None
            shared = run.queued.shared
            if shared is not None and (deferral := self._deferral_of(shared, run)) is not None:
                run.switch_to(deferral.reason, self.queue.now)
                tenant.blocked_until = deferral.until
                return None
            own = run.queued.own
            deferral = None if own is None else self._deferral_of(own, run)
            if deferral is not None or (deferral := run.groups_deferral(self.queue.now)) is not None:
                self.queue.defer(run, deferral)
                continue
            run.switch_to(self._slowed_by(run), self.queue.now)
            if run.starts_at is None:
                run.starts_at = self.queue.now
                self.queue.started[run.number] = run
            return self._sending(tenant, run, quota)
        return None

    def _slowed_by(self, run: CampaignRun) -> str | None:
        """Return the limit that slows the campaign down, or None if it sends at full speed."""
        pace, reason = run.pace
        domains = run.group_cap(self.queue.now)
        if domains is not None and domains < min(self._rate, pace or self._rate):
            return DOMAIN_LIMIT
        return reason if pace is not None and pace < self._rate else self._rate_reason

    def _deferral_of(self, level: LimitLevel, run: CampaignRun) -> Deferral | None:
        deferral = None if run.has_own_hours else outside_hours(level.limits, is_bulk=True, now=self.queue.now)
        return (
            deferral
            if deferral is not None
            else self.queue.counters.exhausted(self.queue.windows_of(level).windows, self.queue.now)
        )

    def _sending(self, tenant: SimulatedTenant, run: CampaignRun, quota: tuple[LimitWindow, ...]) -> _Sending:
        known = [self.queue.windows_of(level) for level in run.queued.levels]
        closing = [each.closes_at for each in known if each.closes_at is not None and not run.has_own_hours]
        groups = run.open_groups(self.queue.now)
        closing += [end for group in groups if (end := group.closes_at()) is not None]
        needed = (*(window for each in known for window in each.windows), *quota)
        caps = [cap for cap in (run.pace[0], run.group_cap(self.queue.now)) if cap is not None]
        return _Sending(run, tenant.weight, min(caps, default=None), needed, min(closing, default=None))

    # Advance to the next event.

    def _advance(self, sending: Sequence[_Sending]) -> None:
        rates = _divide_rate(sending, self._rate)
        until = self._next_event(sending, rates)
        for each, rate in zip(sending, rates, strict=True):
            room = [self.queue.counters.free(window) for window in each.windows]
            if each.run.groups:
                room.append(sum(group.remaining for group in each.run.open_groups(self.queue.now)))
            number = max(0.0, min([each.run.until_pause, rate * (until - self.queue.now) / SECOND, *room]))
            each.run.sent += number
            each.run.remaining -= number
            self._send_to_groups(each.run, rate, number)
            self.queue.counters.add(each.windows, number)
        self.queue.now = until

    def _send_to_groups(self, run: CampaignRun, rate: float, number: float) -> None:
        rates = run.group_rates(rate, self.queue.now)
        total = sum(each for _, each in rates)
        for group, each in rates:
            group.remaining = max(0.0, group.remaining - number * each / total) if total else group.remaining

    def _next_event(self, sending: Sequence[_Sending], rates: Sequence[float]) -> Instant:
        times: list[float] = [self.queue.ends, *self._leaps.ends_of_periods]
        times += [tenant.blocked_until for tenant in self.queue.tenants if tenant.runs]
        if (next_end := self.queue.next_deferral_end) is not None:
            times.append(next_end)
        together: dict[str, float] = {}
        for each, rate in zip(sending, rates, strict=True):
            times.append(self.queue.now + ceil(each.run.until_pause / rate * SECOND))
            for group, share in each.run.group_rates(rate, self.queue.now):
                times.append(self.queue.now + ceil(group.remaining / max(share, _MIN_RATE) * SECOND))
            if each.closes_at is not None:
                times.append(each.closes_at)
            for window in each.windows:
                together[window.name] = together.get(window.name, 0) + rate
        for each in sending:
            for window in each.windows:
                times.append(window.ends_at)
                times.append(self.queue.now + ceil(self.queue.counters.free(window) / together[window.name] * SECOND))
        later = [instant for instant in times if instant > self.queue.now]
        return int(min(later, default=self.queue.now + 1))

    def _finish_completed(self) -> None:
        for tenant in self.queue.tenants:
            run = tenant.current
            if run is not None and run.remaining < EPSILON:
                run.finish(self.queue.now)
                tenant.runs.remove(run)
                tenant.current = None
                self._leaps.restart()

    def _begin_pauses(self) -> None:
        for tenant in self.queue.tenants:
            for run in tenant.runs:
                if run.pauses and run.deferred_until <= self.queue.now and run.until_pause < EPSILON:
                    _, pause = run.pauses.pop(0)
                    tenant.current = None if tenant.current is run else tenant.current
                    self.queue.defer(run, Deferral(self.queue.now + pause.wait, pause.reason))
                    self._leaps.restart()


def _divide_rate(sending: Sequence[_Sending], rate: float) -> list[float]:
    """Divide the rate between the tenants by weight. The unused share of a limited tenant goes to the others."""
    shares = [0.0] * len(sending)
    left, waiting = rate, set(range(len(sending)))
    while waiting:
        total = sum(sending[number].weight for number in waiting)
        fair = {number: left * sending[number].weight / total for number in waiting}
        capped = {number for number in waiting if (cap := sending[number].cap) is not None and cap <= fair[number]}
        for number in capped or waiting:
            cap = sending[number].cap
            shares[number] = fair[number] if cap is None or number not in capped else float(cap)
        if not capped:
            break
        left -= sum(shares[number] for number in capped)
        waiting -= capped
    return [max(share, _MIN_RATE) for share in shares]
