"""The forecast against what really happens: workers on a manual clock, the same limits, both engines."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from sqlalchemy import insert, select, update

from mailwright.app.wiring import default_limits
from mailwright.domain.campaign import INDEFINITELY, PAUSED, SCHEDULED, CampaignStatus
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant, ManualClock
from mailwright.domain.ids import uuid7
from mailwright.domain.lanes import lane_number
from mailwright.domain.states import Priority, Status
from mailwright.outbox import quotas
from mailwright.outbox.defer import defer_lane
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.quotas import QuotaReport
from mailwright.sources.campaigns.entries import CampaignSnapshot
from mailwright.sources.campaigns.forecast import ASSUMED_RATE, Forecast, forecast
from mailwright.sources.campaigns.simulation import CampaignForecast
from mailwright.storage.tables import campaigns, deliveries, lane_deferrals, messages, queue_entries
from tests.builders import DEFAULT_TENANT, Bench, a_bench, a_newsletter, a_tenant, change_tenant
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider

# The clock stands still while real workers send: the forecast is asked for workers that need no time either.
AT_ONCE = 1_000_000.0
ONE_BATCH = 100


@dataclass(frozen=True)
class InLine:
    campaign_id: str
    lane: int


async def in_line(bench: Bench, readers: int, *, tenant_id: int = DEFAULT_TENANT, **limits: Any) -> InLine:
    """A campaign whose audience has become messages."""
    now = bench.clock.now()
    campaign_id = uuid7(now)
    async with bench.database.write() as tx:
        values = {"campaign_id": campaign_id, "tenant_id": tenant_id, "name": f"To {readers}"}
        rest = {"status": CampaignStatus.SENDING, "definition": "{}", "created_at": now, "updated_at": now}
        [campaign] = await tx.execute(insert(campaigns).values(**values, **rest).returning(campaigns.c.id))
        entry: dict[str, Any] = {
            "campaign_key": campaign.id,
            "tenant_id": tenant_id,
            "lane": 0,
            "content": CampaignSnapshot((), {}, (), None).as_text(),
            "limits": orjson.dumps(limits).decode(),
            "planned": readers,
            "processed": readers,
            "recipients": readers,
            "enqueued_to": "z",
            "enqueue_ended_at": now,
            "created_at": now,
        }
        [placed] = await tx.execute(insert(queue_entries).values(**entry).returning(queue_entries.c.id))
        lane = lane_number(Priority.BULK, tenant_id, placed.id)
        await tx.execute(update(queue_entries).where(queue_entries.c.id == placed.id).values(lane=lane))
    ids = await bench.accept(*(a_newsletter(tenant_id=tenant_id) for _ in range(readers)))
    async with bench.database.write() as tx:
        mine = select(messages.c.id).where(messages.c.outbox_id.in_(ids))
        await tx.execute(update(deliveries).where(deliveries.c.message_key.in_(mine)).values(lane=lane))
    return InLine(campaign_id, lane)


async def foreseen(bench: Bench, *, providers: Sequence[str] = (), tenant_id: int | None = None) -> Forecast:
    defaults = DefaultLimits(default_limits(bench.engine.settings), dict.fromkeys(providers))
    return await forecast(bench.database, bench.clock, defaults, tenant_id=tenant_id, measured_rate=AT_ONCE)


async def really(bench: Bench, line: Sequence[InLine], within: Instant) -> dict[int, list[tuple[Instant, int]]]:
    """Runs workers whenever a hold ends, and notes how many of each lane had gone at each moment."""
    ends_at = bench.clock.now() + within
    seen: dict[int, list[tuple[Instant, int]]] = {each.lane: [] for each in line}
    provider = ScriptedProvider()
    while True:
        await bench.drain(provider)
        async with bench.database.read() as tx:
            rows = await tx.execute(select(deliveries.c.lane, deliveries.c.status))
            until = [row.deferred_until for row in await tx.execute(select(lane_deferrals))]
        for lane, story in seen.items():
            story.append((bench.clock.now(), sum(row.lane == lane and row.status == Status.SENT for row in rows)))
        coming = [moment for moment in until if bench.clock.now() < moment <= ends_at]
        if not coming or all(row.status == Status.SENT for row in rows):
            return seen
        bench.clock.advance(min(coming) - bench.clock.now())


def sent_by(course: CampaignForecast, moment: Instant) -> int:
    """How many the forecast says are sent shortly after this moment."""
    return sum(span.sent for span in course.segments if span.begins_at <= moment)


async def compared(bench: Bench, line: Sequence[InLine], within: Instant, **how: Any) -> None:
    told = await foreseen(bench, **how)
    courses = {course.campaign_id: course for course in told.campaigns}
    stories = await really(bench, line, within)
    worst = 0
    for each in line:
        course, story = courses[each.campaign_id], stories[each.lane]
        finished_at = next((moment for moment, sent in story if sent == course.remaining), None)
        if finished_at is not None:
            assert course.finishes_at is not None
            assert abs(course.finishes_at - finished_at) <= MINUTE, (course, story)
        began_at = next((moment for moment, sent in story if sent), None)
        if began_at is not None:
            assert course.starts_at is not None
            assert abs(course.starts_at - began_at) <= MINUTE, (course, story)
        if all(span.sent == 0 or span.reason is None for span in course.segments):  # no day was told with others
            worst = max(worst, *(abs(sent_by(course, moment + SECOND) - sent) for moment, sent in story))
    print(f"the forecast and the workers differ by at most {worst} mails at any moment")
    assert worst <= ONE_BATCH


@pytest.mark.promise("forecast-comes-true")
async def test_a_hundred_and_fifty_at_a_hundred_an_hour(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=100)
    line = [await in_line(bench, 150), await in_line(bench, 30)]
    [first, second] = (await foreseen(bench)).campaigns
    now = bench.clock.now()
    assert [(span.sent, span.reason) for span in first.segments] == [(100, None), (0, "rate_per_hour"), (50, None)]
    assert (first.segments[1].ends_at, second.segments[0].reason) == (now + HOUR, "in_line")
    await compared(bench, line, DAY)


@pytest.mark.promise("forecast-comes-true")
@pytest.mark.parametrize("number", range(5))
async def test_whatever_the_limits_workers_do_what_was_foretold(bench: Bench, number: int) -> None:
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
    line = []
    for _ in range(chance.randint(2, 4)):
        own = {"rate_per_hour": chance.choice([None, 25]), "daily_limit": chance.choice([None, 60])}
        tenant_id = chance.choice([DEFAULT_TENANT, other])
        line.append(await in_line(bench, chance.randint(20, 130), tenant_id=tenant_id, **own))
    await compared(bench, line, 30 * DAY)


@pytest.mark.promise("forecast-comes-true")
async def test_a_warm_up_is_foretold(bench: Bench) -> None:
    line = [await in_line(bench, 180, warmup=True)]
    [course] = (await foreseen(bench)).campaigns
    assert [span.sent for span in course.segments if span.sent] == [50, 100, 30]
    assert {span.reason for span in course.segments if not span.sent} == {"warmup"}
    await compared(bench, line, 10 * DAY)


@pytest.mark.promise("forecast-comes-true")
async def test_a_sliding_hour_is_foretold(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with a_bench(engine.url, clock, sliding_hour=True) as bench:
        clock.advance(40 * MINUTE)
        await change_tenant(bench.database, rate_per_hour=60)
        line = [await in_line(bench, 100)]
        await compared(bench, line, DAY)


async def test_the_forecast_begins_with_what_the_counters_stand_at(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=100)
    await bench.accept(*(a_newsletter() for _ in range(70)))
    await bench.drain(ScriptedProvider())
    line = [await in_line(bench, 50)]
    [course] = (await foreseen(bench)).campaigns
    assert [span.sent for span in course.segments] == [30, 0, 20]
    await compared(bench, line, DAY)


async def test_what_waits_for_a_person_or_for_its_hour_is_told_with_its_reason(bench: Bench) -> None:
    now = bench.clock.now()
    paused, scheduled = await in_line(bench, 10), await in_line(bench, 10)
    await defer_lane(bench.database, paused.lane, PAUSED, INDEFINITELY)
    await defer_lane(bench.database, scheduled.lane, SCHEDULED, now + 3 * DAY)
    [first, second] = (await foreseen(bench)).campaigns
    assert (first.starts_at, first.finishes_at, first.segments[0].reason) == (None, None, "paused")
    assert (second.starts_at, second.segments[0].reason) == (now + 3 * DAY, "scheduled")
    assert second.finishes_at is not None


async def test_a_daily_quota_is_taken_to_open_again_a_day_later(bench: Bench) -> None:
    before = await quotas.read_pre_sync_state(bench.database, ["scripted"])
    told = [QuotaReport("scripted", remaining=40, limit_per_day=100)]
    assert await quotas.record_sync(bench.database, bench.clock, told, before)
    await in_line(bench, 200)
    found = await foreseen(bench, providers=["scripted"])
    [course] = found.campaigns
    assert [(span.sent, span.reason) for span in course.segments] == [
        (40, None),
        (0, "quota_exhausted"),
        (100, None),
        (0, "quota_exhausted"),
        (60, None),
    ]
    assert any("quota" in assumption for assumption in found.assumptions)


async def test_a_quota_that_nobody_knows_the_end_of_is_not_guessed(bench: Bench) -> None:
    before = await quotas.read_pre_sync_state(bench.database, ["scripted"])
    assert await quotas.record_sync(bench.database, bench.clock, [QuotaReport("scripted", remaining=40)], before)
    await in_line(bench, 200)
    [course] = (await foreseen(bench, providers=["scripted"])).campaigns
    assert course.finishes_at is None
    assert [(span.sent, span.reason) for span in course.segments] == [(40, None), (0, "quota_exhausted")]


async def test_a_tenant_sees_its_own_campaigns_only_though_others_share_the_workers(bench: Bench) -> None:
    other = await a_tenant(bench.database, "other")
    mine = await in_line(bench, 10)
    await in_line(bench, 10, tenant_id=other)
    found = await foreseen(bench, tenant_id=DEFAULT_TENANT)
    assert [course.campaign_id for course in found.campaigns] == [mine.campaign_id]


async def test_an_empty_line_and_an_unknown_rate_are_told_as_such(bench: Bench) -> None:
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    found = await forecast(bench.database, bench.clock, defaults, tenant_id=None)
    assert (found.campaigns, found.rate, found.is_rate_measured) == ((), ASSUMED_RATE, False)
    assert any("assumed" in assumption for assumption in found.assumptions)
