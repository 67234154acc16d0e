"""The providers' quota: the remainder that they reported, minus the messages sent since the report."""

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.permits import QUOTA_EXHAUSTED, LimitWindow, QuotaSnapshot, RelatedCounter, quota_counter

# Reports older than this are ignored. Without a report, only the provider's rejections limit sending.
TRUSTED: Instant = DAY


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


def next_sync(quota: QuotaSnapshot, now: Instant) -> Instant:
    """Return when the quota is synchronized again."""
    rounds = (now - quota.synced_at) // quota.sync_every + 1
    return quota.synced_at + rounds * quota.sync_every
