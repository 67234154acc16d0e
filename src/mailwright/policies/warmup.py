"""Warm-up: a new sender's daily limit grows day by day, so that mailbox providers learn to trust it."""

from datetime import date

from mailwright.domain.clock import Instant
from mailwright.domain.permits import Limits, LimitWindow
from mailwright.policies.hours import local_day, next_opening

# Above this daily limit the warm-up is over.
WARM = 10_000_000


def windows(limits: Limits, owner: int | str, now: Instant) -> tuple[LimitWindow, ...]:
    """Return the window of the owner's current day; empty if there is no warm-up or it has ended."""
    if limits.warmup_since is None:
        return ()
    day, ends = local_day(limits, now)
    limit = limit_after(limits, (date.fromisoformat(day) - limits.warmup_since).days)
    if limit is None:
        return ()
    name, reason = f"mailwright:rate:warmup:{owner}:{day}", limits.reason("warmup")
    return (LimitWindow(name, limit, ends, reason, next_opening(limits, now)),)


def limit_after(limits: Limits, days: int) -> int | None:
    """Return the limit `days` after the start, or None after the warm-up. Days before the start use the first limit."""
    limit = float(limits.warmup_start)
    if limits.warmup_factor <= 1:
        return int(limit)  # A factor of 1 or less keeps the limit constant.
    for _ in range(days):
        limit *= limits.warmup_factor
        if limit >= WARM:
            return None
    return int(limit)
