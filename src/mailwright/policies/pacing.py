"""Pacing: send rates, expressed as intervals. The ledger assigns the slots of each interval."""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.permits import (
    PROVIDER_RATE,
    THROTTLED_RATE,
    DeferReason,
    LimitLevel,
    Limits,
    PacingRules,
    SendRate,
)

INTERVAL = "interval"
PER_SECOND = "rate_per_second"
ONE_AT_A_TIME = DeferReason.ONE_AT_A_TIME.value

# A send may start this much later than its send time; after that it needs a new send time.
GRACE: Instant = 30
# Maximum number of batches per second. Each batch costs a commit, and more batches would not send more smoothly.
_MAX_BATCHES = 50


@lru_cache(maxsize=4_096)
def pacing_rules(
    levels: tuple[LimitLevel, ...],
    provider_rate: int | None = None,
    route: str = "",
    throttled: SendRate | None = None,
) -> PacingRules | None:
    """Return the pacing rules of a lane, or None. `provider_rate` is the rate per second that the providers report.

    `throttled` is the rate that this worker has learned from throttling.
    """
    rates = [rate for level in levels for rate in send_rates(level.limits, level.owner)]
    if provider_rate is not None:
        rates.append(_per_second(provider_rate, f"mailwright:pace:provider:{route}", PROVIDER_RATE))
    if throttled is not None:
        rates.append(throttled)
    alone = tuple(_pace_owner(level.limits, level.owner) for level in levels if level.limits.one_at_a_time)
    return PacingRules(tuple(rates), alone) if rates or alone else None


def send_rates(limits: Limits, owner: int | str) -> tuple[SendRate, ...]:
    rates = []
    if limits.interval_ms is not None:
        name = f"mailwright:pace:interval:{_pace_owner(limits, owner)}"
        rates.append(SendRate(name, limits.interval_ms * 1_000, INTERVAL, is_exact=True))
    if limits.rate_per_second is not None:
        reason = limits.reason(PER_SECOND)
        rates.append(_per_second(limits.rate_per_second, f"mailwright:pace:second:{owner}", reason))
    return tuple(rates)


def _pace_owner(limits: Limits, owner: int | str) -> str:
    """Return whose messages share the interval and the turn: those of the level, or of all campaigns of a source."""
    return str(owner) if limits.paced_source is None else f"source-{limits.paced_source}"


def slowest_rate(levels: Sequence[LimitLevel]) -> SendRate | None:
    """Return the rate that decides how fast a lane is sent; None if no level has one."""
    rates = [rate for level in levels for rate in send_rates(level.limits, level.owner)]
    return min(rates, key=lambda rate: rate.per_second, default=None)


def throttled_rate(per_second: float, worker: str, provider: str) -> SendRate:
    """Return the rate that a worker has learned from throttling. No other worker uses it.

    A slow rate is exact: if a send starts late, the next one is delayed too.
    """
    batch_size = ceil(per_second / _MAX_BATCHES)
    interval_us = ceil(batch_size * 1_000_000 / per_second)
    name = f"mailwright:pace:throttled:{provider}:{worker}"
    return SendRate(name, interval_us, THROTTLED_RATE, batch_size, is_exact=batch_size == 1)


def _per_second(rate: int, name: str, reason: str) -> SendRate:
    """Split a rate into batches so that no second exceeds it, even if each batch starts as late as its grace allows.

    The messages of a batch start within its interval, so one second can overlap one more batch than it has intervals.
    """
    sizes = range(1, rate // _MAX_BATCHES + 2)
    candidates = [(size, min(_MAX_BATCHES, rate // size)) for size in sizes]
    # Choose the candidate with the highest rate, so that a higher limit never results in a lower rate.
    batch_size, intervals = max(
        ((size, batches - (size > 1)) for size, batches in candidates), key=lambda each: each[0] * each[1]
    )
    return SendRate(name, -(-(SECOND + GRACE) * 1_000 // intervals), reason, batch_size)
