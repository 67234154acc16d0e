"""Guard rails: campaigns with too many hard bounces or complaints are warned about, slowed down or stopped."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete, func, select, update

from mailwright.app.limits import default_limits
from mailwright.domain.bounce import BounceKind
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import DAY, HOUR, MINUTE
from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.domain.guard_rails import DEFAULT_GUARD_RAILS
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType, Status
from mailwright.outbox import tenants
from mailwright.outbox.limits import DefaultLimits
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.failures import CampaignFailures
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.guard_actions import CampaignGuardActions
from mailwright.sources.campaigns.guard_rails import CampaignGuard
from mailwright.storage.tables import campaigns, deliveries, events, lane_deferrals, messages, queue_entries
from mailwright.texts.explanations import campaign_text
from tests.builders import REFUSAL, Bench, a_message
from tests.campaigns import OPERATOR, CampaignHarness
from tests.standins.provider import ScriptedProvider

# The daily limit begins again at 09:00 of the next day.
NEXT_DAY = DAY + 2 * HOUR
UNKNOWN_ADDRESS = replace(REFUSAL, bounce=BounceKind.HARD)


@pytest.fixture
def desk(bench: Bench) -> CampaignHarness:
    return CampaignHarness(bench)


@pytest.fixture
def guard(bench: Bench) -> CampaignGuardActions:
    return CampaignGuardActions(bench.database, bench.clock, DEFAULT_GUARD_RAILS)


async def sent_ids(desk: CampaignHarness, campaign_id: str) -> list[str]:
    """Return the outbox ids of the campaign's messages that were sent, in the order of creation."""
    campaign = await desk.campaign(campaign_id)
    query = (
        select(messages.c.outbox_id)
        .join(deliveries, deliveries.c.message_key == messages.c.id)
        .where(messages.c.campaign_key == campaign.key, deliveries.c.status == Status.SENT)
    )
    async with desk.database.read() as tx:
        return [row.outbox_id for row in await tx.execute(query.order_by(messages.c.id))]


async def report(desk: CampaignHarness, ids: list[str], verdict: ContactVerdict, again: str = "") -> None:
    kind = EventType.COMPLAINED if verdict is ContactVerdict.COMPLAINT else EventType.BOUNCED
    async with desk.database.read() as tx:
        mine = messages.c.outbox_id.in_(ids)
        rows = await tx.execute(select(messages.c.outbox_id, messages.c.to_email).where(mine))
    at = desk.clock.now()
    reports = [
        Report(f"{kind}-{row.outbox_id}{again}", "ses", kind, at, row.to_email, row.outbox_id, verdict=verdict)
        for row in rows
    ]
    await desk.bench.engine.reports.receive(reports)


async def a_sent_campaign(desk: CampaignHarness, sent: int, waiting: int, **changes: Any) -> str:
    """Start a campaign of which some messages are sent and the others wait until the next day."""
    limits = {"dailyLimit": sent, **changes.pop("limits", {})}
    campaign_id = await desk.start(sent + waiting, limits=limits, **changes)
    await desk.bench.drain(ScriptedProvider())
    assert len(await sent_ids(desk, campaign_id)) == sent
    return campaign_id


async def explained(desk: CampaignHarness, campaign_id: str) -> Any:
    defaults = DefaultLimits(default_limits(desk.bench.engine.settings))
    return await explain_campaign(desk.database, desk.clock, defaults, campaign_id, tenant_id=None)


@pytest.mark.promise("guard-rails")
@pytest.mark.parametrize(
    ("verdict", "incidents", "kind"),
    [(ContactVerdict.COMPLAINT, 4, "complaint"), (ContactVerdict.HARD_BOUNCE, 16, "hard_bounce")],
)
async def test_campaign_above_a_threshold_is_stopped_with_its_reason(
    desk: CampaignHarness, verdict: ContactVerdict, incidents: int, kind: str
) -> None:
    campaign_id = await a_sent_campaign(desk, 200, 50)
    await report(desk, (await sent_ids(desk, campaign_id))[:incidents], verdict)
    await desk.run_scheduler()
    desk.clock.advance(NEXT_DAY)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert (await desk.status(campaign_id), len(provider.messages)) == (CampaignStatus.PAUSED, 0)
    assert (await desk.position(campaign_id)).defer_reason == "guard_rails"
    why = await explained(desk, campaign_id)
    assert (why.state, why.reason, why.until) == ("paused", "guard_rails", None)
    assert [action.kind for action in why.actions] == ["resume_campaign", "cancel_campaign"]
    sentence = campaign_text(why).sentence
    assert f"{incidents} {kind.replace('_', ' ')}s among 200 emails" in sentence
    assert (await desk.audit_actions(campaign_id))[-1] == "guard_stop"
    async with desk.database.read() as tx:
        held = await tx.execute(select(events.c.metadata).where(events.c.type == "campaign.held"))
    assert sum('"guard_rails"' in row.metadata and f'"kind":"{kind}"' in row.metadata for row in held) == 1


