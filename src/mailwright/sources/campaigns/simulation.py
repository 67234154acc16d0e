"""Simulate the queue of campaigns on a virtual clock, under the policies that limit real sending.

The simulation jumps from event to event: a limit window that is used up or ends, working hours that open or close, a
campaign that finishes. If an hour or a day is like the one before it, all periods that must repeat it are skipped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from heapq import heapify, heappop, heappush
from itertools import count
from math import ceil
from zoneinfo import ZoneInfo

from mailwright.domain.campaign import AWAITING_WINNER
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant, to_instant
from mailwright.domain.permits import QUOTA_EXHAUSTED, Deferral, LimitLevel, LimitWindow, QuotaPeriod, QuotaSnapshot
from mailwright.domain.working_hours import parse_working_hours
from mailwright.policies import quota as provider_quota
from mailwright.policies.hours import closes_at, is_always_open, outside_hours
from mailwright.policies.rates import windows
from mailwright.sources.campaigns.forecast_values import DOMAIN_LIMIT, IN_LINE, YEAR, CampaignForecast, QueuedCampaign
from mailwright.sources.campaigns.simulated_campaign import EPSILON, CampaignRun, SimulatedCounters

# Only a queue in which every campaign has limits of its own needs more steps. The forecast ends there.
MAX_STEPS = 200_000
# The period after which a window of this kind starts again.
_PERIODS = {"rate_per_hour": HOUR, "daily_limit": DAY, "warmup": DAY}
_SLIDING_PERIOD: Instant = HOUR + MINUTE
_WEEK: Instant = 7 * DAY
_MIN_RATE = 0.001  # a rate of 0 would never end


@dataclass(frozen=True, slots=True)
class SimulationConditions:
    """What applies to the whole queue."""

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
    return SimulationResult(tuple(run.forecast() for run in simulation.runs), simulation.now, simulation.steps)


def needed_counters(queue: Iterable[QueuedCampaign], quota: QuotaSnapshot | None, now: Instant) -> set[str]:
    """Return the names of the counters that a simulation starts with."""
    levels = {level.owner: level for queued in queue for level in queued.levels}
    found = [window for level in levels.values() for window in windows(level.limits, level.owner, now)]
    found += provider_quota.windows(quota, quota.synced_at) if quota is not None else ()
    return {window.name for window in found} | {related.name for window in found for related in window.related}


@dataclass(slots=True)
class _Tenant:
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


@dataclass(frozen=True, slots=True)
class _Sending:
    run: CampaignRun
    weight: int
    cap: float | None  # its limit per second
    windows: tuple[LimitWindow, ...]
    closes_at: Instant | None


@dataclass(frozen=True, slots=True)
class _Period:
    """The events of one simulated hour or day, to be compared with those of the next one."""

    sent: dict[int, float]
    state: tuple[object, ...]


@dataclass(slots=True)
class _CachedWindows:
    windows: tuple[LimitWindow, ...] = ()
    valid_until: Instant = -1
    closes_at: Instant | None = -1


@dataclass(slots=True)
class _Recurrence:
    """The current hour or day, and the one before it, since the last change that does not repeat."""

    period: Instant
    began: Instant
    totals: dict[int, float]
    last: _Period | None = None

    @property
    def next_at(self) -> Instant:
        return self.began + self.period


class _Simulation:
    def __init__(self, queue: Sequence[QueuedCampaign], conditions: SimulationConditions) -> None:
        self.now = now = conditions.now
        self.steps = 0
        self._ends = now + conditions.horizon
        self._rate = max(conditions.rate, _MIN_RATE)
        self._rate_reason = conditions.rate_reason
        self._counters = SimulatedCounters(conditions.used)
        self._quota = conditions.quota
        if self._quota is not None:
            self._count_quota(self._quota)
        self._cached: dict[str, _CachedWindows] = {}
        self._deferrals: list[tuple[Instant, int, CampaignRun]] = []
        self._numbers = count()
        self._offset_changes = _offset_changes(queue, now, self._ends)
        self.runs = [CampaignRun(number, queued, now) for number, queued in enumerate(queue)]
        self._tenants = _by_tenant([run for run in self.runs if run.remaining])
        for run in self.runs:
            if not run.remaining:
                run.finish(now)
            elif run.queued.deferral is not None and run.queued.deferral.until > now:
                self._defer(run, run.queued.deferral)
        self._started: dict[int, CampaignRun] = {}
        self._levels = list({level.owner: level for run in self.runs for level in run.queued.levels}.values())
        # Groups of recipients run out one after another, so their periods do not repeat.
        has_groups = any(queued.groups for queued in queue)
        self._periods = [] if has_groups else recurrence_periods(queue, self._quota)
        self._restart_comparison()

    def _count_quota(self, quota: QuotaSnapshot) -> None:
        """Count what was sent since the report in the periods that were reported."""
        [counted] = provider_quota.windows(quota, quota.synced_at)
        used = counted.limit - self._counters.free(counted)
        for window in _quota_windows(quota, quota.synced_at):
            self._counters.used[window.name] = used

    def run(self) -> None:
        while self.steps < MAX_STEPS:
            self._end_deferrals()
            self._finish_done()
            self._end_test_phases()
            sending = self._choose()
            if not any(tenant.runs for tenant in self._tenants) or self.now >= self._ends:
                break
            self._advance(sending)
            self.steps += 1
            for recurrence in self._recurrences:
                if self.now == recurrence.next_at:
                    self._compare_periods(recurrence)
        for run in self.runs:
            run.end(self.now)

    # Which campaigns send now.

    def _choose(self) -> list[_Sending]:
        found = []
        for tenant in self._tenants:
            chosen = None if tenant.blocked_until > self.now else self._first(tenant)
            if chosen is not None:
                found.append(chosen)
        return found

    def _first(self, tenant: _Tenant) -> _Sending | None:
        for run in tenant.ready_runs(self.now):
            tenant.give_turn(run, self.now)
            if (deferral := self._deferral_of(tenant.level, run)) is not None:
                run.switch_to(deferral.reason, self.now)
                tenant.blocked_until = deferral.until
                return None
            quota = _quota_windows(self._quota, self.now)
            if (deferral := self._counters.exhausted(quota, self.now)) is not None:
                run.switch_to(deferral.reason, self.now)
                tenant.blocked_until = deferral.until
                return None
            own = run.queued.own
            deferral = None if own is None else self._deferral_of(own, run)
            if deferral is not None or (deferral := run.groups_deferral(self.now)) is not None:
                self._defer(run, deferral)
                continue
            run.switch_to(self._slowed_by(run), self.now)
            if run.starts_at is None:
                run.starts_at = self.now
                self._started[run.number] = run
            return self._sending(tenant, run, quota)
        return None

    def _slowed_by(self, run: CampaignRun) -> str | None:
        """Return the limit that slows the campaign down, or None if it sends at full speed."""
        pace, reason = run.pace
        domains = run.group_cap(self.now)
        if domains is not None and domains < min(self._rate, pace or self._rate):
            return DOMAIN_LIMIT
        return reason if pace is not None and pace < self._rate else self._rate_reason

    def _deferral_of(self, level: LimitLevel, run: CampaignRun) -> Deferral | None:
        deferral = None if run.has_own_hours else outside_hours(level.limits, is_bulk=True, now=self.now)
        return (
            deferral
            if deferral is not None
            else self._counters.exhausted(self._cached_windows(level).windows, self.now)
        )

    def _sending(self, tenant: _Tenant, run: CampaignRun, quota: tuple[LimitWindow, ...]) -> _Sending:
        known = [self._cached_windows(level) for level in run.queued.levels]
        closing = [each.closes_at for each in known if each.closes_at is not None and not run.has_own_hours]
        groups = run.open_groups(self.now)
        closing += [end for group in groups if (end := group.closes_at()) is not None]
        needed = (*(window for each in known for window in each.windows), *quota)
        caps = [cap for cap in (run.pace[0], run.group_cap(self.now)) if cap is not None]
        return _Sending(run, tenant.weight, min(caps, default=None), needed, min(closing, default=None))

    def _cached_windows(self, level: LimitLevel) -> _CachedWindows:
        """Cache the windows until one of them ends: computing them in each step would be the largest cost."""
        known = self._cached.setdefault(level.owner, _CachedWindows())
        if self.now >= known.valid_until:
            known.windows = windows(level.limits, level.owner, self.now)
            known.valid_until = min([self._ends, *(window.ends_at for window in known.windows)])
        if known.closes_at is not None and self.now >= known.closes_at:
            known.closes_at = closes_at(level.limits, self.now)
        return known

    # Until the next event.

    def _advance(self, sending: Sequence[_Sending]) -> None:
        rates = _divide_rate(sending, self._rate)
        until = self._next_event(sending, rates)
        for each, rate in zip(sending, rates, strict=True):
            room = [self._counters.free(window) for window in each.windows]
            if each.run.groups:
                room.append(sum(group.remaining for group in each.run.open_groups(self.now)))
            number = max(0.0, min([each.run.until_pause, rate * (until - self.now) / SECOND, *room]))
            each.run.sent += number
            each.run.remaining -= number
            self._send_to_groups(each.run, rate, number)
            self._counters.add(each.windows, number)
        self.now = until

    def _send_to_groups(self, run: CampaignRun, rate: float, number: float) -> None:
        rates = run.group_rates(rate, self.now)
        total = sum(each for _, each in rates)
        for group, each in rates:
            group.remaining = max(0.0, group.remaining - number * each / total) if total else group.remaining

    def _next_event(self, sending: Sequence[_Sending], rates: Sequence[float]) -> Instant:
        times: list[float] = [self._ends, *(recurrence.next_at for recurrence in self._recurrences)]
        times += [tenant.blocked_until for tenant in self._tenants if tenant.runs]
        if self._deferrals:
            times.append(self._deferrals[0][0])
        together: dict[str, float] = {}
        for each, rate in zip(sending, rates, strict=True):
            times.append(self.now + ceil(each.run.until_pause / rate * SECOND))
            for group, share in each.run.group_rates(rate, self.now):
                times.append(self.now + ceil(group.remaining / max(share, _MIN_RATE) * SECOND))
            if each.closes_at is not None:
                times.append(each.closes_at)
            for window in each.windows:
                together[window.name] = together.get(window.name, 0) + rate
        for each in sending:
            for window in each.windows:
                times.append(window.ends_at)
                times.append(self.now + ceil(self._counters.free(window) / together[window.name] * SECOND))
        later = [instant for instant in times if instant > self.now]
        return int(min(later, default=self.now + 1))

    def _finish_done(self) -> None:
        for tenant in self._tenants:
            run = tenant.current
            if run is not None and run.remaining < EPSILON:
                run.finish(self.now)
                tenant.runs.remove(run)
                tenant.current = None
                self._restart_comparison()

    def _end_test_phases(self) -> None:
        for tenant in self._tenants:
            for run in tenant.runs:
                ab_test = run.queued.ab_test
                if ab_test is not None and run.after_test is not None and run.until_pause < EPSILON:
                    run.after_test = None
                    tenant.current = None if tenant.current is run else tenant.current
                    self._defer(run, Deferral(self.now + ab_test.wait, AWAITING_WINNER))
                    self._restart_comparison()

    def _defer(self, run: CampaignRun, deferral: Deferral) -> None:
        run.deferred_until = deferral.until
        run.switch_to(deferral.reason, self.now)
        heappush(self._deferrals, (deferral.until, next(self._numbers), run))

    def _end_deferrals(self) -> None:
        while self._deferrals and self._deferrals[0][0] <= self.now:
            run = heappop(self._deferrals)[2]
            if run.finished_at is None and run.deferred_until <= self.now:
                run.switch_to(IN_LINE, self.now)

    # Periods that repeat the one before.

    def _restart_comparison(self) -> None:
        self._recurrences = [_Recurrence(period, self.now, self._totals()) for period in self._periods]

    def _totals(self) -> dict[int, float]:
        return {number: run.sent for number, run in self._started.items() if run.finished_at is None}

    def _compare_periods(self, recurrence: _Recurrence) -> None:
        totals = self._totals()
        sent = {number: total - recurrence.totals.get(number, 0) for number, total in totals.items()}
        this = _Period(
            {number: amount for number, amount in sent.items() if amount > EPSILON}, self._state(recurrence.period)
        )
        if recurrence.last is not None and _repeats(this, recurrence.last):
            repetitions = self._repetitions(this, recurrence.period)
            if repetitions > 0:
                self._leap(this, recurrence.period, repetitions)
                # A leap over hours does not interrupt the comparison of days.
                self._recurrences = [
                    each if each.period > recurrence.period else _Recurrence(each.period, self.now, self._totals())
                    for each in self._recurrences
                ]
                return
        recurrence.began, recurrence.totals, recurrence.last = self.now, totals, this

    def _state(self, period: Instant) -> tuple[object, ...]:
        """Return everything that the next period depends on, except the number of unsent messages."""
        soon = self.now + period
        tenants = [
            (tenant.current, tenant.blocked_until - self.now if self.now < tenant.blocked_until <= soon else 0)
            for tenant in self._tenants
        ]
        deferrals = [
            (run, run.deferred_until - self.now) for _, _, run in self._deferrals if run.deferred_until <= soon
        ]
        return (*tenants, *sorted(deferrals, key=lambda item: item[0].number))

    def _repetitions(self, this: _Period, period: Instant) -> int:
        """Return how many periods can be skipped before a change that does not repeat, less one."""
        if any(self.now - 2 * period - DAY < change <= self.now for change in self._offset_changes):
            return 0  # one of the two compared periods is before the change
        most = (self._ends - self.now) // period
        for number, amount in this.sent.items():
            most = min(most, int(self.runs[number].until_pause / amount) - 1)
        later = [until for until, _, _ in self._deferrals]
        later += [tenant.blocked_until for tenant in self._tenants]
        later = [instant for instant in later if instant > self.now + period]
        later += [instant for instant in self._offset_changes if instant > self.now]
        later += [recurrence.next_at for recurrence in self._recurrences if recurrence.period > period]
        for window, users in self._lasting_windows(this, period).items():
            amount = sum(this.sent[number] for number in users)
            most = min(most, int(self._counters.free(window) / amount) - 1)
            later.append(window.ends_at)
        if period < DAY:
            limits = {level.limits for number in this.sent for level in self.runs[number].queued.levels}
            if any(outside_hours(each, is_bulk=True, now=self.now) for each in limits):
                return 0
            later += [closing for each in limits if (closing := closes_at(each, self.now)) is not None]
        return min([most, *((instant - self.now) // period - 1 for instant in later)])

    def _lasting_windows(self, this: _Period, period: Instant) -> dict[LimitWindow, list[int]]:
        """Return the windows that last longer than a period, with the campaigns that use them."""
        found: dict[LimitWindow, list[int]] = {}
        for number in this.sent:
            for level in self.runs[number].queued.levels:
                for window in windows(level.limits, level.owner, self.now):
                    if _PERIODS.get(window.reason, 0) > period:
                        found.setdefault(window, []).append(number)
            for window in _quota_windows(self._quota, self.now):
                if _quota_period_of(window) > period:
                    found.setdefault(window, []).append(number)
        return found

    def _leap(self, this: _Period, period: Instant, repetitions: int) -> None:
        length = repetitions * period
        target = self.now + length
        for window, users in self._lasting_windows(this, period).items():
            self._counters.add([window], repetitions * sum(this.sent[number] for number in users))
        for level in self._levels:
            before, after = (_recurring_windows(level, instant, period) for instant in (self.now, target))
            self._counters.move(before, after)
        for old, new in zip(_quota_windows(self._quota, self.now), _quota_windows(self._quota, target), strict=True):
            if _quota_period_of(old) <= period:
                self._counters.move([old], [new])
        for number, amount in this.sent.items():
            run = self.runs[number]
            run.leap(self.now, target, repetitions * amount, run.longest_wait(self.now - period, self.now))
        soon = self.now + period
        for tenant in self._tenants:
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


def recurrence_periods(queue: Iterable[QueuedCampaign], quota: QuotaSnapshot | None) -> list[Instant]:
    """Return the lengths of the periods that can repeat: days or weeks only if some limit depends on them."""
    limits = [level.limits for queued in queue for level in queued.levels]
    hour = _SLIDING_PERIOD if any(each.sliding_hour for each in limits) else HOUR
    has_daily_limits = quota is not None or any(
        not is_always_open(each) or each.daily_limit is not None or each.warmup_since is not None for each in limits
    )
    if any(parse_working_hours(each.working_hours).differs_by_weekday for each in limits):
        return [hour, _WEEK]
    return [hour, DAY] if has_daily_limits else [hour]


def _by_tenant(runs: Sequence[CampaignRun]) -> list[_Tenant]:
    found: dict[int, _Tenant] = {}
    for run in runs:
        queued = run.queued
        found.setdefault(queued.tenant_id, _Tenant(queued.tenant, queued.weight, [])).runs.append(run)
    return list(found.values())


def _divide_rate(sending: Sequence[_Sending], rate: float) -> list[float]:
    """Divide the rate between the tenants by weight. The others share what a limited tenant does not use."""
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


def _quota_windows(quota: QuotaSnapshot | None, now: Instant) -> tuple[LimitWindow, ...]:
    """Return the windows of the quota. An hour is renewed at its end, a day 24 hours after the report, a plan never."""
    if quota is None:
        return ()
    return tuple(_quota_window(quota, period, now) for period in quota_periods(quota))


def quota_periods(quota: QuotaSnapshot) -> tuple[QuotaPeriod, ...]:
    """Return the reported periods; without them, what remains is the rest of a day or of a plan."""
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


def _quota_period_of(window: LimitWindow) -> Instant:
    """Return the length of a quota's window; a plan lasts longer than any period."""
    length = window.name.rsplit(":", 2)
    return int(length[1]) if length[1].isdecimal() else 20 * YEAR


