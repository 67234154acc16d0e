"""Retry policies: delays with jitter that are the same on every replay."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.clock import MINUTE, SECOND
from mailwright.domain.retry import ARTICLES, NOTIFICATIONS, POLICIES, STANDARD, RetryPolicy, spread

policies = st.sampled_from(sorted(POLICIES.values(), key=lambda policy: policy.name))
ids = st.uuids().map(str)


@pytest.mark.promise("retry-delays")
@pytest.mark.parametrize(
    ("policy", "attempts", "delays"),
    [
        (STANDARD, 5, (SECOND, 5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE)),
        (ARTICLES, 4, (SECOND, 4 * SECOND, 10 * SECOND)),
        (NOTIFICATIONS, 3, (0, 2 * SECOND, 7 * SECOND)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_each_source_has_its_own_retry_policy(policy: RetryPolicy, attempts: int, delays: tuple[int, ...]) -> None:
    assert (policy.max_attempts, policy.delays) == (attempts, delays)
    assert [policy.is_exhausted(attempt) for attempt in range(1, attempts + 2)] == [False] * (attempts - 1) + [True] * 2


@pytest.mark.promise("retry-delays")
@given(policy=policies, message_id=ids, attempts=st.integers(1, 20))
def test_jitter_stays_within_a_quarter(policy: RetryPolicy, message_id: str, attempts: int) -> None:
    base = policy.delays[min(attempts, len(policy.delays)) - 1]
    assert 0.75 * base - 1 <= policy.delay(message_id, attempts) <= 1.25 * base + 1


@given(policy=policies, message_id=ids, attempts=st.integers(0, 20))
def test_delay_is_the_same_on_replay(policy: RetryPolicy, message_id: str, attempts: int) -> None:
    assert policy.delay(message_id, attempts) == policy.delay(message_id, attempts)


def test_retries_of_many_messages_are_spread() -> None:
    spreads = sorted(spread(f"message-{n}", 1) for n in range(1_000))
    assert spreads[0] < -0.95
    assert spreads[-1] > 0.95
    assert max(later - earlier for earlier, later in pairwise(spreads)) < 0.05
    assert len({spread("message", attempt) for attempt in range(1, 6)}) == 5


@pytest.mark.promise("retry-delays")
@given(policy=policies, message_id=ids, attempts=st.integers(1, 5), wish=st.none() | st.integers(0, 10**9))
def test_retry_after_only_lengthens_a_delay(
    policy: RetryPolicy, message_id: str, attempts: int, wish: int | None
) -> None:
    assert policy.delay(message_id, attempts, wish) == max(policy.delay(message_id, attempts), wish or 0)