async def test_one_complaint_among_few_messages_changes_nothing(desk: CampaignHarness) -> None:
    campaign_id = await a_sent_campaign(desk, 10, 10)
    await report(desk, (await sent_ids(desk, campaign_id))[:1], ContactVerdict.COMPLAINT)
    desk.clock.advance(NEXT_DAY)
    await desk.bench.drain(ScriptedProvider())
    assert await desk.status(campaign_id) == CampaignStatus.SENT
    assert "guard_warn" not in await desk.audit_actions(campaign_id)


async def test_repeated_reports_about_a_message_count_once(desk: CampaignHarness, guard: CampaignGuardActions) -> None:
    campaign_id = await a_sent_campaign(desk, 120, 1)
    [first, *_] = await sent_ids(desk, campaign_id)
    for again in ("", "-2", "-3"):
        await report(desk, [first], ContactVerdict.COMPLAINT, again)
    found = await guard.report(campaign_id, tenant_id=None)
    assert (found.counts.messages, found.counts.complaints, found.finding) == (120, 1, None)


async def test_rejections_during_the_send_stop_the_campaign(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(300, limits={"dailyLimit": 150})
    await desk.bench.drain(ScriptedProvider(*[UNKNOWN_ADDRESS] * 30))
    desk.clock.advance(NEXT_DAY)
    await desk.bench.drain(ScriptedProvider())
    counts = await desk.counts(campaign_id)
    assert (await desk.status(campaign_id), counts.failed) == (CampaignStatus.PAUSED, 30)
    assert counts.sent <= 120


@pytest.mark.promise("guard-rails")
async def test_finished_campaign_is_not_paused_and_can_be_retried(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(120)
    await desk.bench.drain(ScriptedProvider(*[UNKNOWN_ADDRESS] * 20, *[REFUSAL] * 5))
    assert await desk.status(campaign_id) == "SENDING"
    assert (await desk.position(campaign_id)).status == "COMPLETED"
    _, found = await CampaignFailures(desk.database, desk.clock).retry_failed(OPERATOR, campaign_id)
    assert found.retried == 5
    await desk.bench.drain(ScriptedProvider(*[REFUSAL] * 4))
    assert (await desk.status(campaign_id), (await desk.counts(campaign_id)).sent) == ("SENDING", 96)
    await CampaignFailures(desk.database, desk.clock).accept_failures(OPERATOR, campaign_id)
    assert await desk.status(campaign_id) == "SENT"


@pytest.mark.promise("guard-rails")
async def test_retry_without_messages_leaves_the_queue_alone(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(3)
    await desk.bench.drain(ScriptedProvider(UNKNOWN_ADDRESS))
    before = await desk.position(campaign_id)
    _, found = await CampaignFailures(desk.database, desk.clock).retry_failed(OPERATOR, campaign_id)
    assert (found.retried, before.status) == (0, "COMPLETED")
    assert await desk.position(campaign_id) == before


@pytest.mark.promise("guard-rails")
async def test_resumed_campaign_is_judged_by_later_messages_only(
    desk: CampaignHarness, guard: CampaignGuardActions
) -> None:
    campaign_id = await a_sent_campaign(desk, 200, 300, limits={"dailyLimit": 200})
    ids = await sent_ids(desk, campaign_id)
    await report(desk, ids[:5], ContactVerdict.COMPLAINT)
    await desk.run_scheduler()
    assert await desk.status(campaign_id) == CampaignStatus.PAUSED
    await desk.campaigns.resume(OPERATOR, campaign_id)
    desk.clock.advance(NEXT_DAY)
    await report(desk, ids[5:20], ContactVerdict.COMPLAINT)  # late complaints about messages before the resume
    await desk.bench.drain(ScriptedProvider())
    assert len(await sent_ids(desk, campaign_id)) == 400
    later = (await sent_ids(desk, campaign_id))[200:]
    found = await guard.report(campaign_id, tenant_id=None)
    assert (found.counts.messages, found.counts.complaints) == (200, 0)
    await report(desk, later[:4], ContactVerdict.COMPLAINT)
    await desk.run_scheduler()
    assert await desk.status(campaign_id) == CampaignStatus.PAUSED


@pytest.mark.promise("guard-rails")
async def test_chosen_winner_keeps_the_stop_and_later_stops(desk: CampaignHarness) -> None:
    variants = [{"name": name, "subject": f"News {name}"} for name in "AB"]
    ab_test = {"variants": variants, "testPercent": 50, "waitMinutes": 600, "winnerBy": "manual"}
    campaign_id = await desk.start(400, experiment=ab_test)
    await desk.bench.drain(ScriptedProvider())
    await report(desk, (await sent_ids(desk, campaign_id))[:6], ContactVerdict.COMPLAINT)
    await desk.run_scheduler()
    await desk.campaigns.choose_winner(OPERATOR, campaign_id, "A")
    assert (await desk.position(campaign_id)).defer_reason == "guard_rails"
    await desk.edit_limits(campaign_id, dailyLimit=150)
    await desk.campaigns.resume(OPERATOR, campaign_id)
    desk.clock.advance(1)
    await desk.bench.drain(ScriptedProvider())
    later = (await sent_ids(desk, campaign_id))[200:]
    assert len(later) == 150
    await report(desk, later[:4], ContactVerdict.COMPLAINT)
    await desk.run_scheduler()
    assert await desk.status(campaign_id) == CampaignStatus.PAUSED
    assert (await desk.audit_actions(campaign_id)).count("guard_stop") == 2


async def test_campaign_is_stopped_again_after_its_stop_was_removed(desk: CampaignHarness) -> None:
    campaign_id = await a_sent_campaign(desk, 200, 50)
    await report(desk, (await sent_ids(desk, campaign_id))[:10], ContactVerdict.COMPLAINT)
    await desk.run_scheduler()
    async with desk.database.write() as tx:
        lane = (await desk.position(campaign_id)).lane
        await tx.execute(delete(lane_deferrals).where(lane_deferrals.c.lane == lane))
        running = {"status": CampaignStatus.SENDING}
        await tx.execute(update(campaigns).where(campaigns.c.campaign_id == campaign_id).values(**running))
    await desk.run_scheduler()
    assert await desk.status(campaign_id) == CampaignStatus.PAUSED


async def test_own_minimum_decides_when_a_campaign_is_judged(desk: CampaignHarness) -> None:
    limits = {"guardRails": {"minMessages": 200}}
    campaign_id = await a_sent_campaign(desk, 150, 150, limits=limits)
    await report(desk, (await sent_ids(desk, campaign_id))[:5], ContactVerdict.COMPLAINT)
    campaign_key = (await desk.campaign(campaign_id)).key
    watcher = CampaignGuard(desk.database, desk.clock, DEFAULT_GUARD_RAILS)
    assert not await watcher.check(campaign_key)
    async with desk.database.write() as tx:
        waiting = deliveries.c.status == Status.PENDING
        [last] = await tx.execute(select(func.max(deliveries.c.message_key).label("key")).where(waiting))
        sent = update(deliveries).where(waiting, deliveries.c.message_key != last.key)
        await tx.execute(sent.values(status=Status.SENT))
    assert await watcher.check(campaign_key)


async def test_warning_is_published_once_and_sending_continues(desk: CampaignHarness) -> None:
    campaign_id = await a_sent_campaign(desk, 200, 50)
    await report(desk, (await sent_ids(desk, campaign_id))[:2], ContactVerdict.COMPLAINT)
    desk.clock.advance(NEXT_DAY)
    await desk.run_scheduler()
    why = await explained(desk, campaign_id)
    assert "Warning of its guard rails: 2 complaints among 200 emails (1 %)" in campaign_text(why).sentence
    await desk.bench.drain(ScriptedProvider())
    assert await desk.status(campaign_id) == CampaignStatus.SENT
    assert (await desk.audit_actions(campaign_id)).count("guard_warn") == 1
    async with desk.database.read() as tx:
        assert len(await tx.execute(select(events.c.id).where(events.c.type == "campaign.warned"))) == 1


async def test_slowed_campaign_sends_less_until_a_person_accepts(
    desk: CampaignHarness, guard: CampaignGuardActions
) -> None:
    rails = {"atWarning": "slow_down", "slowPerHour": 20}
    campaign_id = await a_sent_campaign(desk, 200, 100, limits={"guardRails": rails})
    await report(desk, (await sent_ids(desk, campaign_id))[:2], ContactVerdict.COMPLAINT)
    await desk.run_scheduler()
    desk.clock.advance(NEXT_DAY)
    await desk.bench.drain(ScriptedProvider())
    assert len(await sent_ids(desk, campaign_id)) == 220
    assert await desk.deferral(campaign_id) == ("rate_per_hour", HOUR - desk.clock.now() % HOUR)
    assert "Slowed down to 20 emails per hour" in campaign_text(await explained(desk, campaign_id)).sentence
    await guard.accept_incidents(OPERATOR, campaign_id)
    desk.clock.advance(2 * HOUR)
    await desk.bench.drain(ScriptedProvider())
    assert await desk.status(campaign_id) == CampaignStatus.SENT
    other = await desk.start()
    with pytest.raises(NotPossibleNow):
        await guard.accept_incidents(OPERATOR, other)


async def test_forecast_uses_the_rate_of_a_slowed_campaign(desk: CampaignHarness) -> None:
    rails = {"atWarning": "slow_down", "slowPerHour": 20}
    campaign_id = await desk.start(300, limits={"guardRails": rails, "ratePerHour": 200})
    await desk.bench.drain(ScriptedProvider())
    await report(desk, (await sent_ids(desk, campaign_id))[:2], ContactVerdict.COMPLAINT)
    await desk.run_scheduler()
    defaults = DefaultLimits(default_limits(desk.bench.engine.settings))
    [found] = (await forecast(desk.database, desk.clock, defaults, tenant_id=None, measured_rate=1e6)).campaigns
    for _ in range(10):
        await desk.bench.drain(ScriptedProvider())
        if await desk.status(campaign_id) == CampaignStatus.SENT:
            break
        desk.clock.advance(HOUR - desk.clock.now() % HOUR)
    assert found.finishes_at is not None
    assert abs(found.finishes_at - desk.clock.now()) <= MINUTE


@pytest.mark.promise("guard-rails")
async def test_stopped_campaign_never_stops_transactional_email(desk: CampaignHarness) -> None:
    campaign_id = await a_sent_campaign(desk, 200, 50)
    await report(desk, (await sent_ids(desk, campaign_id))[:9], ContactVerdict.COMPLAINT)
    await desk.run_scheduler()
    desk.clock.advance(NEXT_DAY)
    [outbox_id] = await desk.bench.accept(a_message())
    await desk.bench.drain(ScriptedProvider())
    assert (await desk.bench.record(outbox_id)).summary.status == Status.SENT
    assert await desk.status(campaign_id) == CampaignStatus.PAUSED


async def test_claimed_messages_of_a_stopped_campaign_are_not_sent(desk: CampaignHarness) -> None:
    campaign_id = await a_sent_campaign(desk, 200, 100)
    ids = await sent_ids(desk, campaign_id)
    await desk.edit_limits(campaign_id)
    provider = ScriptedProvider(capacity=4)
    provider.hold()
    worker = await desk.bench.worker(provider)
    running = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(60):
            await provider.has(4)  # All connections are busy, so no further attempt begins.
            await report(desk, ids[:20], ContactVerdict.COMPLAINT)
            while await desk.status(campaign_id) != CampaignStatus.PAUSED:
                await asyncio.sleep(0.01)
            provider.let_go()
            while (await desk.counts(campaign_id)).sending:
                await asyncio.sleep(0.01)
    finally:
        provider.let_go()
        worker.stop()
        await running
    assert (len(provider.messages), (await desk.counts(campaign_id)).waiting) == (4, 96)


async def test_tenant_and_campaign_set_their_own_thresholds(desk: CampaignHarness) -> None:
    await tenants.change(desk.database, "default", guard_rails='{"complaintStopPercent": 0, "minMessages": 10}')
    with pytest.raises(InvalidInput) as refused:
        await tenants.change(desk.database, "default", guard_rails='{"complaintStopPercent": 101}')
    assert refused.value.field == "guardRails.complaintStopPercent"
    campaign_id = await a_sent_campaign(desk, 50, 5)
    await report(desk, (await sent_ids(desk, campaign_id))[:10], ContactVerdict.COMPLAINT)
    await desk.run_scheduler()
    assert (await desk.audit_actions(campaign_id))[-1] == "guard_warn"
    await desk.edit_limits(campaign_id, dailyLimit=50, guardRails={"complaintStopPercent": 1.0})
    desk.clock.advance(MINUTE)
    await desk.run_scheduler()
    assert await desk.status(campaign_id) == CampaignStatus.PAUSED


async def test_unreadable_state_of_one_campaign_stops_no_other(desk: CampaignHarness) -> None:
    broken = await a_sent_campaign(desk, 110, 5)
    other = await desk.start(name="Other")
    async with desk.database.write() as tx:
        mine = queue_entries.c.campaign_key == (await desk.campaign(broken)).key
        await tx.execute(update(queue_entries).where(mine).values(guard="{"))
    await desk.run_scheduler()
    assert (await desk.counts(other)).recipients == 115
