"""The providers' quota: what they reported as remaining, less what was sent since."""

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.permits import QUOTA_EXHAUSTED, LimitWindow, QuotaSnapshot, RelatedCounter, quota_counter

# An older report is ignored; then only the provider's own rejections limit sending.
TRUSTED: Instant = DAY


def windows(quota: QuotaSnapshot | None, now: Instant) -> tuple[LimitWindow, ...]:
    """Return the window that all tenants share; none without a recent report."""
    if quota is None or now >= quota.synced_at + TRUSTED:
        return ()
    ends = quota.synced_at + TRUSTED
    lock_name = quota.lock_name
    # A worker may briefly still count in the window of the previous sync; those messages are subtracted here.
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
