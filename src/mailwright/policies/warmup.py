"""Warming up: a new sender's mail grows day by day, so that mailbox providers learn to trust it."""

from datetime import date

from mailwright.domain.clock import Instant
from mailwright.domain.permits import Limits, LimitWindow
from mailwright.policies.hours import local_day, next_opening

# Beyond this the curve is no limit any more: nobody sends as much in a day.
WARM = 10_000_000


def windows(limits: Limits, owner: int | str, now: Instant) -> tuple[LimitWindow, ...]:
    """One for the owner's own day; none without a warm-up, or once it is over."""
    if limits.warmup_since is None:
        return ()
    day, ends = local_day(limits, now)
    limit = limit_after(limits, (date.fromisoformat(day) - limits.warmup_since).days)
    if limit is None:
        return ()
    return (LimitWindow(f"mailer:rate:warmup:{owner}:{day}", limit, ends, "warmup", next_opening(limits, now)),)


def limit_after(limits: Limits, days: int) -> int | None:
    """How many may go so many days after the first; before it as many as on it. None once the sender is warm."""
    limit = float(limits.warmup_start)
    if limits.warmup_factor <= 1:
        return int(limit)  # a curve that does not grow is a limit that stays
    for _ in range(days):
        limit *= limits.warmup_factor
        if limit >= WARM:
            return None
    return int(limit)
