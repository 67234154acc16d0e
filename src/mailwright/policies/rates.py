"""Hourly and daily limits as counters. Limits per second are in `pacing.py`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

from mailwright.domain.clock import HOUR, MINUTE, Instant
from mailwright.domain.permits import (
    BulkLimit,
    DomainLimits,
    LimitLevel,
    Limits,
    LimitWindow,
    QuotaSnapshot,
    RelatedCounter,
)
from mailwright.policies import quota as provider_quota
from mailwright.policies import warmup
from mailwright.policies.domains import OTHERS
from mailwright.policies.hours import local_day, next_opening
from mailwright.policies.reserve import keep_reserve, quota_for_bulk, reserved_part

_MINUTES_OF_AN_HOUR = HOUR // MINUTE


def windows(
    limits: Limits, owner: int | str, now: Instant, quota: QuotaSnapshot | None = None
) -> tuple[LimitWindow, ...]:
    """Return the counters for the owner's next message; empty if there is no limit.

    Each owner (a tenant or a campaign) has its own counters; all owners share `quota`. The limits do not include the
    reserve.
    """
    found = []
    if limits.rate_per_hour is not None:
        hour = _sliding_hour if limits.sliding_hour else _clock_hour
        found.append(hour(limits.rate_per_hour, owner, now, limits.reason("rate_per_hour")))
    if limits.daily_limit is not None:
        day, ends = local_day(limits, now)
        name = f"mailwright:rate:day:{owner}:{day}"
        reason = limits.reason("daily_limit")
        found.append(LimitWindow(name, limits.daily_limit, ends, reason, next_opening(limits, now)))
    own = (*found, *warmup.windows(limits, owner, now))
    percent = limits.reserve_percent
    if percent:
        own = tuple(keep_reserve(window, percent) for window in own)
    return (*own, *provider_quota.windows(quota_for_bulk(quota, percent), now))


def bulk_limits(
    limits: Limits, quota: QuotaSnapshot | None, domains: DomainLimits, now: Instant
) -> tuple[BulkLimit, ...]:
    """Return the hourly, daily and warm-up limits, the provider's quota and the domain rates, each with its reserve."""

    def with_reserve(name: str, limit: int, domain: str | None = None) -> BulkLimit:
        return BulkLimit(name, limit, reserved_part(limit, limits.reserve_percent), domain)

    own = windows(limits, "", now)
    rates = {**domains.named, OTHERS: domains.others}
    return (
        *(BulkLimit(window.reason, window.limit + window.reserved, window.reserved) for window in own),
        *(with_reserve(name, limit) for name, limit in provider_quota.sizes(quota, now)),
        *(
            with_reserve("domain_limit", each.rate_per_second, domain)
            for domain, each in rates.items()
            if each is not None and each.rate_per_second is not None
        ),
    )


def windows_of_levels(
    levels: Sequence[LimitLevel], now: Instant, quota: QuotaSnapshot | None = None
) -> tuple[LimitWindow, ...]:
    """Return all counters for a lane's next message: its tenant's, its campaign's and the quota."""
    own = [window for level in levels for window in windows(level.limits, level.owner, now)]
    percent = levels[0].limits.reserve_percent if levels else 0
    return (*own, *provider_quota.windows(quota_for_bulk(quota, percent), now))


def _clock_hour(limit: int, owner: int | str, now: Instant, reason: str) -> LimitWindow:
    ends = (now // HOUR + 1) * HOUR
    time_utc = datetime.fromtimestamp(now / 1000, UTC)
    return LimitWindow(f"mailwright:rate:hour:{owner}:{time_utc:%Y-%m-%d:%H}", limit, ends, reason, ends)


def _sliding_hour(limit: int, owner: int | str, now: Instant, reason: str) -> LimitWindow:
    """Count per minute. The current minute may use the part of the limit that the sixty minutes before it left.

    Fifty-nine would be too few: the end of the sixtieth minute before and the current minute are less than an hour
    apart. Future minutes count too, because another worker's clock may be ahead.
    """
    minute = now // MINUTE
    lock_name = f"mailwright:rate:sliding:{owner}"
    ends = (minute + 1) * MINUTE
    related = _related_minutes(lock_name, minute)
    return LimitWindow(f"{lock_name}:{minute}", limit, ends, reason, ends + HOUR, related, lock_name)


@lru_cache(maxsize=1_024)
def _related_minutes(lock_name: str, minute: int) -> tuple[RelatedCounter, ...]:
    around = range(minute - _MINUTES_OF_AN_HOUR, minute + _MINUTES_OF_AN_HOUR + 1)
    return tuple(
        RelatedCounter(f"{lock_name}:{other}", (other + 1) * MINUTE + HOUR) for other in around if other != minute
    )
