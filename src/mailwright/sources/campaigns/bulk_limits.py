"""The limits of campaigns, each with the part that is kept for transactional email."""

from mailwright.domain.clock import Instant
from mailwright.domain.message import Source
from mailwright.domain.permits import BulkLimit
from mailwright.outbox.limits import DefaultLimits, load_tenant_limits
from mailwright.outbox.provider_configurations import load_routes
from mailwright.outbox.quotas import load_quota_snapshot
from mailwright.policies.rates import bulk_limits
from mailwright.storage.database import Readable


async def load_bulk_limits(
    database: Readable, defaults: DefaultLimits, tenant_id: int | None, now: Instant
) -> tuple[BulkLimit, ...]:
    """Load the limits of a tenant with their reserves; those of the installation if `tenant_id` is None."""
    own = await load_tenant_limits(database, defaults.limits)
    limits = defaults.limits if tenant_id is None else own.get(tenant_id, defaults.limits)
    async with database.read() as tx:
        named = None if tenant_id is None else (await load_routes(tx)).provider_of(tenant_id, Source.CAMPAIGN)
    providers = defaults.providers if named is None else (named,)
    quota = await load_quota_snapshot(database, providers, defaults.quota_sync_every)
    return bulk_limits(limits, quota, defaults.domains, now)
