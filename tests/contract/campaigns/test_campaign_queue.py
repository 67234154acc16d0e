"""The campaign queue and its limits, on both engines, with and without Valkey, on a manual clock."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import select, update

from mailwright.demo.mailouts import RECIPIENTS, load_mailout
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, ManualClock
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.explanation import LimitScope, ReachedLimit
from mailwright.domain.message import Source
from mailwright.domain.permits import Limits
from mailwright.domain.provider_routes import ClaimScope, ProviderRoutes
from mailwright.domain.states import Priority, Status
from mailwright.outbox import claim, quotas
from mailwright.outbox.accept import accept_select
from mailwright.outbox.audit import audit
from mailwright.outbox.defer import defer_lane
from mailwright.outbox.limits import DefaultLimits, load_limit_rules
from mailwright.outbox.message_records import MessageSearch, search
from mailwright.outbox.quotas import PreSyncState, QuotaReport
from mailwright.outbox.workers import sending_rate
from mailwright.sources.campaigns import enqueue, progress
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.forecast_values import ForecastAssumption
from mailwright.storage.tables import deliveries, lane_deferrals, messages
from mailwright.worker import gate
from mailwright.worker.worker import Worker
from tests.builders import DEFAULT_TENANT, LOCK_TTL, Bench, a_bench, a_message, a_tenant, change_tenant
from tests.campaigns import OPERATOR, CampaignHarness, a_definition, address_of, join
from tests.conftest import DatabaseAddress
from tests.engines import Valkey, valkey_server
from tests.standins.provider import ScriptedProvider

Routes = dict[tuple[int, Source | None], str | None]
NO_SYNC_YET = PreSyncState(previous_sync=None, counted_before=0, in_flight=0)


@pytest.fixture(params=["database", "valkey"])
async def desk(
    request: pytest.FixtureRequest, engine: DatabaseAddress, clock: ManualClock
) -> AsyncIterator[CampaignHarness]:
    with_valkey: Valkey | None = request.getfixturevalue("valkey") if request.param == "valkey" else None
    async with a_bench(engine.url, clock, redis_url=with_valkey.url if with_valkey else None) as bench:
        yield CampaignHarness(bench)
        assert (await audit(bench.database)).ok


async def drain(bench: Bench, provider: ScriptedProvider, workers: int) -> None:
    """Run several workers in parallel until nothing is due."""
    made = [await bench.worker(provider, f"worker-{number}", window=8) for number in range(workers)]
    async with asyncio.timeout(120):
        await asyncio.gather(*(worker.run(drain=True) for worker in made))


def recipients(provider: ScriptedProvider) -> list[str]:
    return [message.recipients[0] for message in provider.messages]


# Limits and the queue.


@pytest.mark.parametrize("workers", [1, 4])
async def test_hourly_limit_sends_the_rest_at_the_next_hour(desk: CampaignHarness, workers: int) -> None:
    desk.clock.advance(10 * MINUTE)
    campaign_id = await desk.start(60, limits={"ratePerHour": 40})
    provider = ScriptedProvider()
    await drain(desk.bench, provider, workers)
    await desk.bench.drain(provider)  # one worker returned permits after the others had stopped
    assert len(provider.messages) == 40
    assert await desk.deferral(campaign_id) == ("rate_per_hour", 50 * MINUTE)
    place, poll = await desk.position(campaign_id), await desk.progress()
    assert (place.status, place.campaign_status) == ("PENDING", "SENDING")
    assert (poll.reason, poll.next_run_at) == ("rate_per_hour", desk.clock.now() + 50 * MINUTE)
    assert poll.counts is not None
    assert (poll.counts.sent, poll.counts.waiting, poll.counts.percent) == (40, 20, 66.7)

    desk.clock.advance(50 * MINUTE - 1)
    await drain(desk.bench, provider, workers)
    assert len(provider.messages) == 40
    desk.clock.advance(1)
    await drain(desk.bench, provider, workers)
    assert len(set(recipients(provider))) == len(provider.messages) == 60
    assert await desk.status(campaign_id) == "SENT"


async def test_used_daily_limit_waits_for_the_next_opening(desk: CampaignHarness) -> None:
    """The manual clock starts at 08:00 UTC."""
    campaign_id = await desk.start(30, limits={"dailyLimit": 20})
    provider = ScriptedProvider()
    await drain(desk.bench, provider, 4)
    await desk.bench.drain(provider)  # one worker returned permits after the others had stopped
    assert len(provider.messages) == 20
    assert await desk.deferral(campaign_id) == ("daily_limit", DAY + HOUR)
    desk.clock.advance(DAY + HOUR)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 30


async def test_exhausted_quota_defers_until_the_next_sync(desk: CampaignHarness) -> None:
    told = QuotaReport("scripted", remaining=0)
    await quotas.record_sync(desk.database, desk.clock, [told], NO_SYNC_YET)
    campaign_id = await desk.start(5)
    provider = ScriptedProvider()
    await drain(desk.bench, provider, 4)
    assert provider.messages == []
    assert await desk.deferral(campaign_id) == ("quota_exhausted", 5 * MINUTE)
    desk.clock.advance(5 * MINUTE)
    before = await quotas.read_pre_sync_state(desk.database, ["scripted"])
    await quotas.record_sync(desk.database, desk.clock, [QuotaReport("scripted", remaining=3)], before)
    await drain(desk.bench, provider, 4)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 3
    assert (await desk.deferral(campaign_id))[0] == "quota_exhausted"


@pytest.mark.promise("campaign-each-once")
@pytest.mark.parametrize("workers", [2, 4])
async def test_several_workers_send_each_campaign_message_once(
    desk: CampaignHarness, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueue, "BATCH_SIZE", 20)
    campaign_id = await desk.start(100)
    provider = ScriptedProvider()
    await drain(desk.bench, provider, workers)
    await desk.bench.drain(provider)
    assert sorted(recipients(provider)) == [address_of(number) for number in range(100)]
    assert await desk.status(campaign_id) == "SENT"


async def test_progress_shows_the_active_campaign_and_the_queue(desk: CampaignHarness) -> None:
    assert (await desk.progress()).active is None
    first = await desk.start(20, name="First", limits={"ratePerHour": 5})
    second = await desk.start(name="Second", limits={"ratePerHour": 10})
    third = await desk.start(name="Third", scheduledAt=desk.clock.now() + 3 * HOUR)
    poll = await desk.progress()
    assert poll.active is not None
    assert (poll.active.name, poll.active.status, poll.queued) == ("First", "PENDING", 2)
    assert poll.reason == "no_worker"
    assert poll.next_campaign_at is not None
    assert poll.next_campaign_at <= desk.clock.now() + SECOND  # the second one follows when the first is deferred

    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert len(provider.messages) == 15  # the deferred campaign does not block the next one
    poll = await desk.progress()
    assert poll.active is not None
    assert (poll.active.campaign_id, poll.active.status, poll.queued) == (first, "PENDING", 2)
    assert (poll.reason, poll.next_run_at, poll.eta) == ("rate_per_hour", desk.clock.now() + HOUR, None)
    assert await desk.deferral(second) == ("rate_per_hour", HOUR)
    assert await desk.deferral(third) == ("scheduled", 3 * HOUR)
    assert await desk.status(third) == "READY"

    desk.clock.advance(3 * HOUR)
    await desk.bench.drain(provider)
    assert await desk.status(third) == "SENT"
    assert await desk.status(second) == "SENT"


async def test_next_campaign_without_worker_starts_as_forecast(desk: CampaignHarness) -> None:
    """The forecast assumes that a worker starts now, and the poll says so."""
    await change_tenant(desk.database, rate_per_hour=10)
    await desk.start(15, name="First")
    second = await desk.start(name="Second")
    poll = await desk.progress()
    found = await forecast(desk.database, desk.clock, desk.bench.engine.defaults, tenant_id=DEFAULT_TENANT)
    [expected] = [each.starts_at for each in found.campaigns if each.campaign_id == second]
    assert (poll.reason, poll.next_campaign_reason) == ("no_worker", "no_worker")
    assert ForecastAssumption.NO_WORKER in found.assumptions
    assert expected is not None
    assert poll.next_campaign_at == expected >= desk.clock.now() + HOUR  # the first one needs two hours

    await desk.bench.drain(ScriptedProvider())
    poll = await desk.progress()
    assert (poll.reason, poll.next_campaign_reason) == ("rate_per_hour", "queued")
    assert poll.next_campaign_at is not None
    assert 0 <= poll.next_campaign_at - desk.clock.now() - HOUR < SECOND


async def test_paused_campaign_has_no_start_but_a_reason(desk: CampaignHarness) -> None:
    await desk.start(5, name="First", limits={"ratePerHour": 1})
    paused = await desk.start(name="Paused")
    await desk.campaigns.pause(OPERATOR, paused)
    await desk.bench.drain(ScriptedProvider())
    poll = await desk.progress()
    assert (poll.queued, poll.next_campaign_at, poll.next_campaign_reason) == (1, None, "paused")
    found = await forecast(desk.database, desk.clock, desk.bench.engine.defaults, tenant_id=DEFAULT_TENANT)
    assert [each.starts_at for each in found.campaigns if each.campaign_id == paused] == [None]

    await desk.start(name="Third", scheduledAt=desk.clock.now() + DAY)  # a paused campaign holds up no other
    poll = await desk.progress()
    assert (poll.queued, poll.next_campaign_reason) == (2, "scheduled")
    assert poll.next_campaign_at == desk.clock.now() + DAY


# Several campaigns.


async def test_campaigns_are_sent_in_the_order_of_their_starts(desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(number) for number in range(30)])
    plain = {"body": "<p>{{ unsubscribe_url }}</p>"}
    for subject in ("One", "Two", "Three"):
        await desk.start(content={**plain, "subject": subject})
    provider = ScriptedProvider()
    await desk.bench.drain(provider, window=1)
    order = [
        subject
        for message in provider.messages
        for subject in ("One", "Two", "Three")
        if f"Subject: {subject}".encode() in message.content
    ]
    assert order == ["One"] * 30 + ["Two"] * 30 + ["Three"] * 30


async def test_tightest_of_tenant_and_campaign_limits_applies(desk: CampaignHarness) -> None:
    await change_tenant(desk.database, rate_per_hour=30)
    tight = await desk.start(50, limits={"ratePerHour": 10})
    loose = await desk.start(limits={"ratePerHour": 1_000})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert (await desk.counts(tight)).sent == 10
    assert (await desk.counts(loose)).sent == 20
    other = await a_tenant(desk.database, "other")
    await desk.bench.accept(*(a_message(tenant_id=other, priority=Priority.BULK) for _ in range(5)))
    await desk.bench.drain(provider)
    assert len(provider.messages) == 35


async def test_limit_of_the_installation_is_a_ceiling(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with a_bench(engine.url, clock, rate_per_hour=20) as bench:
        desk = CampaignHarness(bench)
        await change_tenant(bench.database, rate_per_hour=30)
        campaign_id = await desk.start(50)
        provider = ScriptedProvider()
        await bench.drain(provider)
        assert len(provider.messages) == 20
        found = await explain_campaign(bench.database, clock, bench.engine.defaults, campaign_id, tenant_id=None)
        assert found.limit == ReachedLimit("rate_per_hour", LimitScope.INSTALLATION, "default", 20, 20)
        [waiting, *_] = await search(bench.database, DEFAULT_TENANT, MessageSearch(status=Status.PENDING), limit=1)
        assert waiting.next_attempt_at == clock.now() + HOUR
        assert (await bench.record(waiting.outbox_id)).summary.next_attempt_at == clock.now() + HOUR
        await desk.campaigns.pause(OPERATOR, campaign_id)
        assert (await bench.record(waiting.outbox_id)).summary.next_attempt_at is None


async def test_edited_limits_apply_at_once(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(50, limits={"ratePerHour": 10})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert len(provider.messages) == 10
    await desk.edit_limits(campaign_id, ratePerHour=25)
    assert await desk.deferral(campaign_id) == (None, None)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 25
    await desk.edit_limits(campaign_id)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 50
    assert await desk.audit_actions(campaign_id) == ["create", "start", "edit_limits", "edit_limits"]


async def test_campaign_is_sent_only_in_its_working_hours(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(5, limits={"workingHours": "10:00-12:00", "timezone": "Europe/Lisbon"})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert provider.messages == []
    assert await desk.deferral(campaign_id) == ("outside_hours", 2 * HOUR)
    desk.clock.advance(2 * HOUR)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 5


async def test_working_hours_can_follow_each_recipients_time_zone(desk: CampaignHarness) -> None:
    await join(desk.database, ["lisbon@example.com"], timezone="Europe/Lisbon")
    await join(desk.database, ["berlin@example.com", "rome@example.com"], timezone="Europe/Berlin")
    await join(desk.database, ["tokyo@example.com"], timezone="Asia/Tokyo")
    await join(desk.database, ["anywhere@example.com", "nonsense@example.com"], timezone=None)
    limits = {"workingHours": "09:00-12:00", "timezone": "UTC", "inReadersTimeZone": True, "ratePerHour": 3}
    campaign_id = await desk.start(limits=limits)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)  # 08:00 in Lisbon, 09:00 in Berlin, 17:00 in Tokyo
    assert recipients(provider) == ["berlin@example.com", "rome@example.com"]
    assert await desk.deferral(campaign_id) == ("outside_hours", HOUR)  # all wait; the first one for an hour
    desk.clock.advance(HOUR)
    await desk.bench.drain(provider)
    assert sorted(recipients(provider)[2:]) == ["anywhere@example.com", "lisbon@example.com", "nonsense@example.com"]
    desk.clock.advance(15 * HOUR)
    await desk.bench.drain(provider)
    assert recipients(provider)[5:] == ["tokyo@example.com"]
    assert await desk.status(campaign_id) == "SENT"


async def test_campaign_warm_up_doubles_each_day(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(200, limits={"warmup": True})
    provider = ScriptedProvider()
    for sent in (50, 150):
        await desk.bench.drain(provider)
        assert len(provider.messages) == sent
        reason, until = await desk.deferral(campaign_id)
        assert reason == "warmup"
        desk.clock.advance(until or 0)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 200


# While a worker is busy: it has just read the limits, and the clock does not move.


async def test_busy_worker_applies_limits_of_a_new_campaign(desk: CampaignHarness) -> None:
    provider = ScriptedProvider()
    worker = await desk.bench.worker(provider)
    await desk.bench.accept(a_message())
    await worker.run(drain=True)
    campaign_id = await desk.start(30, limits={"dailyLimit": 10})
    await Worker(worker.parts, worker.settings).run(drain=True)
    assert len(provider.messages) == 1 + 10
    assert (await desk.deferral(campaign_id))[0] == "daily_limit"


async def test_resent_message_of_a_completed_campaign_keeps_its_limits(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(10, limits={"dailyLimit": 10})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert await desk.status(campaign_id) == "SENT"
    lane = (await desk.position(campaign_id)).lane
    defaults = DefaultLimits(Limits())
    assert lane not in (await load_limit_rules(desk.database, defaults)).campaigns
    rules = await load_limit_rules(desk.database, defaults, [lane])
    assert [level.limits.daily_limit for level in rules.levels(DEFAULT_TENANT, lane)] == [None, 10]


async def test_busy_worker_does_not_apply_a_lifted_limit(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(30, limits={"dailyLimit": 10})
    provider = ScriptedProvider()
    worker = await desk.bench.worker(provider)
    await worker.run(drain=True)
    assert len(provider.messages) == 10
    await desk.edit_limits(campaign_id)
    await Worker(worker.parts, worker.settings).run(drain=True)
    assert len(provider.messages) == 30


async def test_limit_lifted_during_its_deferral_defers_nothing(
    desk: CampaignHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_id = await desk.start(30, limits={"dailyLimit": 10})
    lifted = []

    async def hold(*of_lane: Any) -> None:
        if not lifted:
            lifted.append(campaign_id)
            await desk.edit_limits(campaign_id)
        await defer_lane(*of_lane)

    monkeypatch.setattr(gate, "defer_lane", hold)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert len(provider.messages) == 30


# Long runs.


async def test_running_worker_sends_new_campaigns_and_reports_its_rate(desk: CampaignHarness) -> None:
    provider = ScriptedProvider()
    worker = await desk.bench.worker(provider, source_duty_seconds=0.01, poll_seconds=0.01)
    run = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(60):
            await asyncio.sleep(0.05)
            campaign_id = await desk.start(40)
            await provider.has(40)
            while await desk.status(campaign_id) != "SENT":
                await asyncio.sleep(0.01)
            desk.clock.advance(10 * SECOND)
            while (rate := await sending_rate(desk.database, desk.clock.now())) == 0:
                await asyncio.sleep(0.01)
        assert rate == pytest.approx(4.0)
    finally:
        worker.stop()
        await run


async def test_failing_campaign_does_not_stop_the_others(
    desk: CampaignHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = await desk.start(10)
    whole = await desk.start()
    key = (await desk.campaign(broken)).key

    async def fail(*arguments: Any, campaign_key: int, **options: Any) -> int:
        if campaign_key == key:
            raise ValueError("nobody thought of this")
        return await accept_select(*arguments, campaign_key=campaign_key, **options)

    monkeypatch.setattr(enqueue, "accept_select", fail)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert await desk.status(whole) == "SENT"
    assert await desk.status(broken) == "READY"
    assert await desk.deferral(broken) == ("enqueue_failed", MINUTE)


@pytest.mark.promise("limits-never-exceeded")
async def test_limits_hold_when_valkey_dies_during_a_campaign(engine: DatabaseAddress, clock: ManualClock) -> None:
    with valkey_server() as valkey:
        async with a_bench(engine.url, clock, redis_url=valkey.url) as bench:
            desk = CampaignHarness(bench)
            campaign_id = await desk.start(150, limits={"ratePerHour": 100})
            provider = ScriptedProvider()
            provider.hold()
            workers = [await bench.worker(provider, name, window=8, claim_batch=8) for name in ("a", "b")]
            runs = [asyncio.create_task(worker.run(drain=True)) for worker in workers]
            await provider.has(7)  # Bulk leaves one of eight for transactional messages.
            valkey.kill()
            provider.let_go()
            async with asyncio.timeout(120):
                await asyncio.gather(*runs)
                await bench.drain(provider)
            # Permits that were lost with Valkey make the count too low, never too high.
            assert 80 <= len(provider.messages) <= 100
            assert (await desk.deferral(campaign_id))[0] == "rate_per_hour"
            clock.advance(HOUR)
            await bench.drain(provider)
            assert len(set(recipients(provider))) == len(provider.messages) == 150


async def test_progress_shows_only_the_tenants_own_campaigns(desk: CampaignHarness) -> None:
    other = await a_tenant(desk.database, "other")
    await join(desk.database, ["ann@example.com"], tenant_id=other)
    theirs = await desk.campaigns.create(OPERATOR, other, a_definition())
    await desk.campaigns.start(type(OPERATOR)("console", None), theirs.campaign_id)
    poll = await desk.progress()
    assert (poll.active, poll.queued) == (None, 0)


async def test_campaign_rate_excludes_other_tenants(desk: CampaignHarness) -> None:
    await desk.start(50, limits={"ratePerHour": 20})
    other = await a_tenant(desk.database, "other")
    await desk.bench.accept(*(a_message(tenant_id=other) for _ in range(100)))
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert len(provider.messages) == 120
    assert (await desk.progress()).rate == 2.0  # twenty in the last ten seconds
    desk.clock.advance(10 * SECOND)
    assert (await desk.progress()).rate == 0.0


async def test_moved_campaign_is_sent_in_its_new_place(desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(number) for number in range(3)])
    first, second, third = [await desk.start(name=name) for name in ("First", "Second", "Third")]
    await desk.run_scheduler()
    assert (await desk.campaigns.move(OPERATOR, third, 1))[1] == 1
    assert (await desk.campaigns.move(OPERATOR, first, 99))[1] == 3
    async with desk.database.read() as tx:
        queue = await progress.list_positions(tx, tenant_id=DEFAULT_TENANT)
    assert [position.campaign_id for position in queue] == [third, second, first]
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    async with desk.database.read() as tx:
        rows = await tx.execute(select(messages.c.outbox_id, messages.c.request_id))
    campaign_of = {row.outbox_id: row.request_id for row in rows}
    sent = list(dict.fromkeys(campaign_of[message.outbox_id] for message in provider.messages))
    assert sent == [third, second, first]
    with pytest.raises(NotPossibleNow):
        await desk.campaigns.move(OPERATOR, third, 2)


async def two_limited_campaigns(desk: CampaignHarness) -> tuple[str, str]:
    """Start two campaigns of which one message may be sent in an hour."""
    await change_tenant(desk.database, rate_per_hour=1)
    first = await desk.start(2, name="First")
    second = await desk.start(name="Second")
    await desk.run_scheduler()
    return first, second


async def lane_of(desk: CampaignHarness, campaign_id: str) -> int:
    return (await desk.position(campaign_id)).lane


async def test_returned_permit_goes_to_the_first_campaign(desk: CampaignHarness) -> None:
    """Another worker than the one that deferred the campaign returns the permit."""
    first, _ = await two_limited_campaigns(desk)
    one, other = [(await desk.bench.worker(ScriptedProvider(), name)).parts for name in ("one", "other")]
    admitted = await one.gate.admit(one.claims, await one.claims.claim(1))
    assert await other.gate.admit(other.claims, await other.claims.claim(1)) == []
    assert (await desk.deferral(first))[0] == "rate_per_hour"
    await one.gate.give_back(message.claimed for message in admitted)
    await one.claims.release(message.claimed for message in admitted)
    claimed = await other.claims.claim(1)
    assert [message.lane for message in claimed] == [await lane_of(desk, first)]
    assert len(await other.gate.admit(other.claims, claimed)) == 1


async def test_permit_returned_during_a_deferral_reopens_the_campaign(
    desk: CampaignHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await two_limited_campaigns(desk)
    one, other = [(await desk.bench.worker(ScriptedProvider(), name)).parts for name in ("one", "other")]
    admitted = await one.gate.admit(one.claims, await one.claims.claim(1))

    async def return_then_defer(*args: Any) -> None:
        await one.gate.give_back(message.claimed for message in admitted)
        await one.claims.release(message.claimed for message in admitted)
        await defer_lane(*args)

    with monkeypatch.context() as during:
        during.setattr(gate, "defer_lane", return_then_defer)
        assert await other.gate.admit(other.claims, await other.claims.claim(1)) == []
    claimed = await one.claims.claim(1)
    assert [message.lane for message in claimed] == [await lane_of(desk, first)]


def claims_of(desk: CampaignHarness, name: str, rules: Routes, provider: str | None = None) -> claim.Claims:
    return claim.Claims(desk.database, desk.clock, name, LOCK_TTL, ClaimScope(ProviderRoutes(rules), provider))


@pytest.mark.parametrize("source", [None, Source.NOTIFICATION, Source.MAILOUT])
async def test_released_message_keeps_the_turn_of_its_campaign(
    desk: CampaignHarness, monkeypatch: pytest.MonkeyPatch, source: Source | None
) -> None:
    """Another worker releases the message after the due campaigns were read, and before the later one is claimed.

    Another provider may send the messages of another source.
    """
    first = await desk.start(1, name="First")
    await desk.start(name="Second")
    await desk.run_scheduler()
    rules = {} if source is None else {(DEFAULT_TENANT, source): "acme"}
    one, other = [claims_of(desk, name, rules) for name in ("one", "other")]
    claimed = await one.claim(1)
    due_lanes = claim._due_lanes

    async def read_then_release(tx: Any, now: Any) -> Any:
        lanes = await due_lanes(tx, now)
        if desk.database.dialect == "postgresql":
            await one.release(claimed)
        return lanes

    with monkeypatch.context() as during:
        during.setattr(claim, "_due_lanes", read_then_release)
        assert await other.claim(1) == []
    if desk.database.dialect == "sqlite":  # which has one writer, so nobody can release meanwhile
        await one.release(claimed)
    assert [message.lane for message in await other.claim(1)] == [await lane_of(desk, first)]


async def test_mailouts_keep_order_beside_campaigns_of_another_provider(desk: CampaignHarness) -> None:
    await desk.start(1, name="First")
    await desk.run_scheduler()
    for _ in range(2):
        await load_mailout(desk.bench.engine, DEFAULT_TENANT)
    rules: Routes = {(DEFAULT_TENANT, Source.CAMPAIGN): "acme"}
    assert len(await claims_of(desk, "acme", rules, "acme").claim(100)) == 1
    one, other = [claims_of(desk, name, rules) for name in ("one", "other")]
    claimed = await one.claim(100)
    assert len(claimed) == RECIPIENTS
    assert await other.claim(100) == []
    await one.release(claimed)
    assert {each.lane for each in await other.claim(100)} == {each.lane for each in claimed}


async def test_message_in_flight_keeps_the_turn_of_its_campaign(desk: CampaignHarness) -> None:
    """With a limit per second, an attempt begins before the time at which its message leaves."""
    await desk.start(1, name="First")
    second = await desk.start(name="Second")
    await desk.run_scheduler()
    one, other = [(await desk.bench.worker(ScriptedProvider(), name)).parts for name in ("one", "other")]
    await one.claims.claim(1)
    async with desk.database.write() as tx:
        await tx.execute(update(deliveries).where(deliveries.c.locked_by.is_not(None)).values(status="SENT_ATTEMPT"))
    assert await other.claims.claim(1) == []
    async with desk.database.write() as tx:
        sent = {"status": "SENT", "locked_by": None}
        await tx.execute(update(deliveries).where(deliveries.c.locked_by.is_not(None)).values(sent))
    assert [message.lane for message in await other.claims.claim(1)] == [await lane_of(desk, second)]


async def test_admitted_message_of_a_deferred_campaign_keeps_the_turn(desk: CampaignHarness) -> None:
    """The campaign has used up its own hour, and its last message of the hour has not left yet."""
    first = await desk.start(2, name="First", limits={"rate_per_hour": 1})
    second = await desk.start(name="Second")
    await desk.run_scheduler()
    one, other = [(await desk.bench.worker(ScriptedProvider(), name)).parts for name in ("one", "other")]
    assert len(await one.gate.admit(one.claims, await one.claims.claim(1))) == 1
    assert await other.gate.admit(other.claims, await other.claims.claim(1)) == []
    assert (await desk.deferral(first))[0] == "rate_per_hour"
    assert await other.claims.claim(1) == []
    async with desk.database.write() as tx:
        sent = {"status": "SENT", "locked_by": None}
        await tx.execute(update(deliveries).where(deliveries.c.locked_by.is_not(None)).values(sent))
    assert [message.lane for message in await other.claims.claim(1)] == [await lane_of(desk, second)]


async def test_permit_of_an_ended_hour_does_not_reopen_a_campaign(desk: CampaignHarness) -> None:
    """Its working hours end with the hour, and another worker returns a permit of that hour."""
    clock = desk.bench.clock
    clock.advance((17 * HOUR + 30 * MINUTE - clock.now()) % DAY)
    await change_tenant(desk.database, rate_per_hour=1, working_hours="09:00-18:00")
    first = await desk.start(4, name="First")
    await desk.run_scheduler()
    one, other = [(await desk.bench.worker(ScriptedProvider(), name)).parts for name in ("one", "other")]
    held = await other.gate.admit(other.claims, await other.claims.claim(1))
    assert len(held) == 1
    assert await one.gate.admit(one.claims, await one.claims.claim(2)) == []
    clock.advance(31 * MINUTE)
    await other.gate.give_back(message.claimed for message in held)
    await other.claims.release(message.claimed for message in held)
    assert await one.gate.admit(one.claims, await one.claims.claim(2)) == []
    async with desk.database.read() as tx:
        deferred = await tx.execute(select(lane_deferrals.c.lane, lane_deferrals.c.defer_reason))
    assert [tuple(row) for row in deferred] == [(await lane_of(desk, first), "outside_hours")]
