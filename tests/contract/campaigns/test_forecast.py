"""The forecast compared with real workers under the same limits, on a manual clock and both engines."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from sqlalchemy import insert, select, update

from mailwright.app.limits import default_limits
from mailwright.domain.campaign import INDEFINITELY, PAUSED, SCHEDULED, CampaignStatus
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant, ManualClock
from mailwright.domain.ids import uuid7
from mailwright.domain.lanes import lane_number
from mailwright.domain.permits import Limits
from mailwright.domain.states import Priority, Status
from mailwright.outbox import quotas
from mailwright.outbox.defer import defer_lane
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.quotas import QuotaReport
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry, list_present
from mailwright.policies.domains import parse_domain_limits
from mailwright.sources.campaigns.entries import CampaignSnapshot
from mailwright.sources.campaigns.forecast import Forecast, forecast
from mailwright.sources.campaigns.forecast_values import ASSUMED_RATE, CampaignForecast, ForecastAssumption
from mailwright.sources.campaigns.queue_progress import queue_progress
from mailwright.storage.database import Database
from mailwright.storage.tables import campaigns, deliveries, lane_deferrals, messages, queue_entries
from mailwright.texts.explanations import bulk_limit_text
from tests.builders import DEFAULT_TENANT, Bench, a_bench, a_newsletter, a_tenant, change_tenant
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider

# The sentences about limits with a reserve of 10 %, and without one.
RESERVED = [
    "Hourly limit: 90 of 100 for bulk, 10 kept for transactional email.",
    "Daily provider quota: 450 of 500 for bulk, 50 kept for transactional email.",
    "Limit per second of gmail.com: 18 of 20 for bulk, 2 kept for transactional email.",
    "Limit per second of each other domain: 27 of 30 for bulk, 3 kept for transactional email.",
]
UNRESERVED = [
    "Hourly limit: 100, all of it for bulk.",
    "Daily provider quota: 500, all of it for bulk.",
    "Limit per second of gmail.com: 20, all of it for bulk.",
    "Limit per second of each other domain: 30, all of it for bulk.",
]
# The clock stands still while workers send, so the forecast assumes workers that need no time.
AT_ONCE = 1_000_000.0
ONE_BATCH = 100


@dataclass(frozen=True)
class QueuedTestCampaign:
    campaign_id: str
    lane: int


async def a_queued_campaign(
    bench: Bench, recipients: int, *, tenant_id: int = DEFAULT_TENANT, **limits: Any
) -> QueuedTestCampaign:
    """Create a campaign whose messages are all enqueued."""
    now = bench.clock.now()
    campaign_id = uuid7(now)
    async with bench.database.write() as tx:
        values = {"campaign_id": campaign_id, "tenant_id": tenant_id, "name": f"To {recipients}"}
        rest = {"status": CampaignStatus.SENDING, "definition": "{}", "created_at": now, "updated_at": now}
        [campaign] = await tx.execute(insert(campaigns).values(**values, **rest).returning(campaigns.c.id))
        columns: dict[str, Any] = {
            "campaign_key": campaign.id,
            "tenant_id": tenant_id,
            "lane": 0,
            "content": CampaignSnapshot((), {}, (), None).as_text(),
            "limits": orjson.dumps(limits).decode(),
            "planned": recipients,
            "processed": recipients,
            "recipients": recipients,
            "enqueued_to": "z",
            "enqueue_ended_at": now,
            "created_at": now,
        }
        [entry] = await tx.execute(insert(queue_entries).values(**columns).returning(queue_entries.c.id))
        lane = lane_number(Priority.BULK, tenant_id, entry.id)
        await tx.execute(update(queue_entries).where(queue_entries.c.id == entry.id).values(lane=lane))
    ids = await bench.accept(*(a_newsletter(tenant_id=tenant_id) for _ in range(recipients)))
    async with bench.database.write() as tx:
        mine = select(messages.c.id).where(messages.c.outbox_id.in_(ids))
        await tx.execute(update(deliveries).where(deliveries.c.message_key.in_(mine)).values(lane=lane))
    return QueuedTestCampaign(campaign_id, lane)


async def a_forecast(bench: Bench, *, providers: Sequence[str] = (), tenant_id: int | None = None) -> Forecast:
    defaults = DefaultLimits(default_limits(bench.engine.settings), dict.fromkeys(providers))
    return await forecast(bench.database, bench.clock, defaults, tenant_id=tenant_id, measured_rate=AT_ONCE)


async def run_workers(
    bench: Bench, queue: Sequence[QueuedTestCampaign], within: Instant
) -> dict[int, list[tuple[Instant, int]]]:
    """Run workers whenever a deferral ends, and record how many messages of each lane were sent by then."""
    ends_at = bench.clock.now() + within
    seen: dict[int, list[tuple[Instant, int]]] = {each.lane: [] for each in queue}
    provider = ScriptedProvider()
    while True:
        await bench.drain(provider)
        async with bench.database.read() as tx:
            rows = await tx.execute(select(deliveries.c.lane, deliveries.c.status))
            until = [row.deferred_until for row in await tx.execute(select(lane_deferrals))]
        for lane, history in seen.items():
            history.append((bench.clock.now(), sum(row.lane == lane and row.status == Status.SENT for row in rows)))
        coming = [time for time in until if bench.clock.now() < time <= ends_at]
        if not coming or all(row.status == Status.SENT for row in rows):
            return seen
        bench.clock.advance(min(coming) - bench.clock.now())


def sent_by(forecasted: CampaignForecast, time: Instant) -> int:
    """Return how many messages the forecast has sent shortly after this time."""
    return sum(segment.sent for segment in forecasted.segments if segment.begins_at <= time)


async def assert_workers_follow_the_forecast(
    bench: Bench, queue: Sequence[QueuedTestCampaign], within: Instant, **how: Any
) -> None:
    found = await a_forecast(bench, **how)
    forecasts = {forecasted.campaign_id: forecasted for forecasted in found.campaigns}
    histories = await run_workers(bench, queue, within)
    worst = 0
    for each in queue:
        forecasted, history = forecasts[each.campaign_id], histories[each.lane]
        finished_at = next((time for time, sent in history if sent == forecasted.remaining), None)
        if finished_at is not None:
            assert forecasted.finishes_at is not None
            assert abs(forecasted.finishes_at - finished_at) <= MINUTE, (forecasted, history)
        began_at = next((time for time, sent in history if sent), None)
        if began_at is not None:
            assert forecasted.starts_at is not None
            assert abs(forecasted.starts_at - began_at) <= MINUTE, (forecasted, history)
        if all(
            segment.sent == 0 or segment.reason is None for segment in forecasted.segments
        ):  # no day was summarized with others
            worst = max(worst, *(abs(sent_by(forecasted, time + SECOND) - sent) for time, sent in history))
    print(f"the forecast and the workers differ by at most {worst} messages at any time")
    assert worst <= ONE_BATCH


@pytest.mark.promise("forecast-comes-true")
async def test_forecast_of_an_hourly_limit(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=100)
    queue = [await a_queued_campaign(bench, 150), await a_queued_campaign(bench, 30)]
    [first, second] = (await a_forecast(bench)).campaigns
    now = bench.clock.now()
    assert [(segment.sent, segment.reason) for segment in first.segments] == [
        (100, None),
        (0, "rate_per_hour"),
        (50, None),
    ]
    assert (first.segments[1].ends_at, second.segments[0].reason) == (now + HOUR, "in_line")
    await assert_workers_follow_the_forecast(bench, queue, DAY)


@pytest.mark.promise("forecast-comes-true")
@pytest.mark.parametrize("number", range(5))
async def test_workers_send_as_the_forecast_predicted(bench: Bench, number: int) -> None:
    chance = random.Random(number)
    bench.clock.advance(chance.randrange(0, 24 * 60) * MINUTE)
    other = await a_tenant(bench.database, "other")
    for tenant_id in (DEFAULT_TENANT, other):
        await change_tenant(
            bench.database,
            tenant_id,
            rate_per_hour=chance.choice([None, 40, 75]),
            daily_limit=chance.choice([None, 90, 160]),
            working_hours=chance.choice([None, "09:00-18:00", "07:30-12:15"]),
            timezone=chance.choice(["UTC", "Europe/Lisbon", "Asia/Kolkata", "America/New_York"]),
        )
    queue = []
    for _ in range(chance.randint(2, 4)):
        own = {"rate_per_hour": chance.choice([None, 25]), "daily_limit": chance.choice([None, 60])}
        tenant_id = chance.choice([DEFAULT_TENANT, other])
        queue.append(await a_queued_campaign(bench, chance.randint(20, 130), tenant_id=tenant_id, **own))
    await assert_workers_follow_the_forecast(bench, queue, 30 * DAY)


@pytest.mark.promise("forecast-comes-true")
async def test_tenants_share_the_limits_of_their_provider(bench: Bench) -> None:
    bench.clock.advance(HOUR - bench.clock.now() % HOUR)
    begins, other = bench.clock.now(), await a_tenant(bench.database, "other")
    given = {"smtp_url": "smtp://127.0.0.1:1", "rate_per_hour": "10"}
    await bench.engine.providers.create("acme-smtp", "smtp", given, actor="ada")
    for tenant_id in (DEFAULT_TENANT, other):
        await bench.engine.providers.set_route(tenant_id, None, "acme-smtp", actor="ada")
        await a_queued_campaign(bench, 25, tenant_id=tenant_id)
    ends = [each.finishes_at for each in (await a_forecast(bench)).campaigns]
    assert max(end or 0 for end in ends) // HOUR == begins // HOUR + 4, "50 messages at 10 per hour"
    await bench.engine.providers.edit("acme-smtp", {"rate_per_hour": None, "rate_per_second": "1"}, actor="ada")
    ends = [each.finishes_at for each in (await a_forecast(bench)).campaigns]
    assert 49 * SECOND <= max(end or 0 for end in ends) - begins <= 60 * SECOND


async def test_forecast_includes_the_warm_up(bench: Bench) -> None:
    queue = [await a_queued_campaign(bench, 180, warmup=True)]
    [forecasted] = (await a_forecast(bench)).campaigns
    assert [segment.sent for segment in forecasted.segments if segment.sent] == [50, 100, 30]
    assert {segment.reason for segment in forecasted.segments if not segment.sent} == {"warmup"}
    await assert_workers_follow_the_forecast(bench, queue, 10 * DAY)


@pytest.mark.promise("forecast-comes-true")
async def test_forecast_includes_a_sliding_hour(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with a_bench(engine.url, clock, sliding_hour=True) as bench:
        clock.advance(40 * MINUTE)
        await change_tenant(bench.database, rate_per_hour=60)
        queue = [await a_queued_campaign(bench, 100)]
        await assert_workers_follow_the_forecast(bench, queue, DAY)


async def test_forecast_starts_from_the_current_counters(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=100)
    await bench.accept(*(a_newsletter() for _ in range(70)))
    await bench.drain(ScriptedProvider())
    queue = [await a_queued_campaign(bench, 50)]
    [forecasted] = (await a_forecast(bench)).campaigns
    assert [segment.sent for segment in forecasted.segments] == [30, 0, 20]
    await assert_workers_follow_the_forecast(bench, queue, DAY)


async def test_forecast_names_paused_and_scheduled_campaigns(bench: Bench) -> None:
    now = bench.clock.now()
    paused, scheduled = await a_queued_campaign(bench, 10), await a_queued_campaign(bench, 10)
    await defer_lane(bench.database, paused.lane, PAUSED, INDEFINITELY)
    await defer_lane(bench.database, scheduled.lane, SCHEDULED, now + 3 * DAY)
    [first, second] = (await a_forecast(bench)).campaigns
    assert (first.starts_at, first.finishes_at, first.segments[0].reason) == (None, None, "paused")
    assert (second.starts_at, second.segments[0].reason) == (now + 3 * DAY, "scheduled")
    assert second.finishes_at is not None


async def test_messages_in_flight_use_their_limit_once(bench: Bench) -> None:
    await a_queued_campaign(bench, 3, daily_limit=2)
    provider = ScriptedProvider()
    provider.hold()
    draining = asyncio.create_task(bench.drain(provider))
    await provider.has(2)
    [in_flight] = (await a_forecast(bench)).campaigns
    provider.let_go()
    await draining
    [sent] = (await a_forecast(bench)).campaigns
    assert (in_flight.remaining, sent.remaining) == (3, 1)
    assert in_flight.has_begun
    assert in_flight.starts_at == sent.starts_at > bench.clock.now()
    assert in_flight.finishes_at == sent.finishes_at


async def test_forecast_renews_a_daily_quota_after_a_day(bench: Bench) -> None:
    before = await quotas.read_pre_sync_state(bench.database, ["scripted"])
    reports = [QuotaReport("scripted", remaining=40, limit_per_day=100)]
    assert await quotas.record_sync(bench.database, bench.clock, reports, before)
    await a_queued_campaign(bench, 200)
    found = await a_forecast(bench, providers=["scripted"])
    [forecasted] = found.campaigns
    assert [(segment.sent, segment.reason) for segment in forecasted.segments] == [
        (40, None),
        (0, "quota_exhausted"),
        (100, None),
        (0, "quota_exhausted"),
        (60, None),
    ]
    assert ForecastAssumption.DAILY_QUOTA in found.assumptions


async def test_forecast_does_not_renew_an_unknown_quota(bench: Bench) -> None:
    before = await quotas.read_pre_sync_state(bench.database, ["scripted"])
    assert await quotas.record_sync(bench.database, bench.clock, [QuotaReport("scripted", remaining=40)], before)
    await a_queued_campaign(bench, 200)
    [forecasted] = (await a_forecast(bench, providers=["scripted"])).campaigns
    assert forecasted.finishes_at is None
    assert [(segment.sent, segment.reason) for segment in forecasted.segments] == [(40, None), (0, "quota_exhausted")]


@pytest.mark.parametrize(("percent", "sentences"), [(10, RESERVED), (0, UNRESERVED)])
async def test_reserve_stands_beside_quota_and_domains(bench: Bench, percent: int, sentences: list[str]) -> None:
    before = await quotas.read_pre_sync_state(bench.database, ["scripted"])
    reports = [QuotaReport("scripted", remaining=400, limit_per_day=500)]
    assert await quotas.record_sync(bench.database, bench.clock, reports, before)
    limits, domains = (
        Limits(rate_per_hour=100, reserve_percent=percent),
        parse_domain_limits("gmail.com=20/s, *=30/s 5c"),
    )
    defaults = DefaultLimits(limits, {"scripted": None}, domains=domains)
    found = await forecast(bench.database, bench.clock, defaults, tenant_id=DEFAULT_TENANT)
    assert [bulk_limit_text(each) for each in found.limits] == sentences
    polled = await queue_progress(bench.database, bench.clock, defaults, tenant_id=DEFAULT_TENANT)
    assert polled.limits == found.limits
    bench.clock.advance(2 * DAY)  # The report is too old.
    later = await forecast(bench.database, bench.clock, defaults, tenant_id=DEFAULT_TENANT)
    assert [each.name for each in later.limits] == ["rate_per_hour", "domain_limit", "domain_limit"]


async def test_forecast_shows_only_the_tenants_own_campaigns(bench: Bench) -> None:
    other = await a_tenant(bench.database, "other")
    mine = await a_queued_campaign(bench, 10)
    await a_queued_campaign(bench, 10, tenant_id=other)
    found = await a_forecast(bench, tenant_id=DEFAULT_TENANT)
    assert [forecasted.campaign_id for forecasted in found.campaigns] == [mine.campaign_id]


async def test_forecast_of_an_empty_queue_assumes_a_rate(bench: Bench) -> None:
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    found = await forecast(bench.database, bench.clock, defaults, tenant_id=None)
    assert (found.campaigns, found.rate, found.is_rate_measured) == ((), ASSUMED_RATE, False)
    assert ForecastAssumption.ASSUMED_RATE in found.assumptions


async def test_idle_forecast_uses_the_highest_recent_rate(bench: Bench) -> None:
    registry = WorkerRegistry(bench.database, bench.clock, "w")
    for sent in (0, 300):
        await registry.report(WorkerPresence("scripted", sent=sent))
        bench.clock.advance(SECOND)
    bench.clock.advance(HOUR)
    await registry.report(WorkerPresence("scripted", sent=300))
    await a_queued_campaign(bench, 150)
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    found = await forecast(bench.database, bench.clock, defaults, tenant_id=None)
    assert (found.rate, found.workers, found.is_rate_measured) == (300, 1, False)
    assert ForecastAssumption.LAST_RATE in found.assumptions
    assert found.campaigns[0].finishes_at == bench.clock.now() + SECOND // 2
    bench.clock.advance(8 * DAY)  # The learned rate has expired, and the worker has ended.
    found = await forecast(bench.database, bench.clock, defaults, tenant_id=None)
    assert (found.rate, found.workers) == (ASSUMED_RATE, 0)
    assert found.assumptions[0] is ForecastAssumption.NO_WORKER


async def admit(bench: Bench, messages: int) -> None:
    """Let a worker that does not report claim messages and reserve their permits."""
    worker = await bench.worker(ScriptedProvider(), "dead")
    batch = await worker.parts.claims.claim(messages)
    assert len(await worker.parts.gate.admit(worker.parts.claims, batch)) == messages


async def test_permits_of_a_killed_worker_count_once(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=12)
    await a_queued_campaign(bench, 12)
    await admit(bench, 3)
    bench.clock.advance(15 * SECOND)
    [found] = (await a_forecast(bench)).campaigns
    assert found.finishes_at is not None
    assert found.finishes_at < bench.clock.now() + MINUTE


async def test_permits_taken_during_a_forecast_do_not_change_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await change_tenant(bench.database, rate_per_hour=12)
    await a_queued_campaign(bench, 12)

    async def admit_meanwhile(database: Database, now: Instant) -> list[WorkerPresence]:
        await admit(bench, 6)
        return await list_present(database, now)

    monkeypatch.setattr("mailwright.sources.campaigns.forecast.list_present", admit_meanwhile)
    [found] = (await a_forecast(bench)).campaigns
    assert found.finishes_at is not None
    assert found.finishes_at < bench.clock.now() + MINUTE
