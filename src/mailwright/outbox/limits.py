"""Load the limits of tenants and campaigns, the defaults from the settings, and the remaining provider quota."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import orjson
from sqlalchemy import ColumnElement, exists, select

from mailwright.domain.clock import MINUTE, Instant
from mailwright.domain.frequency import FrequencyCap, parse_frequency_cap
from mailwright.domain.guard_rails import GuardState
from mailwright.domain.lanes import Lane, is_of_campaign, place_of
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.permits import DomainLimits, LimitLevel, Limits, QuotaSnapshot
from mailwright.domain.states import Priority
from mailwright.domain.working_hours import ALWAYS
from mailwright.outbox.provider_limits import load_provider_limits
from mailwright.outbox.quotas import load_quota_snapshot, provider_rate
from mailwright.storage.database import Readable
from mailwright.storage.tables import campaigns, mailouts, queue_entries, tenants

LIMIT_COLUMNS = (
    "rate_per_second",
    "rate_per_hour",
    "daily_limit",
    "working_hours",
    "timezone",
    "warmup_since",
    "interval_ms",
    "one_at_a_time",
    "frequency_cap",
)

# Whether the campaign of a queue entry is a mailout, which has the same ID.
_IS_MAILOUT = exists().where(
    campaigns.c.id == queue_entries.c.campaign_key, mailouts.c.mailout_id == campaigns.c.campaign_id
)


@dataclass(frozen=True, slots=True)
class DefaultLimits:
    """The limits from the settings, for tenants without their own limits."""

    limits: Limits
    # The providers of the route with their weights, if any. All tenants share their quota.
    providers: Mapping[str, int | None] = field(default_factory=dict)
    quota_sync_every: Instant = 5 * MINUTE
    domains: DomainLimits = field(default_factory=DomainLimits)  # Limits of the recipients' domains.
    named_provider: str | None = None  # The provider, if it is not that of the installation.
    max_attempts: int | None = None  # Attempts after which a message fails whatever its errors; None without a limit.


@dataclass(frozen=True, slots=True)
class LimitRules:
    default: Limits
    tenants: Mapping[int, Limits] = field(default_factory=dict)  # Only tenants with their own limits.
    campaigns: Mapping[int, LimitLevel] = field(default_factory=dict)  # By lane.
    quota: QuotaSnapshot | None = None
    provider_rate: int | None = None  # Messages per second that keep every provider within its reported rate.
    route: str = ""  # The provider that sets this rate, as part of a counter name.
    provider: LimitLevel | None = None  # The limits of the named provider, for all its tenants together.

    def levels(self, tenant_id: int, lane: int) -> tuple[LimitLevel, ...]:
        """Return the limits that apply to a message of this lane: its tenant's and, if it has one, its campaign's.

        Transactional messages may use the reserve of the tenant's limits.
        """
        limits = self.tenants.get(tenant_id, self.default)
        if limits.reserve_percent and Lane(lane).priority < Priority.BULK:
            limits = _with_reserve(limits, 0)
        tenant = LimitLevel(str(tenant_id), limits)
        campaign = self.campaigns.get(lane)
        return (tenant,) if campaign is None else (tenant, campaign)

    def provider_levels(self, lane: int) -> tuple[LimitLevel, ...]:
        """Return the limits of the provider that apply to a message of this lane in addition."""
        if self.provider is None:
            return ()
        if Lane(lane).priority < Priority.BULK:
            return (LimitLevel(self.provider.owner, _with_reserve(self.provider.limits, 0)),)
        return (self.provider,)

    @property
    def has_frequency_caps(self) -> bool:
        return any(limits.frequency_cap is not None for limits in (self.default, *self.tenants.values()))

    def frequency_cap(self, tenant_id: int, lane: int) -> FrequencyCap | None:
        """Return how many bulk emails the recipients of a lane may receive. Transactional email has no cap."""
        return parse_frequency_cap(self.levels(tenant_id, lane)[-1].limits.frequency_cap)

    def order_of(self, lane: int) -> tuple[int, int]:
        """Return the sort key by which lanes take turns: like the lane number, with the queue position that a user set.

        Sequences come before campaigns.
        """
        first = lane - place_of(lane)
        if not is_of_campaign(lane):
            return first, lane
        campaign = self.campaigns.get(lane)
        return (lane if campaign is None or campaign.place is None else first + campaign.place), lane

    def missing_lanes(self, lanes: Iterable[int]) -> set[int]:
        """Return the campaign lanes whose limits are not loaded."""
        return {lane for lane in lanes if is_of_campaign(lane) and lane not in self.campaigns}


async def load_limit_rules(database: Readable, defaults: DefaultLimits, lanes: Collection[int] = ()) -> LimitRules:
    """Load the limits of all open campaigns, and of completed ones that have messages in `lanes` again."""
    default = defaults.limits
    own = await load_tenant_limits(database, default)
    campaigns = await _campaigns(database, default, own, queue_entries.c.completed_at.is_(None))
    quota = (
        await load_quota_snapshot(database, defaults.providers, defaults.quota_sync_every)
        if defaults.providers
        else None
    )
    rate = await provider_rate(database, defaults.providers) if defaults.providers else None
    rules = LimitRules(default, own, campaigns, quota)
    if defaults.named_provider is not None:
        rules = replace(rules, provider=await load_provider_limits(database, defaults.named_provider, default))
    if rate is not None:
        rules = replace(rules, provider_rate=rate.per_second, route=rate.provider)
    if not (ended := rules.missing_lanes(lanes)):
        return rules
    places = queue_entries.c.id.in_({place_of(lane) for lane in ended})
    return replace(rules, campaigns={**campaigns, **await _campaigns(database, default, own, places)})


async def _campaigns(
    database: Readable, default: Limits, own: Mapping[int, Limits], which: ColumnElement[bool]
) -> dict[int, LimitLevel]:
    """Return the limits of campaigns, by lane."""
    found = select(
        queue_entries.c.campaign_key,
        queue_entries.c.tenant_id,
        queue_entries.c.lane,
        queue_entries.c.limits,
        queue_entries.c.created_at,
        queue_entries.c.position,
        queue_entries.c.guard,
        _IS_MAILOUT.label("is_mailout"),
    ).where(which)
    async with database.read() as tx:
        rows = await tx.execute(found)
    return {
        row.lane: LimitLevel(
            f"campaign-{row.campaign_key}",
            _slowed(_parse_entry_limits(row, own.get(row.tenant_id, default)), row.guard),
            row.position,
        )
        for row in rows
    }


async def load_tenant_limits(database: Readable, default: Limits) -> Mapping[int, Limits]:
    """Load the limits of the tenants that have their own. All others use the default, which is also the ceiling."""
    columns = [tenants.c[name] for name in LIMIT_COLUMNS]
    async with database.read() as tx:
        rows = await tx.execute(select(tenants.c.id, *columns))
    own = {row.id: {name: value for name in LIMIT_COLUMNS if (value := getattr(row, name)) is not None} for row in rows}
    return {
        tenant_id: replace(default, **_below(default, _typed(limits))) for tenant_id, limits in own.items() if limits
    }


def _parse_entry_limits(row: Any, tenant: Limits) -> Limits:
    """Parse the limits of a queue entry. All mailouts of the installation share one interval and one turn."""
    limits = parse_campaign_limits(row.limits, tenant, row.created_at)
    return replace(limits, paced_source=Source.MAILOUT) if row.is_mailout else limits


def parse_campaign_limits(text: str, tenant: Limits, started_at: Instant) -> Limits:
    """Parse the `limits` of a queue entry. They apply in addition to the tenant's limits.

    The time zone defaults to the tenant's. The tenant's working hours apply too, even if the campaign's hours cover the
    whole week. A warm-up begins on the day when the campaign started.
    """
    own: dict[str, Any] = orjson.loads(text)
    zone = own.get("timezone") or tenant.timezone
    since = datetime.fromtimestamp(started_at / 1000, UTC).astimezone(ZoneInfo(zone)).date()
    return replace(
        tenant,
        rate_per_second=own.get("rate_per_second"),
        rate_per_hour=own.get("rate_per_hour"),
        daily_limit=own.get("daily_limit"),
        working_hours=tenant.working_hours if own.get("working_hours") in (None, ALWAYS) else own["working_hours"],
        timezone=zone,
        warmup_since=since if own.get("warmup") else None,
        in_recipient_zone=bool(own.get("in_readers_time_zone")),
        interval_ms=own.get("interval_ms"),
        one_at_a_time=bool(own.get("one_at_a_time")),
        frequency_cap=None if own.get("ignore_frequency_cap") else tenant.frequency_cap,
        reserve_percent=0,  # Campaigns have no transactional messages, so they need no reserve.
    )


def _slowed(limits: Limits, guard: str | None) -> Limits:
    """Return the limits of a campaign that its guard rails have slowed down."""
    slow = GuardState.read(guard).slow_per_hour if guard is not None else None
    return limits if slow is None else replace(limits, rate_per_hour=min(slow, limits.rate_per_hour or slow))


@lru_cache(maxsize=1_024)
def _with_reserve(limits: Limits, percent: int) -> Limits:
    return replace(limits, reserve_percent=percent)


def _below(ceiling: Limits, own: dict[str, Any]) -> dict[str, Any]:
    """Return the limits of a tenant, not above those of the installation."""
    below = dict(own)
    for name in ("rate_per_second", "rate_per_hour", "daily_limit"):
        most = getattr(ceiling, name)
        if name in own and most is not None and not (name == "rate_per_hour" and ceiling.is_usual_plan):
            below[name] = min(own[name], most)
    if "interval_ms" in own and ceiling.interval_ms is not None:
        below["interval_ms"] = max(own["interval_ms"], ceiling.interval_ms)
    return below


def _typed(limits: dict[str, Any]) -> dict[str, Any]:
    since = limits.get("warmup_since")
    return limits if since is None else {**limits, "warmup_since": date.fromisoformat(since)}
