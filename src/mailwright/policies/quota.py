"""The providers' quota: what they said is left, less what was sent since they said so."""

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.permits import QUOTA_EXHAUSTED, LimitWindow, QuotaSnapshot, RelatedCounter, quota_counter

# What a provider said so long ago says nothing about today; its own refusals then have to do.
TRUSTED: Instant = DAY


def windows(quota: QuotaSnapshot | None, now: Instant) -> tuple[LimitWindow, ...]:
    """One for all tenants; none where no provider tells, or where it told too long ago."""
    if quota is None or now >= quota.synced_at + TRUSTED:
        return ()
    ends = quota.synced_at + TRUSTED
    lock_name = quota.lock_name
    # A worker may still count by the sync before this one for a moment: what it adds there is taken off here.
    before = (
        () if quota.previous_sync is None else (RelatedCounter(quota_counter(lock_name, quota.previous_sync), ends),)
    )
    limit = quota.remaining + quota.counted_before
    name = quota_counter(lock_name, quota.synced_at)
    return (LimitWindow(name, limit, ends, QUOTA_EXHAUSTED, next_sync(quota, now), before, lock_name, is_exact=True),)


def next_sync(quota: QuotaSnapshot, now: Instant) -> Instant:
    """When the providers are asked again."""
    rounds = (now - quota.synced_at) // quota.sync_every + 1
    return quota.synced_at + rounds * quota.sync_every
