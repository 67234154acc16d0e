"""One campaign in a simulation, and the counters of the simulated limits."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from mailwright.domain.clock import Instant
from mailwright.domain.permits import Deferral, LimitWindow, RelatedCounter
from mailwright.outbox.ledger import state_of
from mailwright.policies.hours import closes_at, lane_outside_hours
from mailwright.policies.pacing import ONE_AT_A_TIME, slowest_rate
from mailwright.sources.campaigns.forecast_values import (
    IN_LINE,
    MAX_IN_FLIGHT,
    ONE_AT_A_TIME_RATE,
    CampaignForecast,
    ForecastGroup,
    ForecastPause,
    ForecastSegment,
    QueuedCampaign,
)

# Amounts below this are rounding errors.
EPSILON = 1e-6


class SimulatedCounters:
    """The counters of the simulated limits."""

    def __init__(self, used: Mapping[str, float]) -> None:
        self.used: dict[str, float] = dict(used)

    def free(self, window: LimitWindow) -> float:
        related = sum(self.used.get(counter.name, 0) for counter in window.related)
        return window.limit - self.used.get(window.name, 0) - related

    def opens_at(self, window: LimitWindow) -> Instant:
        return state_of(window, 0, self.used).opens_at if window.related else window.deferred_until

    def exhausted(self, windows: Iterable[LimitWindow], now: Instant) -> Deferral | None:
        """Return the deferral by the first window that is used up."""
        for window in windows:
            if self.free(window) < EPSILON:
                return Deferral(max(self.opens_at(window), now + 1), window.reason)
        return None

    def add(self, sent: Iterable[LimitWindow], number: float) -> None:
        for window in sent:
            self.used[window.name] = self.used.get(window.name, 0) + number

    def move(self, before: Sequence[LimitWindow], after: Sequence[LimitWindow]) -> None:
        """Move the counts of each window to the same window of a later day."""
        later = {window.reason: window for window in after}
        for old in before:
            if (new := later.get(old.reason)) is None:
                continue  # the warm-up has ended by then
            pairs: list[tuple[LimitWindow | RelatedCounter, LimitWindow | RelatedCounter]] = [
                (old, new),
                *zip(old.related, new.related, strict=False),
            ]
            for one, other in pairs:
                if one.name in self.used:
                    self.used[other.name] = self.used.pop(one.name)


class SimulatedGroup:
    """Recipients of a campaign who share working hours and the limit of their domain."""

    def __init__(self, group: ForecastGroup) -> None:
        self.remaining = float(group.recipients)
        self.per_second = group.per_second
        self._levels = group.levels
        self._own_deferral = group.deferral
        self._deferral: Deferral | None = None
        self._changes_at: Instant | None = 0  # when its hours next open or close; None: never

    def deferral(self, now: Instant) -> Deferral | None:
        """Return the deferral until its messages are due and its working hours open; None while they are open."""
        if self._own_deferral is not None and now < self._own_deferral.until:
            return self._own_deferral
        if self._changes_at is not None and now >= self._changes_at:
            self._deferral = lane_outside_hours(self._levels, is_bulk=True, now=now)
            closing = [end for level in self._levels if (end := closes_at(level.limits, now)) is not None]
            self._changes_at = min(closing, default=None) if self._deferral is None else self._deferral.until
        return self._deferral

    def closes_at(self) -> Instant | None:
        return self._changes_at


class CampaignRun:
    """A simulated campaign, with its current state, the start of that state, and its past segments."""

    def __init__(self, number: int, queued: QueuedCampaign, now: Instant) -> None:
        self.number = number
        self.queued = queued
        self.remaining = float(queued.to_send)
        self.pauses = _pauses(queued)
        self.groups = [SimulatedGroup(group) for group in queued.groups]
        self.deferred_until: Instant = 0
        self.sent = 0.0
        self.starts_at: Instant | None = now if queued.in_flight and not queued.to_send else None
        self.finished_at: Instant | None = None
        self._reason: str | None = IN_LINE
        self._since = now
        self._sent_before = 0.0
        self._segments: list[ForecastSegment] = []

    @property
    def pace(self) -> tuple[float | None, str | None]:
        """Return the highest rate in messages per second, and the limit that sets it.

        Pacing is simulated as a rate, because simulating each message would take too long.
        """
        slowest = slowest_rate(self.queued.levels)
        rates = [] if slowest is None else [(slowest.per_second, slowest.reason)]
        if any(level.limits.one_at_a_time for level in self.queued.levels):
            rates.append((ONE_AT_A_TIME_RATE, ONE_AT_A_TIME))
        if self.queued.max_in_flight is not None:
            rates.append((self.queued.max_in_flight * ONE_AT_A_TIME_RATE, MAX_IN_FLIGHT))
        return min(rates, default=(None, None), key=lambda rate: rate[0])

    @property
    def has_own_hours(self) -> bool:
        """Whether the working hours of its recipient groups apply instead of the sender's."""
        return any(group.levels for group in self.queued.groups)

    def open_groups(self, now: Instant) -> list[SimulatedGroup]:
        return [group for group in self.groups if group.remaining > EPSILON and group.deferral(now) is None]

    def groups_deferral(self, now: Instant) -> Deferral | None:
        """Return the deferral until the working hours of any recipient open."""
        waiting = [group for group in self.groups if group.remaining > EPSILON]
        deferrals = [deferral for group in waiting if (deferral := group.deferral(now)) is not None]
        if not waiting or len(deferrals) < len(waiting):
            return None
        return min(deferrals, key=lambda deferral: deferral.until)

    def group_cap(self, now: Instant) -> float | None:
        """Return the highest rate that the limits of the recipients' domains allow; None without such a limit."""
        caps = [group.per_second for group in self.open_groups(now)]
        return None if not caps or None in caps else sum(cap for cap in caps if cap is not None)

    def group_rates(self, rate: float, now: Instant) -> list[tuple[SimulatedGroup, float]]:
        """Divide the campaign's rate among its groups by size. The unused share of limited domains goes to others."""
        found: list[tuple[SimulatedGroup, float]] = []
        waiting, left = self.open_groups(now), rate
        while waiting:
            total = sum(group.remaining for group in waiting)
            limited = [
                group
                for group in waiting
                if group.per_second is not None and group.per_second <= left * group.remaining / total
            ]
            for group in limited or waiting:
                share = left * group.remaining / total
                found.append((group, min(share, group.per_second) if group.per_second is not None else share))
            if not limited:
                break
            left = max(0.0, left - sum(group.per_second or 0.0 for group in limited))
            waiting = [group for group in waiting if group not in limited]
        return found

    @property
    def until_pause(self) -> float:
        """Return how many messages the campaign sends before it pauses: all, or those of a test group or a wave."""
        return max(0.0, self.remaining - self.pauses[0][0]) if self.pauses else self.remaining

    def switch_to(self, reason: str | None, now: Instant) -> None:
        if reason == self._reason:
            return
        self._close(now)
        self._reason = reason

    def leap(self, begins: Instant, ends: Instant, sent: float, reason: str | None) -> None:
        """Record many periods at once. The reason is the limit that the campaign waited for longest."""
        self._close(begins)
        before, self.sent = self.sent, self.sent + sent
        self.remaining -= sent
        # Round only the sum, because rounding each leap could lose a message or count one twice.
        self._segments.append(ForecastSegment(begins, ends, round(self.sent) - round(before), reason))
        self._since, self._sent_before = ends, self.sent

    def finish(self, now: Instant) -> None:
        self.remaining = 0
        self.finished_at = now
        self._close(now)

    def end(self, now: Instant) -> None:
        """Close the last segment at the end of the horizon."""
        if self.finished_at is None:
            self._close(now)

    def longest_wait(self, since: Instant, now: Instant) -> str | None:
        waits: dict[str, Instant] = {}
        for segment in (*self._segments, ForecastSegment(self._since, now, 0, self._reason)):
            if segment.reason is not None and segment.ends_at > since:
                waits[segment.reason] = waits.get(segment.reason, 0) + segment.ends_at - max(since, segment.begins_at)
        return max(waits, key=waits.__getitem__, default=None)

    def forecast(self) -> CampaignForecast:
        queued = self.queued
        return CampaignForecast(
            queued.campaign_id,
            queued.name,
            queued.tenant_id,
            queued.remaining,
            self.starts_at,
            self.finished_at,
            tuple(self._segments),
            queued.has_begun,
            kind=queued.kind,
        )

    def _close(self, now: Instant) -> None:
        if now > self._since or self.sent > self._sent_before:
            self._segments.append(
                ForecastSegment(self._since, now, round(self.sent) - round(self._sent_before), self._reason)
            )
        self._since, self._sent_before = now, self.sent


def _pauses(queued: QueuedCampaign) -> list[tuple[float, ForecastPause]]:
    """Return the pauses, each with the number of messages that are left when it begins."""
    left = accumulate(queued.pauses, lambda rest, pause: rest - pause.messages, initial=queued.remaining)
    return [(float(max(0, rest)), pause) for rest, pause in zip(list(left)[1:], queued.pauses, strict=True)]
