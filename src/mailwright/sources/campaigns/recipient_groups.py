"""Group the recipients of a queued campaign by time zone and limited domain, for a forecast."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select

from mailwright.audience.segments import audience
from mailwright.domain.address import domain_of
from mailwright.domain.clock import Instant
from mailwright.domain.permits import Deferral, DomainLimits, LimitLevel
from mailwright.policies.hours import is_zone
from mailwright.sources.campaigns.entries import CampaignSnapshot
from mailwright.sources.campaigns.forecast_values import ONE_AT_A_TIME_RATE, ForecastGroup, QueuedCampaign
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import contacts

COUNT_DEFERRED = statement(__package__, "count_deferred")
LIST_UNSENT_ADDRESSES = statement(__package__, "list_unsent_addresses")

# The groups of a larger campaign are estimated from this many recipients.
_MAX_SAMPLE = 20_000
# Smaller domains are joined, because they finish long before the rest.
_MAX_GROUPS = 50

_Group = tuple[str | None, str | None]  # time zone, and domain if it has a limit


async def load_groups(
    tx: Transaction, row: Any, queued: QueuedCampaign, domains: DomainLimits, now: Instant
) -> tuple[ForecastGroup, ...]:
    """Return the groups of a queue entry; none if the same hours and limits apply to all recipients."""
    follows_zones = queued.follows_zones
    if not queued.to_send:
        return ()
    if not (follows_zones or domains):
        deferred = await _deferred_groups(tx, row, now)
        others = queued.to_send - sum(group.recipients for group in deferred)
        return (*deferred, ForecastGroup(others)) if deferred else ()
    counted: Counter[_Group] = Counter()
    for address, zone in await _recipients(tx, row, now):
        domain = domain_of(address) if domains.of(domain_of(address)) is not None else None
        counted[zone if follows_zones and zone and is_zone(zone) else None, domain] += 1
    return tuple(_groups(counted, queued.levels if follows_zones else (), domains, queued.to_send))


async def _deferred_groups(tx: Transaction, row: Any, now: Instant) -> list[ForecastGroup]:
    """Group the messages that a frequency cap or a snooze defers by the time when they are due."""
    rows = await tx.run(COUNT_DEFERRED, lane=row.lane, now=now, most=_MAX_GROUPS)
    return [ForecastGroup(each.messages, deferral=Deferral(each.until, each.reason)) for each in rows]


async def _recipients(tx: Transaction, row: Any, now: Instant) -> list[tuple[str, str | None]]:
    """Return addresses and time zones: of the messages, or of the audience if it is not enqueued yet."""
    rows = await tx.run(LIST_UNSENT_ADDRESSES, lane=row.lane, most=_MAX_SAMPLE)
    if not rows and row.enqueue_ended_at is None:
        content = CampaignSnapshot.read(row.content)
        members = audience(row.tenant_id, content.lists, content.filter, now)
        query = select(contacts.c.email.label("to_email"), contacts.c.timezone).where(members).limit(_MAX_SAMPLE)
        rows = await tx.execute(query)
    return [(each.to_email, each.timezone) for each in rows]


def _groups(
    counted: Mapping[_Group, int], levels: Sequence[LimitLevel], domains: DomainLimits, remaining: int
) -> Iterator[ForecastGroup]:
    total = sum(counted.values())
    largest = sorted(counted.items(), key=lambda item: -item[1])
    kept, joined = largest[:_MAX_GROUPS], largest[_MAX_GROUPS:]
    rest: Counter[_Group] = Counter()
    for (zone, _), number in joined:
        rest[zone, None] += number
    left = remaining
    for index, ((zone, domain), number) in enumerate(groups := [*kept, *rest.items()]):
        share = left if index == len(groups) - 1 else round(remaining * number / total)
        left -= share
        local = tuple(
            replace(level, limits=replace(level.limits, timezone=zone or level.limits.timezone)) for level in levels
        )
        per_second = _per_second(domains, domain) if domain is not None else None
        yield ForecastGroup(share, local, per_second)


def _per_second(domains: DomainLimits, domain: str) -> float | None:
    limit = domains.of(domain)
    if limit is None:
        return None
    rates = [] if limit.rate_per_second is None else [float(limit.rate_per_second)]
    if limit.at_once is not None:
        rates.append(limit.at_once * ONE_AT_A_TIME_RATE)
    return min(rates, default=None)
