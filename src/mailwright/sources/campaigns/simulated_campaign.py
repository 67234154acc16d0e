"""One campaign in a simulation, and the counters of the simulated limits."""

from collections.abc import Iterable, Mapping, Sequence

from mailwright.domain.clock import Instant
from mailwright.domain.permits import Deferral, LimitWindow, RelatedCounter
from mailwright.outbox.ledger import state_of
from mailwright.policies.pacing import ONE_AT_A_TIME, slowest_rate
from mailwright.sources.campaigns.forecast_values import (
    IN_LINE,
    ONE_AT_A_TIME_RATE,
    CampaignForecast,
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
        """Return the deferral by the first window without room."""
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


class CampaignRun:
    """A simulated campaign: what it does now, since when, and what it did before."""

    def __init__(self, number: int, queued: QueuedCampaign, now: Instant) -> None:
        self.number = number
        self.queued = queued
        self.remaining = float(queued.remaining)
        self.after_test = None if queued.ab_test is None else float(queued.remaining - queued.ab_test.messages)
        self.deferred_until: Instant = 0
        self.sent = 0.0
        self.starts_at: Instant | None = None
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
        if any(level.limits.one_at_a_time for level in self.queued.levels) and (
            slowest is None or slowest.per_second > ONE_AT_A_TIME_RATE
        ):
            return ONE_AT_A_TIME_RATE, ONE_AT_A_TIME
        return (None, None) if slowest is None else (slowest.per_second, slowest.reason)

    @property
    def until_pause(self) -> float:
        """Return how many messages it sends before it stops by itself: all, or those of the test group."""
        return self.remaining if self.after_test is None else max(0.0, self.remaining - self.after_test)

    def switch_to(self, reason: str | None, now: Instant) -> None:
        if reason == self._reason:
            return
        self._close(now)
        self._reason = reason

    def leap(self, begins: Instant, ends: Instant, sent: float, reason: str | None) -> None:
        """Record many periods at once, with the limit that it waited for longest as the reason."""
        self._close(begins)
        before, self.sent = self.sent, self.sent + sent
        self.remaining -= sent
        # Round the sum, as everywhere: rounding each leap would lose a message or count one twice.
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
        )

    def _close(self, now: Instant) -> None:
        if now > self._since or self.sent > self._sent_before:
            self._segments.append(
                ForecastSegment(self._since, now, round(self.sent) - round(self._sent_before), self._reason)
            )
        self._since, self._sent_before = now, self.sent
