"""Explain a message with the limit that defers it: whose limit it is, and how much of it is used."""

from collections.abc import Mapping
from typing import Any

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.explanation import MessageExplanation, ReachedLimit
from mailwright.domain.sending_readiness import Destination
from mailwright.outbox.explain import LOCAL_PROVIDERS, explain
from mailwright.outbox.limits import DefaultLimits, load_limit_rules
from mailwright.outbox.provider_configurations import load_routes
from mailwright.outbox.provider_limits import load_provider_limits
from mailwright.sources.campaigns.reached_limit import LimitedLane, find_reached_limit, own_columns
from mailwright.storage.database import Database


async def explain_message(
    database: Database,
    clock: Clock,
    defaults: DefaultLimits,
    outbox_id: str,
    *,
    tenant_id: int | None,
    destinations: Mapping[str, Destination] = LOCAL_PROVIDERS,
) -> MessageExplanation:
    """Explain a message of the tenant. A `tenant_id` of None, for operators, includes all tenants.

    `destinations`: see `explain`.
    """

    async def find_limit(message: Any, now: Instant) -> ReachedLimit | None:
        levels = (await load_limit_rules(database, defaults)).levels(message.tenant_id, message.lane)
        async with database.read() as tx:
            provider = (await load_routes(tx)).provider_of(message.tenant_id, message.source)
        shared = None if provider is None else await load_provider_limits(database, provider, defaults.limits)
        own = own_columns(message, levels[0].limits)
        lane = LimitedLane(message.tenant, own, message.campaign, message.campaign_limits)
        async with database.read() as tx:
            return await find_reached_limit(tx, lane, message.hold_reason, (*levels, shared) if shared else levels, now)

    return await explain(
        database,
        clock,
        outbox_id,
        tenant_id=tenant_id,
        find_limit=find_limit,
        max_attempts=defaults.max_attempts,
        destinations=destinations,
    )
