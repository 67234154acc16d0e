"""Limits per second as batches."""

from itertools import pairwise

from mailwright.domain.permits import Limits
from mailwright.policies.pacing import send_rates


def test_higher_limit_per_second_never_gives_a_lower_rate() -> None:
    rates = [send_rates(Limits(rate_per_second=limit), 1)[0] for limit in range(1, 2_000)]
    assert all(after.per_second >= before.per_second for before, after in pairwise(rates))
    assert all(0.9 * limit <= rate.per_second <= limit for limit, rate in enumerate(rates, 1))
