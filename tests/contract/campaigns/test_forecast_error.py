"""The error of the forecast for every kind of limit: forecast, then send with real workers on a manual clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import insert, select

from mailwright.app.limits import defaults_of
from mailwright.app.quotas import QuotaSync
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant, ManualClock
from mailwright.domain.states import CLAIMABLE, Status
from mailwright.providers.protocol import AccountQuota
from mailwright.sources.campaigns.forecast import forecast
from mailwright.storage.tables import deliveries, lane_deferrals, quotas
from tests.builders import Bench, a_bench, change_tenant
from tests.campaigns import CampaignHarness, address_of, join
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider

# The clock stands still while workers send, so the forecast assumes workers that need no time.
AT_ONCE = 1_000_000.0
MAX_STEPS = 400


@dataclass(frozen=True)
class Kind:
    """A kind of limit: where it is set, how many recipients, and how far the forecast may be off."""

    recipients: int
    bound: Instant
    tenant: dict[str, Any] = field(default_factory=dict)
    campaign: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    zones: tuple[str, ...] = ()
    provider_rate: int | None = None
    hourly_quota: int | None = None
    starts_in: Instant = 0


ZONES = ("Europe/Lisbon", "Asia/Tokyo", "America/New_York")
KINDS = {
    "hourly": Kind(50, SECOND, tenant={"rate_per_hour": 20}),
    "hourly of the campaign": Kind(50, SECOND, campaign={"ratePerHour": 20}),
    "sliding hour": Kind(50, MINUTE, tenant={"rate_per_hour": 20}, settings={"sliding_hour": True}),
    "daily": Kind(50, SECOND, tenant={"daily_limit": 20}),
    "warm-up": Kind(180, SECOND, campaign={"warmup": True}),
    "per second": Kind(5, 2 * SECOND, tenant={"rate_per_second": 2}),
    "interval": Kind(4, 6 * SECOND, campaign={"intervalMs": 5_000}),
    "one at a time": Kind(10, 3 * SECOND, campaign={"oneAtATime": True}),
    "messages in flight": Kind(8, 3 * SECOND, tenant={"max_in_flight": 2}),
    "domain": Kind(5, 3 * SECOND, settings={"domain_limits": "example.com=2/s"}),
    "other domains": Kind(5, 3 * SECOND, settings={"domain_limits": "gmail.com=1/s, *=2/s"}),
    "provider rate": Kind(5, 3 * SECOND, provider_rate=2),
    "provider hourly quota": Kind(30, 5 * MINUTE, hourly_quota=20),
    "working hours": Kind(30, SECOND, tenant={"working_hours": "10:00-12:00", "rate_per_hour": 10}),
    "working hours by weekday": Kind(
        30, SECOND, tenant={"working_hours": "Fri 22:00-01:00, Mon 09:00-10:00", "rate_per_hour": 5}
    ),
    "contacts' time zones": Kind(
        12, SECOND, campaign={"workingHours": "09:00-12:00", "inReadersTimeZone": True}, zones=ZONES
    ),
    "contacts' time zones and an hourly limit": Kind(
        60, HOUR, campaign={"workingHours": "09:00-12:00", "inReadersTimeZone": True, "ratePerHour": 5}, zones=ZONES
    ),
    "schedule": Kind(5, SECOND, starts_in=3 * DAY),
}


@asynccontextmanager
async def opened(engine: DatabaseAddress, clock: ManualClock, kind: Kind) -> AsyncIterator[CampaignHarness]:
    async with a_bench(engine.url, clock, **kind.settings) as bench:
        if kind.tenant:
            await change_tenant(bench.database, **kind.tenant)
        if kind.provider_rate is not None:
            report = {"remaining": None, "detail": "", "in_flight": 0, "counted_before": 0, "synced_at": clock.now()}
            async with bench.database.write() as tx:
                row = {"provider": "scripted", "rate_per_second": kind.provider_rate, **report}
                await tx.execute(insert(quotas).values(**row))
        yield CampaignHarness(bench)


@dataclass
class HourlyAccount:
    """An account whose provider counts the messages of each clock hour."""

    clock: ManualClock
    limit: int
    provider: ScriptedProvider
    before_hour: tuple[int, int] = (0, 0)

    async def quota(self) -> AccountQuota | None:
        hour, sent = self.clock.now() // HOUR, len(self.provider.messages)
        if hour != self.before_hour[0]:
            self.before_hour = (hour, sent)
        return AccountQuota(
            limit_per_day=None,
            sent_today=None,
            rate_per_second=None,
            remaining=100_000 - sent,
            limit_per_hour=self.limit,
            sent_this_hour=sent - self.before_hour[1],
            left_in_plan=100_000 - sent,
        )


def quota_sync(bench: Bench, kind: Kind, provider: ScriptedProvider) -> QuotaSync | None:
    if kind.hourly_quota is None:
        return None
    account = HourlyAccount(bench.clock, kind.hourly_quota, provider)
    return QuotaSync(bench.database, bench.clock, {"scripted": account}, 5 * MINUTE)


async def send_all(bench: Bench, provider: ScriptedProvider, sync: QuotaSync | None) -> Instant:
    """Run workers whenever something may be due. Return when the last message was sent."""
    for _ in range(MAX_STEPS):
        before = len(provider.messages)
        await bench.drain(provider)
        async with bench.database.read() as tx:
            waiting = await tx.execute(select(deliveries.c.claimable_at).where(deliveries.c.status.in_(CLAIMABLE)))
            lanes = await tx.execute(select(lane_deferrals.c.deferred_until))
            sent = await tx.execute(select(deliveries.c.message_key).where(deliveries.c.status == Status.SENT))
        now = bench.clock.now()
        if sent and not waiting:
            return now
        if len(provider.messages) > before and not any(row.deferred_until > now for row in lanes):
            continue
        times = [row.claimable_at for row in waiting] + [row.deferred_until for row in lanes]
        if sync is not None:
            times.append((now // (5 * MINUTE) + 1) * 5 * MINUTE)
        later = [time for time in times if time > now]
        bench.clock.advance((min(later) if later else now + 100) - now)
        if sync is not None:
            await sync.tick()
    raise AssertionError("the campaign is not sent after many steps")


@pytest.mark.promise("forecast-comes-true")
@pytest.mark.parametrize("name", KINDS)
async def test_forecast_error_is_small(engine: DatabaseAddress, clock: ManualClock, name: str) -> None:
    kind = KINDS[name]
    async with opened(engine, clock, kind) as desk:
        bench, provider = desk.bench, ScriptedProvider()
        sync = quota_sync(bench, kind, provider)
        if sync is not None:
            await sync.tick()
        addresses = [address_of(number) for number in range(kind.recipients)]
        for number, zone in enumerate(zones := kind.zones or (None,)):
            await join(desk.database, addresses[number :: len(zones)], timezone=zone)
        schedule = {"scheduledAt": clock.now() + kind.starts_in} if kind.starts_in else {}
        began = clock.now()
        campaign_id = await desk.start(limits=kind.campaign, **schedule)
        defaults = defaults_of(bench.engine.settings, {"scripted": None})
        found = await forecast(desk.database, clock, defaults, tenant_id=None, measured_rate=AT_ONCE)
        [forecasted] = [each for each in found.campaigns if each.campaign_id == campaign_id]
        assert forecasted.finishes_at is not None
        finished = await send_all(bench, provider, sync)
        assert len(provider.messages) == kind.recipients
        error = forecasted.finishes_at - finished
        print(f"| {name} | {(finished - began) / SECOND:,.1f} s | {error / SECOND:+.1f} s |")
        assert abs(error) <= kind.bound
