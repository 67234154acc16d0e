"""Skip the periods of a simulation that are certain to repeat the previous one."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant, to_instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import LimitLevel, LimitWindow, QuotaSnapshot
from mailwright.domain.working_hours import parse_working_hours
from mailwright.policies.hours import closes_at, is_always_open, outside_hours
from mailwright.policies.rates import windows
from mailwright.sources.campaigns.forecast_values import YEAR, QueuedCampaign
from mailwright.sources.campaigns.simulated_campaign import EPSILON
from mailwright.sources.campaigns.simulated_queue import SimulatedQueue, quota_period_of, quota_windows

# The period after which a window of this kind starts again.
_PERIODS = {"rate_per_hour": HOUR, "daily_limit": DAY, "warmup": DAY}
_SLIDING_PERIOD: Instant = HOUR + MINUTE
_WEEK: Instant = 7 * DAY


@dataclass(frozen=True, slots=True)
class _Period:
    """The events of one simulated hour or day. They are compared with the events of the next one."""

    sent: dict[int, float]
    state: tuple[object, ...]


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


class PeriodLeaps:
    """Compares each hour or day with the one before, and skips those that repeat it."""

    def __init__(self, queue: SimulatedQueue, campaigns: Sequence[QueuedCampaign]) -> None:
        self._queue = queue
        self._offset_changes = _offset_changes(campaigns, queue.now, queue.ends)
        # Groups of recipients run out one after another, so their periods do not repeat.
        has_groups = any(campaign.groups for campaign in campaigns)
        self._periods = [] if has_groups else recurrence_periods(campaigns, queue.quota)
        self.restart()

    @property
    def ends_of_periods(self) -> list[Instant]:
        return [recurrence.next_at for recurrence in self._recurrences]

    def leap(self) -> None:
        """Compare the periods that end now, and skip ahead if they repeat."""
        for recurrence in self._recurrences:
            if self._queue.now == recurrence.next_at:
                self._compare(recurrence)

    def restart(self) -> None:
        self._recurrences = [_Recurrence(period, self._queue.now, self._totals()) for period in self._periods]

    def _totals(self) -> dict[int, float]:
        return {number: run.sent for number, run in self._queue.started.items() if run.finished_at is None}

    def _compare(self, recurrence: _Recurrence) -> None:
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
                    each
                    if each.period > recurrence.period
                    else _Recurrence(each.period, self._queue.now, self._totals())
                    for each in self._recurrences
                ]
                return
        recurrence.began, recurrence.totals, recurrence.last = self._queue.now, totals, this

    def _state(self, period: Instant) -> tuple[object, ...]:
        """Return everything that the next period depends on, except the number of unsent messages."""
        queue = self._queue
        soon = queue.now + period
        tenants = [
            (
                tenant.current,
                tenant.blocked_until - queue.now if queue.now < tenant.blocked_until <= soon else 0,
            )
            for tenant in queue.tenants
        ]
        deferred = [run for _, run in queue.deferred() if run.deferred_until <= soon]
        deferrals = [(run, run.deferred_until - queue.now) for run in deferred]
        return (*tenants, *sorted(deferrals, key=lambda item: item[0].number))

    def _repetitions(self, this: _Period, period: Instant) -> int:
        """Return how many periods can be skipped: one less than the number of periods before the next change that does
        not repeat.
        """
        queue = self._queue
        if any(queue.now - 2 * period - DAY < change <= queue.now for change in self._offset_changes):
            return 0  # one of the two compared periods is before the change
        most = (queue.ends - queue.now) // period
        for number, amount in this.sent.items():
            most = min(most, int(queue.runs[number].until_pause / amount) - 1)
        later = [until for until, _ in queue.deferred()]
        later += [tenant.blocked_until for tenant in queue.tenants]
        later = [instant for instant in later if instant > queue.now + period]
        later += [instant for instant in self._offset_changes if instant > queue.now]
        later += [recurrence.next_at for recurrence in self._recurrences if recurrence.period > period]
        for window, users in self._lasting_windows(this, period).items():
            amount = sum(this.sent[number] for number in users)
            most = min(most, int(queue.counters.free(window) / amount) - 1)
            later.append(window.ends_at)
        if period < DAY:
            limits = {level.limits for number in this.sent for level in queue.runs[number].queued.levels}
            if any(outside_hours(each, is_bulk=True, now=queue.now) for each in limits):
                return 0
            later += [closing for each in limits if (closing := closes_at(each, queue.now)) is not None]
        return min([most, *((instant - queue.now) // period - 1 for instant in later)])

    def _lasting_windows(self, this: _Period, period: Instant) -> dict[LimitWindow, list[int]]:
        """Return the windows that last longer than a period, with the campaigns that use them."""
        queue = self._queue
        found: dict[LimitWindow, list[int]] = {}
        for number in this.sent:
            for level in queue.runs[number].queued.levels:
                for window in windows(level.limits, level.owner, queue.now):
                    if _PERIODS.get(window.reason, 0) > period:
                        found.setdefault(window, []).append(number)
            for window in quota_windows(queue.quota, queue.now):
                if quota_period_of(window) > period:
                    found.setdefault(window, []).append(number)
        return found

    def _leap(self, this: _Period, period: Instant, repetitions: int) -> None:
        queue = self._queue
        target = queue.now + repetitions * period
        for window, users in self._lasting_windows(this, period).items():
            queue.counters.add([window], repetitions * sum(this.sent[number] for number in users))
        for level in queue.levels:
            before, after = (_recurring_windows(level, instant, period) for instant in (queue.now, target))
            queue.counters.move(before, after)
        for old, new in zip(quota_windows(queue.quota, queue.now), quota_windows(queue.quota, target), strict=True):
            if quota_period_of(old) <= period:
                queue.counters.move([old], [new])
        for number, amount in this.sent.items():
            run = queue.runs[number]
            run.leap(
                queue.now,
                target,
                repetitions * amount,
                run.longest_wait(queue.now - period, queue.now),
            )
        queue.skip_to(target, queue.now + period)


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
