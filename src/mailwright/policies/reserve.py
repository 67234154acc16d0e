"""The reserve: bulk messages leave a part of every limit to transactional messages.

All messages use the same counters. Bulk messages stop before the limit, so that a password reset can always be sent.
Limits per second need no reserve, because the next slot is less than a second away and transactional messages get it
first.
"""

from dataclasses import replace

from mailwright.domain.permits import LimitWindow, QuotaPeriod, QuotaSnapshot


def reserved_part(limit: int, percent: int) -> int:
    """Return the number of reserved permits of a limit: at least one, but never all."""
    return min(max(0, limit - 1), -(-limit * percent // 100))


def keep_reserve(window: LimitWindow, percent: int) -> LimitWindow:
    """Return the window for bulk messages, with its limit reduced by the reserve."""
    reserved = reserved_part(window.limit, percent)
    return replace(window, limit=window.limit - reserved, reserved=reserved) if reserved else window


def quota_for_bulk(quota: QuotaSnapshot | None, percent: int) -> QuotaSnapshot | None:
    """Return the quota for bulk messages, reduced by the reserve.

    The reserve is a share of the hourly or daily quota if that is known, because a share of the remainder would shrink
    with every sync.
    """
    if quota is None or not percent:
        return quota
    if quota.periods:
        periods = tuple(_period_for_bulk(period, percent) for period in quota.periods)
        return replace(quota, remaining=min(period.left for period in periods), periods=periods)
    reserved = reserved_part(quota.per_day or quota.remaining, percent)
    per_day = None if quota.per_day is None else quota.per_day - reserved
    return replace(quota, remaining=max(0, quota.remaining - reserved), per_day=per_day)


def _period_for_bulk(period: QuotaPeriod, percent: int) -> QuotaPeriod:
    reserved = reserved_part(period.limit or period.left, percent)
    return replace(period, left=max(0, period.left - reserved), limit=max(0, period.limit - reserved))
