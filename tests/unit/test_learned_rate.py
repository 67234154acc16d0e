"""The rate that is learned from throttling settles near what the provider accepts."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import pytest

from mailwright.domain.clock import MINUTE, SECOND, Instant, ManualClock
from mailwright.providers.circuit_breaker import THROTTLES_TO_PAUSE
from mailwright.providers.learned_rate import FORGOTTEN_AFTER, LearnedRate
from mailwright.providers.route import Route
from tests.builders import FAULT, SENT, THROTTLE
from tests.standins.provider import ScriptedProvider

RESPONSE_MS = 60
# A worker plans about this far ahead, so a new rate comes into effect later.
PLANNED_MS = 900

Accepts = Callable[[Instant], bool]


def per_clock_second(limit: int) -> Accepts:
    """Accept this many messages in each second of the clock."""
    counts: dict[Instant, int] = {}

    def accepts(now: Instant) -> bool:
        counts[now // SECOND] = counts.get(now // SECOND, 0) + 1
        return counts[now // SECOND] <= limit

    return accepts


def per_any_second(limit: int) -> Accepts:
    """Accept this many messages in any period of a second."""
    accepted: deque[Instant] = deque()

    def accepts(now: Instant) -> bool:
        while accepted and accepted[0] <= now - SECOND:
            accepted.popleft()
        has_room = len(accepted) < limit
        if has_room:
            accepted.append(now)
        return has_room

    return accepts


def bucket(limit: int) -> Accepts:
    """Accept from a bucket of tokens that is refilled evenly."""
    tokens, filled_at = float(limit), 0

    def accepts(now: Instant) -> bool:
        nonlocal tokens, filled_at
        tokens, filled_at = min(limit, tokens + (now - filled_at) * limit / SECOND), now
        has_token = tokens >= 1
        tokens -= has_token
        return has_token

    return accepts


class SimulatedWorker:
    """Send at our limit or at the learned rate, and pause as the circuit breaker says."""

    def __init__(self, clock: ManualClock, limit: float) -> None:
        self._clock = clock
        self._limit = limit
        self.route = Route.of(ScriptedProvider(), clock)
        self._responses: deque[tuple[Instant, Instant, bool]] = deque()
        self._next_send = float(clock.now())
        self._plan = (0, limit)

    def step(self, accepts: Accepts) -> int:
        """Receive responses and send what is due now; return how many messages the provider accepted."""
        now, accepted = self._clock.now(), 0
        while self._responses and self._responses[0][0] <= now:
            _, attempted_at, is_accepted = self._responses.popleft()
            self.route.record(SENT if is_accepted else THROTTLE, attempted_at=attempted_at)
        if self.route.deferral() is not None:
            self._plan = (0, self._limit)  # What was planned is given back.
            return 0
        if now >= self._plan[0] + PLANNED_MS:
            learned = self.route.learned_rate("scripted")
            self._plan = (now, self._limit if learned is None else min(self._limit, learned))
        self._next_send = max(self._next_send, now - 30)
        while self._next_send <= now:
            self._next_send += SECOND / self._plan[1]
            is_accepted = accepts(now)
            accepted += is_accepted
            self._responses.append((now + RESPONSE_MS, now, is_accepted))
        return accepted


def accepted_per_second(
    clock: ManualClock, workers: list[SimulatedWorker], accepts: Accepts, seconds: int = 20
) -> float:
    total = 0
    for _ in range(seconds * SECOND):
        total += sum(worker.step(accepts) for worker in workers)
        clock.advance(1)
    return total / seconds


@pytest.mark.promise("throttled-rate")
@pytest.mark.parametrize("provider", [per_clock_second, per_any_second, bucket])
@pytest.mark.parametrize("limit", [14, 50, 200])
@pytest.mark.parametrize("ours", [1, 4, 12], ids=lambda factor: f"{factor} times the limit")
def test_learned_rate_reaches_the_limit_of_the_provider(
    clock: ManualClock, provider: Callable[[int], Accepts], limit: int, ours: int
) -> None:
    worker = SimulatedWorker(clock, limit * ours)
    assert accepted_per_second(clock, [worker], provider(limit)) >= 12.5 / 14 * limit


@pytest.mark.promise("throttled-rate")
@pytest.mark.parametrize("provider", [per_clock_second, per_any_second, bucket])
def test_several_workers_together_reach_the_limit(clock: ManualClock, provider: Callable[[int], Accepts]) -> None:
    workers = [SimulatedWorker(clock, 50) for _ in range(3)]
    assert accepted_per_second(clock, workers, provider(50), 40) >= 0.85 * 50


def test_rate_follows_a_limit_that_changes(clock: ManualClock) -> None:
    worker = SimulatedWorker(clock, 150)
    accepted_per_second(clock, [worker], per_clock_second(14))
    accepted_per_second(clock, [worker], per_clock_second(100), 90)
    assert accepted_per_second(clock, [worker], per_clock_second(100)) >= 75
    accepted_per_second(clock, [worker], per_clock_second(14), 5)
    assert accepted_per_second(clock, [worker], per_clock_second(14)) >= 12.5


def test_workers_that_leave_make_room(clock: ManualClock) -> None:
    workers = [SimulatedWorker(clock, 50) for _ in range(2)]
    accepts = per_clock_second(30)
    accepted_per_second(clock, workers, accepts)
    accepted_per_second(clock, workers[:1], accepts, 60)
    assert accepted_per_second(clock, workers[:1], accepts) >= 0.85 * 30


# Single responses.


@pytest.fixture
def learned(clock: ManualClock) -> LearnedRate:
    return LearnedRate(clock)


def record_second(
    learned: LearnedRate, clock: ManualClock, accepted: int, throttled: int, throttle: object = THROTTLE
) -> None:
    responses = [SENT] * accepted + [throttle] * throttled
    for response in responses:
        clock.advance(SECOND // len(responses))
        learned.record(response, clock.now())  # type: ignore[arg-type]


def test_few_throttled_recipients_do_not_lower_the_rate(learned: LearnedRate, clock: ManualClock) -> None:
    for _ in range(20):
        record_second(learned, clock, 100, 3)
    assert learned.per_second is None


@pytest.mark.parametrize(
    "response", [FAULT, replace(THROTTLE, retry_after=SECOND)], ids=["failure", "throttled with a retry-after"]
)
def test_other_responses_do_not_lower_the_rate(learned: LearnedRate, clock: ManualClock, response: object) -> None:
    record_second(learned, clock, 10, 10, response)
    assert learned.per_second is None


def test_unused_rate_does_not_rise(learned: LearnedRate, clock: ManualClock) -> None:
    record_second(learned, clock, 20, 5)
    before = learned.per_second
    for _ in range(30):
        record_second(learned, clock, 5, 0)
    assert learned.per_second == before


def test_rate_is_forgotten_after_minutes_without_throttling(learned: LearnedRate, clock: ManualClock) -> None:
    record_second(learned, clock, 20, 5)
    assert learned.per_second is not None
    clock.advance(FORGOTTEN_AFTER)
    assert learned.per_second is None


def test_provider_that_accepts_nothing_is_paused(clock: ManualClock) -> None:
    worker = SimulatedWorker(clock, 50)
    accepted_per_second(clock, [worker], per_clock_second(14))
    assert worker.route.deferral() is None
    accepted_per_second(clock, [worker], lambda _: False, 5)
    assert worker.route.deferral() is not None


def test_throttled_burst_pauses_before_a_rate_is_known(clock: ManualClock) -> None:
    route = Route.of(ScriptedProvider(), clock)
    clock.advance(MINUTE)
    for response in [SENT] * 10 + [THROTTLE] * THROTTLES_TO_PAUSE:
        route.record(response, attempted_at=clock.now())
    assert route.deferral() is not None
    assert route.learned_rate("scripted") == pytest.approx(9.5)
