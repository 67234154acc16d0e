"""The simulation: the line of campaigns on a virtual clock, under the same policies that hold real mail.

It jumps from event to event: a window that is used up or ends, hours that open or close, a campaign that is through.
Where an hour or a day was like the one before it, all those that must be like it too are taken in one leap.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from heapq import heapify, heappop, heappush
from itertools import count
from math import ceil
from zoneinfo import ZoneInfo

from mailwright.domain.campaign import AWAITING_WINNER
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant, to_instant
from mailwright.domain.permits import Deferral, LimitLevel, LimitWindow, QuotaSnapshot, RelatedCounter
from mailwright.outbox.ledger import state_of
from mailwright.policies import quota as provider_quota
from mailwright.policies.hours import ALWAYS, closes_at, outside_hours
from mailwright.policies.pacing import INTERVAL, ONE_AT_A_TIME, PER_SECOND, slowest_rate
from mailwright.policies.rates import windows

IN_LINE = "in_line"  # another campaign of the tenant goes first
YEAR: Instant = 365 * DAY
# A line that needs more than this has limits of its own in every campaign; what comes after is not told.
MAX_STEPS = 200_000
# How long it takes until a window of this kind begins anew.
_ROUNDS = {"rate_per_hour": HOUR, "daily_limit": DAY, "warmup": DAY}
_SLIDING_ROUND: Instant = HOUR + MINUTE
_NOTHING = 1e-6
_SLOWEST = 0.001  # a rate of nothing would never end
# Mails that go one at a time wait for the provider's answer each; nobody measures how long that takes.
ONE_AT_A_TIME_RATE = 10.0
# A campaign that lets another go first for so long is not in line for that.
_FLICKER: Instant = MINUTE
# The send rate of a forecast while nothing is being sent. Most providers accept more from one worker.
ASSUMED_RATE = 20.0


class ForecastAssumption(StrEnum):
    NO_OTHER_MESSAGES = "no_other_messages"
    ASSUMED_RATE = "assumed_rate"
    ONE_AT_A_TIME_RATE = "one_at_a_time_rate"
    SENDER_TIME_ZONE = "sender_time_zone"
    DAILY_QUOTA = "daily_quota"
    NO_MORE_QUOTA = "no_more_quota"


@dataclass(frozen=True, slots=True)
class QueuedCampaign:
    """A queued campaign, with the limits of its tenant and its own."""

    campaign_id: str
    name: str
    tenant_id: int
    remaining: int
    tenant: LimitLevel
    own: LimitLevel | None = None
    weight: int = 1
    held: Deferral | None = None
    trial: "AbTestPhase | None" = None

    @property
    def levels(self) -> tuple[LimitLevel, ...]:
        return (self.tenant,) if self.own is None else (self.tenant, self.own)


@dataclass(frozen=True, slots=True)
class AbTestPhase:
    """So many get the versions of an experiment, then everyone else waits for the winner."""

    mails: int
    wait: Instant


@dataclass(frozen=True, slots=True)
class ForecastSegment:
    """Sends without a limit (`reason` is None), waits (nothing is sent), or sends slower because of the reason."""

    begins_at: Instant
    ends_at: Instant
    sent: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class CampaignForecast:
    """What will become of one campaign. None: not within the time that was looked at."""

    campaign_id: str
    name: str
    tenant_id: int
    remaining: int
    starts_at: Instant | None
    finishes_at: Instant | None
    segments: tuple[ForecastSegment, ...]


@dataclass(frozen=True, slots=True)
class SimulationConditions:
    """What holds for the whole line."""

    now: Instant
    rate: float  # mails per second where nothing limits them
    used: Mapping[str, float] = field(default_factory=dict)  # what the real counters stand at
    quota: QuotaSnapshot | None = None
    horizon: Instant = YEAR


@dataclass(frozen=True, slots=True)
class SimulationResult:
    campaigns: tuple[CampaignForecast, ...]
    looked_until: Instant
    steps: int  # from event to event: what it cost


def simulate(line: Sequence[QueuedCampaign], conditions: SimulationConditions) -> SimulationResult:
    simulation = _Simulation(line, conditions)
    simulation.run()
    return SimulationResult(tuple(run.course() for run in simulation.runs), simulation.now, simulation.steps)


def needed_counters(line: Iterable[QueuedCampaign], quota: QuotaSnapshot | None, now: Instant) -> set[str]:
    """The names of the counters that a simulation begins with."""
    levels = {level.owner: level for queued in line for level in queued.levels}
    found = [window for level in levels.values() for window in windows(level.limits, level.owner, now)]
    found += _quota_windows(quota, now)
    return {window.name for window in found} | {related.name for window in found for related in window.related}


class _Counters:
    """A ledger that nobody else writes to."""

    def __init__(self, used: Mapping[str, float]) -> None:
        self.used: dict[str, float] = dict(used)

    def free(self, window: LimitWindow) -> float:
        beside = sum(self.used.get(other.name, 0) for other in window.related)
        return window.limit - self.used.get(window.name, 0) - beside

    def opens_at(self, window: LimitWindow) -> Instant:
        return state_of(window, 0, self.used).opens_at if window.related else window.deferred_until

    def add(self, sent: Iterable[LimitWindow], number: float) -> None:
        for window in sent:
            self.used[window.name] = self.used.get(window.name, 0) + number

    def move(self, before: Sequence[LimitWindow], after: Sequence[LimitWindow]) -> None:
        """What stood in one window stands in the same one of a later day."""
        later = {window.reason: window for window in after}
        for old in before:
            if (new := later.get(old.reason)) is None:
                continue  # a warm-up is over by then
            pairs: list[tuple[LimitWindow | RelatedCounter, LimitWindow | RelatedCounter]] = [
                (old, new),
                *zip(old.related, new.related, strict=False),
            ]
            for one, other in pairs:
                if one.name in self.used:
                    self.used[other.name] = self.used.pop(one.name)


class _Run:
    """One campaign under way: what it does now, since when, and what it did before."""

    def __init__(self, number: int, queued: QueuedCampaign, now: Instant) -> None:
        self.number = number
        self.queued = queued
        self.remaining = float(queued.remaining)
        self.after_trial = None if queued.trial is None else float(queued.remaining - queued.trial.mails)
        self.held_until: Instant = 0
        self.sent = 0.0
        self.starts_at: Instant | None = None
        self.finished_at: Instant | None = None
        self._reason: str | None = IN_LINE
        self._since = now
        self._sent_before = 0.0
        self._spans: list[ForecastSegment] = []

    @property
    def pace(self) -> tuple[float | None, str | None]:
        """Mails per second at the most, and the rule that says so: mail by mail, a year would take a year."""
        slowest = slowest_rate(self.queued.levels)
        if any(level.limits.one_at_a_time for level in self.queued.levels) and (
            slowest is None or slowest.per_second > ONE_AT_A_TIME_RATE
        ):
            return ONE_AT_A_TIME_RATE, ONE_AT_A_TIME
        return (None, None) if slowest is None else (slowest.per_second, slowest.reason)

    @property
    def until_pause(self) -> float:
        """How many go before it stops by itself: all, or those who try the versions."""
        return self.remaining if self.after_trial is None else max(0.0, self.remaining - self.after_trial)

    def turn_to(self, reason: str | None, now: Instant) -> None:
        if reason == self._reason:
            return
        self._close(now)
        self._reason = reason

    def leap(self, begins: Instant, ends: Instant, sent: float, reason: str | None) -> None:
        """Many days at once: the rule that it waited for most is the one that send_rates it."""
        self._close(begins)
        before, self.sent = self.sent, self.sent + sent
        self.remaining -= sent
        # Whole mails of the sum, as everywhere: rounded by itself, a leap would lose one or count one twice.
        self._spans.append(ForecastSegment(begins, ends, round(self.sent) - round(before), reason))
        self._since, self._sent_before = ends, self.sent

    def finish(self, now: Instant) -> None:
        self.remaining = 0
        self.finished_at = now
        self._close(now)

    def end(self, now: Instant) -> None:
        """The time that was looked at is over."""
        if self.finished_at is None:
            self._close(now)

    def waited_for_most(self, since: Instant, now: Instant) -> str | None:
        waits: dict[str, Instant] = {}
        for span in (*self._spans, ForecastSegment(self._since, now, 0, self._reason)):
            if span.reason is not None and span.ends_at > since:
                waits[span.reason] = waits.get(span.reason, 0) + span.ends_at - max(since, span.begins_at)
        return max(waits, key=waits.__getitem__, default=None)

    def course(self) -> CampaignForecast:
        queued = self.queued
        return CampaignForecast(
            queued.campaign_id,
            queued.name,
            queued.tenant_id,
            queued.remaining,
            self.starts_at,
            self.finished_at,
            tuple(self._spans),
        )

    def _close(self, now: Instant) -> None:
        if now > self._since or self.sent > self._sent_before:
            self._spans.append(
                ForecastSegment(self._since, now, round(self.sent) - round(self._sent_before), self._reason)
            )
        self._since, self._sent_before = now, self.sent


@dataclass(slots=True)
class _Tenant:
    level: LimitLevel
    weight: int
    line: list[_Run]
    current: _Run | None = None
    blocked_until: Instant = 0

    def open_runs(self, now: Instant) -> Iterable[_Run]:
        return (run for run in self.line if run.held_until <= now)


@dataclass(frozen=True, slots=True)
class _Sending:
    run: _Run
    weight: int
    cap: float | None  # its limit per second
    windows: tuple[LimitWindow, ...]
    closes_at: Instant | None


@dataclass(frozen=True, slots=True)
class _Round:
    """What an hour or a day looked like, to be compared with the next."""

    sent: dict[int, float]
    state: tuple[object, ...]


@dataclass(slots=True)
class _Cached:
    windows: tuple[LimitWindow, ...] = ()
    valid_until: Instant = -1
    closes_at: Instant | None = -1


@dataclass(slots=True)
class _Marks:
    """The hours or days since something last changed for good."""

    period: Instant
    began: Instant
    totals: dict[int, float]
    last: _Round | None = None

    @property
    def next_at(self) -> Instant:
        return self.began + self.period


class _Simulation:
    def __init__(self, line: Sequence[QueuedCampaign], conditions: SimulationConditions) -> None:
        self.now = now = conditions.now
        self.steps = 0
        self._ends = now + conditions.horizon
        self._rate = max(conditions.rate, _SLOWEST)
        self._counters = _Counters(conditions.used)
        self._quota = conditions.quota
        self._cached: dict[str, _Cached] = {}
        self._holds: list[tuple[Instant, int, _Run]] = []
        self._numbers = count()
        self._changes = _changes(line, now, self._ends)
        self.runs = [_Run(number, queued, now) for number, queued in enumerate(line)]
        self._tenants = _by_tenant([run for run in self.runs if run.remaining])
        for run in self.runs:
            if not run.remaining:
                run.finish(now)
            elif run.queued.held is not None and run.queued.held.until > now:
                self._hold(run, run.queued.held)
        self._begun: dict[int, _Run] = {}
        self._levels = list({level.owner: level for run in self.runs for level in run.queued.levels}.values())
        self._periods = _periods(line, self._quota)
        self._begin_anew()

    def run(self) -> None:
        while self.steps < MAX_STEPS:
            self._let_go()
            self._finish_empty()
            self._wait_for_winners()
            sending = self._choose()
            if not any(tenant.line for tenant in self._tenants) or self.now >= self._ends:
                break
            self._advance(sending)
            self.steps += 1
            for marks in self._marks:
                if self.now == marks.next_at:
                    self._compare(marks)
        for run in self.runs:
            run.end(self.now)

    # Who sends now.

    def _choose(self) -> list[_Sending]:
        found = []
        for tenant in self._tenants:
            chosen = None if tenant.blocked_until > self.now else self._first(tenant)
            if chosen is not None:
                found.append(chosen)
        return found

    def _first(self, tenant: _Tenant) -> _Sending | None:
        for run in tenant.open_runs(self.now):
            self._put_forward(tenant, run)
            if (held := self._objection(tenant.level)) is not None:
                run.turn_to(held.reason, self.now)
                tenant.blocked_until = held.until
                return None
            quota = _quota_windows(self._quota, self.now)
            if (held := self._used_up(quota)) is not None:
                run.turn_to(held.reason, self.now)
                tenant.blocked_until = held.until
                return None
            own = run.queued.own
            if own is not None and (held := self._objection(own)) is not None:
                self._hold(run, held)
                continue
            pace, reason = run.pace
            run.turn_to(reason if pace is not None and pace < self._rate else None, self.now)
            if run.starts_at is None:
                run.starts_at = self.now
                self._begun[run.number] = run
            return self._sending(tenant, run, quota)
        return None

    def _put_forward(self, tenant: _Tenant, run: _Run) -> None:
        """Whoever had the turn steps back when one before it in line may go again."""
        last = tenant.current
        if last is not None and last is not run and last.held_until <= self.now:
            last.turn_to(IN_LINE, self.now)
        tenant.current = run

    def _objection(self, level: LimitLevel) -> Deferral | None:
        held = outside_hours(level.limits, is_bulk=True, now=self.now)
        return held if held is not None else self._used_up(self._known(level).windows)

    def _used_up(self, needed: Sequence[LimitWindow]) -> Deferral | None:
        for window in needed:
            if self._counters.free(window) < _NOTHING:
                return Deferral(max(self._counters.opens_at(window), self.now + 1), window.reason)
        return None

    def _sending(self, tenant: _Tenant, run: _Run, quota: tuple[LimitWindow, ...]) -> _Sending:
        known = [self._known(level) for level in run.queued.levels]
        closing = [each.closes_at for each in known if each.closes_at is not None]
        needed = (*(window for each in known for window in each.windows), *quota)
        cap, _ = run.pace
        return _Sending(run, tenant.weight, cap, needed, min(closing, default=None))

    def _known(self, level: LimitLevel) -> _Cached:
        """Windows stay the same until one of them ends: making them anew for each step would cost the most."""
        known = self._cached.setdefault(level.owner, _Cached())
        if self.now >= known.valid_until:
            known.windows = windows(level.limits, level.owner, self.now)
            known.valid_until = min([self._ends, *(window.ends_at for window in known.windows)])
        if known.closes_at is not None and self.now >= known.closes_at:
            known.closes_at = closes_at(level.limits, self.now)
        return known

    # What happens until the next event.

    def _advance(self, sending: Sequence[_Sending]) -> None:
        rates = _shares(sending, self._rate)
        until = self._next_event(sending, rates)
        for each, rate in zip(sending, rates, strict=True):
            room = [self._counters.free(window) for window in each.windows]
            number = max(0.0, min([each.run.until_pause, rate * (until - self.now) / SECOND, *room]))
            each.run.sent += number
            each.run.remaining -= number
            self._counters.add(each.windows, number)
        self.now = until

    def _next_event(self, sending: Sequence[_Sending], rates: Sequence[float]) -> Instant:
        moments: list[float] = [self._ends, *(marks.next_at for marks in self._marks)]
        moments += [tenant.blocked_until for tenant in self._tenants if tenant.line]
        if self._holds:
            moments.append(self._holds[0][0])
        together: dict[str, float] = {}
        for each, rate in zip(sending, rates, strict=True):
            moments.append(self.now + ceil(each.run.until_pause / rate * SECOND))
            if each.closes_at is not None:
                moments.append(each.closes_at)
            for window in each.windows:
                together[window.name] = together.get(window.name, 0) + rate
        for each in sending:
            for window in each.windows:
                moments.append(window.ends_at)
                moments.append(self.now + ceil(self._counters.free(window) / together[window.name] * SECOND))
        later = [moment for moment in moments if moment > self.now]
        return int(min(later, default=self.now + 1))

    def _finish_empty(self) -> None:
        for tenant in self._tenants:
            run = tenant.current
            if run is not None and run.remaining < _NOTHING:
                run.finish(self.now)
                tenant.line.remove(run)
                tenant.current = None
                self._begin_anew()

    def _wait_for_winners(self) -> None:
        for tenant in self._tenants:
            for run in tenant.line:
                trial = run.queued.trial
                if trial is not None and run.after_trial is not None and run.until_pause < _NOTHING:
                    run.after_trial = None
                    tenant.current = None if tenant.current is run else tenant.current
                    self._hold(run, Deferral(self.now + trial.wait, AWAITING_WINNER))
                    self._begin_anew()

    def _hold(self, run: _Run, held: Deferral) -> None:
        run.held_until = held.until
        run.turn_to(held.reason, self.now)
        heappush(self._holds, (held.until, next(self._numbers), run))

    def _let_go(self) -> None:
        while self._holds and self._holds[0][0] <= self.now:
            run = heappop(self._holds)[2]
            if run.finished_at is None and run.held_until <= self.now:
                run.turn_to(IN_LINE, self.now)

    # Hours and days that are like the one before.

    def _begin_anew(self) -> None:
        self._marks = [self._mark(period) for period in self._periods]

    def _mark(self, period: Instant) -> _Marks:
        return _Marks(period, self.now, self._totals())

    def _totals(self) -> dict[int, float]:
        return {number: run.sent for number, run in self._begun.items() if run.finished_at is None}

    def _compare(self, marks: _Marks) -> None:
        totals = self._totals()
        sent = {number: total - marks.totals.get(number, 0) for number, total in totals.items()}
        this = _Round(
            {number: amount for number, amount in sent.items() if amount > _NOTHING}, self._state(marks.period)
        )
        if marks.last is not None and _is_alike(this, marks.last):
            rounds = self._rounds_alike(this, marks.period)
            if rounds > 0:
                self._leap(this, marks.period, rounds)
                # Leaps over hours belong to the day that they are part of.
                self._marks = [each if each.period > marks.period else self._mark(each.period) for each in self._marks]
                return
        marks.began, marks.totals, marks.last = self.now, totals, this

    def _state(self, period: Instant) -> tuple[object, ...]:
        """All that the next round depends on, but for what is left to send."""
        soon = self.now + period
        tenants = [
            (tenant.current, tenant.blocked_until - self.now if self.now < tenant.blocked_until <= soon else 0)
            for tenant in self._tenants
        ]
        holds = [(run, run.held_until - self.now) for _, _, run in self._holds if run.held_until <= soon]
        return (*tenants, *sorted(holds, key=lambda hold: hold[0].number))

    def _rounds_alike(self, this: _Round, period: Instant) -> int:
        """As many as can pass before something ends that does not come again with every round; less one."""
        if any(self.now - 2 * period - DAY < change <= self.now for change in self._changes):
            return 0  # the two that were compared did not both come after it
        most = (self._ends - self.now) // period
        for number, amount in this.sent.items():
            most = min(most, int(self.runs[number].until_pause / amount) - 1)
        later = [until for until, _, _ in self._holds]
        later += [tenant.blocked_until for tenant in self._tenants]
        later = [moment for moment in later if moment > self.now + period]
        later += [moment for moment in self._changes if moment > self.now]
        later += [marks.next_at for marks in self._marks if marks.period > period]
        for window, users in self._lasting(this, period).items():
            amount = sum(this.sent[number] for number in users)
            most = min(most, int(self._counters.free(window) / amount) - 1)
            later.append(window.ends_at)
        if period < DAY:
            limits = {level.limits for number in this.sent for level in self.runs[number].queued.levels}
            if any(outside_hours(each, is_bulk=True, now=self.now) for each in limits):
                return 0
            later += [closing for each in limits if (closing := closes_at(each, self.now)) is not None]
        return min([most, *((moment - self.now) // period - 1 for moment in later)])

    def _lasting(self, this: _Round, period: Instant) -> dict[LimitWindow, list[int]]:
        """The windows that outlast a round, with those who send through them."""
        found: dict[LimitWindow, list[int]] = {}
        for number in this.sent:
            for level in self.runs[number].queued.levels:
                for window in windows(level.limits, level.owner, self.now):
                    if _ROUNDS.get(window.reason, 0) > period:
                        found.setdefault(window, []).append(number)
            is_renewed = self._quota is not None and self._quota.per_day is not None and period == DAY
            for window in () if is_renewed else _quota_windows(self._quota, self.now):
                found.setdefault(window, []).append(number)
        return found

    def _leap(self, this: _Round, period: Instant, rounds: int) -> None:
        length = rounds * period
        target = self.now + length
        for window, users in self._lasting(this, period).items():
            self._counters.add([window], rounds * sum(this.sent[number] for number in users))
        for level in self._levels:
            before, after = (_of_rounds(level, moment, period) for moment in (self.now, target))
            self._counters.move(before, after)
        if self._quota is not None and self._quota.per_day is not None and period == DAY:
            self._counters.move(_quota_windows(self._quota, self.now), _quota_windows(self._quota, target))
        for number, amount in this.sent.items():
            run = self.runs[number]
            run.leap(self.now, target, rounds * amount, run.waited_for_most(self.now - period, self.now))
        soon = self.now + period
        for tenant in self._tenants:
            if self.now < tenant.blocked_until <= soon:
                tenant.blocked_until += length
        moved = [run for until, _, run in self._holds if until <= soon]
        self._holds = [hold for hold in self._holds if hold[0] > soon]
        for run in moved:
            run.held_until += length
            self._holds.append((run.held_until, next(self._numbers), run))
        heapify(self._holds)
        self.now = target
        self._cached.clear()


def _periods(line: Iterable[QueuedCampaign], quota: QuotaSnapshot | None) -> list[Instant]:
    """The lengths of time that can be like the one before: days only where some rule knows days."""
    limits = [level.limits for queued in line for level in queued.levels]
    hour = _SLIDING_ROUND if any(each.sliding_hour for each in limits) else HOUR
    knows_days = quota is not None or any(
        each.working_hours != ALWAYS or each.daily_limit is not None or each.warmup_since is not None for each in limits
    )
    return [hour, DAY] if knows_days else [hour]


def _by_tenant(runs: Sequence[_Run]) -> list[_Tenant]:
    found: dict[int, _Tenant] = {}
    for run in runs:
        queued = run.queued
        found.setdefault(queued.tenant_id, _Tenant(queued.tenant, queued.weight, [])).line.append(run)
    return list(found.values())


def _shares(sending: Sequence[_Sending], rate: float) -> list[float]:
    """Each tenant its weighted share of the rate; what a limited one leaves goes to the others."""
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
    return [max(share, _SLOWEST) for share in shares]


def _quota_windows(quota: QuotaSnapshot | None, now: Instant) -> tuple[LimitWindow, ...]:
    """A daily quota is taken to open again a day after it was told, in full; any other only when somebody tells."""
    if quota is None:
        return ()
    days = max(0, (now - quota.synced_at) // DAY)
    if quota.per_day is None:
        [window] = provider_quota.windows(quota, quota.synced_at)
        return (replace(window, ends_at=now + 10 * YEAR, deferred_until=now + 10 * YEAR),)
    renews_at = quota.synced_at + (days + 1) * DAY
    if days:
        quota = replace(quota, synced_at=renews_at - DAY, remaining=quota.per_day, previous_sync=None, counted_before=0)
    [window] = provider_quota.windows(quota, quota.synced_at)
    return (replace(window, ends_at=renews_at, deferred_until=renews_at),)


def _of_rounds(level: LimitLevel, now: Instant, period: Instant) -> list[LimitWindow]:
    """The windows that are new in each round."""
    return [window for window in windows(level.limits, level.owner, now) if 0 < _ROUNDS.get(window.reason, 0) <= period]


def _is_alike(one: _Round, other: _Round) -> bool:
    if one.state != other.state or one.sent.keys() != other.sent.keys():
        return False
    return all(abs(amount - other.sent[number]) < 1 for number, amount in one.sent.items())


def _changes(line: Iterable[QueuedCampaign], now: Instant, ends: Instant) -> list[Instant]:
    """The days, counted from now, on which clocks change somewhere in the line, or a warm-up begins to grow."""
    limits = [level.limits for queued in line for level in queued.levels]
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


_MOST_IN_DETAIL = 6
# The reasons of a span in which mail goes.
_GOES = (None, INTERVAL, PER_SECOND, ONE_AT_A_TIME)


def summarize_segments(spans: Sequence[ForecastSegment]) -> list[ForecastSegment]:
    """A portion, a wait, a portion, a wait for the same rule: more than three such pairs are told as one."""
    found: list[ForecastSegment] = []
    index = 0
    while index < len(spans):
        end = _end_of_pairs(spans, index)
        if end - index > _MOST_IN_DETAIL:
            reason = next(span.reason for span in spans[index:end] if span.reason not in (*_GOES, IN_LINE))
            sent = sum(span.sent for span in spans[index:end])
            found.append(ForecastSegment(spans[index].begins_at, spans[end - 1].ends_at, sent, reason))
            index = end
        else:
            found.append(spans[index])
            index += 1
    return found


def _end_of_pairs(spans: Sequence[ForecastSegment], start: int) -> int:
    """Where the row of portions and waits for one rule ends that begins here."""
    reason: str | None = None
    for index in range(start, len(spans)):
        its, length = spans[index].reason, spans[index].ends_at - spans[index].begins_at
        if its == IN_LINE and index > start and length < _FLICKER:
            continue
        if its == IN_LINE or (its not in _GOES and reason is not None and its != reason):
            return index
        reason = its if its not in _GOES else reason
    return len(spans) if reason is not None else start