def _recurring_windows(level: LimitLevel, now: Instant, period: Instant) -> list[LimitWindow]:
    """Return the windows that start again in each period."""
    return [
        window for window in windows(level.limits, level.owner, now) if 0 < _PERIODS.get(window.reason, 0) <= period
    ]


def _repeats(one: _Period, other: _Period) -> bool:
    if one.state != other.state or one.sent.keys() != other.sent.keys():
        return False
    return all(abs(amount - other.sent[number]) < 1 for number, amount in one.sent.items())


def _offset_changes(queue: Iterable[QueuedCampaign], now: Instant, ends: Instant) -> list[Instant]:
    """Return the times at which a time zone of the queue changes its offset or a warm-up begins to grow."""
    limits = [level.limits for queued in queue for level in queued.levels]
    zones = {each.timezone for each in limits}
    days = range(now, min(ends, now + 2 * YEAR) + 2 * DAY, DAY)
    found = {
        to_instant(datetime.combine(each.warmup_since + timedelta(days=1), time(), ZoneInfo(each.timezone)))
        for each in limits
        if each.warmup_since is not None
    }
    for zone in zones:
        offsets = [datetime.fromtimestamp(day / 1000, UTC).astimezone(ZoneInfo(zone)).utcoffset() for day in days]
        found.update(day for day, before, after in zip(days, offsets, offsets[1:], strict=False) if before != after)
    return sorted(found)
