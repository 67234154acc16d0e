"""Pacing: which moments the next mails may begin at, as intervals that a ledger hands out one after another."""

from collections.abc import Sequence
from functools import lru_cache

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.permits import PROVIDER_RATE, DeferReason, LimitLevel, Limits, PacingRules, SendRate

INTERVAL = "interval"
PER_SECOND = "rate_per_second"
ONE_AT_A_TIME = DeferReason.ONE_AT_A_TIME.value

# A mail may begin so much later than the moment it was given: after that it needs another moment.
GRACE: Instant = 30
# More portions in a second would each cost a commit, and be no evener.
_MOST_PORTIONS = 50


@lru_cache(maxsize=4_096)
def paced(levels: tuple[LimitLevel, ...], provider_rate: int | None = None, route: str = "") -> PacingRules | None:
    """None where nothing is paced. `provider_rate` is what the providers of the route said they take in a second."""
    found = [pace for level in levels for pace in send_rates(level.limits, level.owner)]
    if provider_rate is not None:
        found.append(_per_second(provider_rate, f"mailer:pace:provider:{route}", PROVIDER_RATE))
    alone = tuple(level.owner for level in levels if level.limits.one_at_a_time)
    return PacingRules(tuple(found), alone) if found or alone else None


def send_rates(limits: Limits, owner: int | str) -> tuple[SendRate, ...]:
    found = []
    if limits.interval_ms is not None:
        found.append(SendRate(f"mailer:pace:interval:{owner}", limits.interval_ms * 1_000, INTERVAL, is_exact=True))
    if limits.rate_per_second is not None:
        found.append(_per_second(limits.rate_per_second, f"mailer:pace:second:{owner}", PER_SECOND))
    return tuple(found)


def slowest_rate(levels: Sequence[LimitLevel]) -> SendRate | None:
    """The one that decides how fast a lane goes; None where none of its levels has one."""
    found = [pace for level in levels for pace in send_rates(level.limits, level.owner)]
    return min(found, key=lambda pace: pace.per_second, default=None)


def _per_second(rate: int, name: str, reason: str) -> SendRate:
    """Never more than the rate in any second: portions begin within their grace, and only so many meet any second."""
    portion = -(-rate // _MOST_PORTIONS)
    portions = rate // portion
    return SendRate(name, -(-(SECOND + GRACE) * 1_000 // portions), reason, portion)
