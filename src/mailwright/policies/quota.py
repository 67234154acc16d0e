"""The providers' quota: the remainder that they reported, minus the messages sent since the report."""

from mailwright.domain.clock import DAY, HOUR, Instant
from mailwright.domain.permits import (
    QUOTA_EXHAUSTED,
    QUOTA_PER_DAY,
    QUOTA_PER_HOUR,
    LimitWindow,
    QuotaSnapshot,
    RelatedCounter,
    quota_counter,
)

# Reports older than this are ignored. Without a report, only the provider's rejections limit sending.
TRUSTED: Instant = DAY
_NAMES = {HOUR: QUOTA_PER_HOUR, DAY: QUOTA_PER_DAY}


def windows(quota: QuotaSnapshot | None, now: Instant) -> tuple[LimitWindow, ...]:
    """Return the window that all tenants share; empty if there is no recent report."""
    if quota is None or now >= quota.synced_at + TRUSTED:
        return ()
    ends = quota.synced_at + TRUSTED
    lock_name = quota.lock_name
    # For a short time, a worker may still count messages in the window of the previous sync. Subtract them here.
    before = (
        () if quota.previous_sync is None else (RelatedCounter(quota_counter(lock_name, quota.previous_sync), ends),)
    )
    limit = quota.remaining + quota.counted_before
    name = quota_counter(lock_name, quota.synced_at)
    return (LimitWindow(name, limit, ends, QUOTA_EXHAUSTED, next_sync(quota, now), before, lock_name, is_exact=True),)


def sizes(quota: QuotaSnapshot | None, now: Instant) -> list[tuple[str, int]]:
    """Return the name and size of each part of the quota; of a quota that is not renewed, what is left of it."""
    if quota is None or now >= quota.synced_at + TRUSTED:
        return []
    if quota.periods:
        return [
            (QUOTA_EXHAUSTED, each.left) if each.length is None else (_NAMES[each.length], each.limit)
            for each in quota.periods
        ]
    return [(QUOTA_EXHAUSTED, quota.remaining) if quota.per_day is None else (QUOTA_PER_DAY, quota.per_day)]


def next_sync(quota: QuotaSnapshot, now: Instant) -> Instant:
    """Return when the quota is synchronized again."""
    rounds = (now - quota.synced_at) // quota.sync_every + 1
    return quota.synced_at + rounds * quota.sync_every
