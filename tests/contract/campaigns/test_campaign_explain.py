"""Explanations of campaigns as data, on both engines: state, reason, end, limit, remedy and forecast."""

from typing import Any

import pytest
from sqlalchemy import update

from mailwright.actions.suggestions import commands
from mailwright.app.limits import default_limits
from mailwright.domain.actions import ActionKind
from mailwright.domain.campaign import AWAITING_WINNER, INDEFINITELY, PAUSED, SCHEDULED, CampaignStatus
from mailwright.domain.clock import DAY, HOUR, SECOND, ManualClock
from mailwright.domain.errors import NotFound
from mailwright.domain.explanation import (
    CampaignExplanation,
    LimitScope,
    MessageExplanation,
    ReachedLimit,
    Remedy,
)
from mailwright.domain.ids import uuid7
from mailwright.domain.states import Status
from mailwright.outbox.defer import defer_lane
from mailwright.outbox.explain import explain
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.forecast_values import ForecastAssumption
from mailwright.sources.campaigns.queue_progress import queue_progress
from mailwright.sources.campaigns.queue_recorder import QueueRecorder
from mailwright.sources.message_limits import explain_message
from mailwright.storage.database import Database
from mailwright.storage.tables import campaigns, deliveries, messages, queue_entries
from mailwright.texts.explanations import campaign_text, message_text
from tests.api import an_api
from tests.builders import DEFAULT_TENANT, LOCK_TTL, THROTTLE, Bench, a_tenant, change_tenant, claims_of
from tests.campaigns import CampaignHarness
from tests.contract.campaigns.test_forecast import QueuedTestCampaign, a_queued_campaign
from tests.standins.provider import ScriptedProvider


async def explained(bench: Bench, campaign: QueuedTestCampaign, tenant_id: int | None = None) -> CampaignExplanation:
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    return await explain_campaign(bench.database, bench.clock, defaults, campaign.campaign_id, tenant_id=tenant_id)


async def record_queue(bench: Bench) -> None:
    await QueueRecorder(bench.database, bench.clock, DefaultLimits(default_limits(bench.engine.settings))).record()


async def a_worker(bench: Bench) -> None:
    await WorkerRegistry(bench.database, bench.clock, "w").report(WorkerPresence("scripted"))


async def change_campaign(
    bench: Bench, campaign: QueuedTestCampaign, *, completed_at: int | None = None, **values: object
) -> None:
    async with bench.database.write() as tx:
        mine = campaigns.c.campaign_id == campaign.campaign_id
        await tx.execute(update(campaigns).where(mine).values(**values))
        entry = queue_entries.c.lane == campaign.lane
        await tx.execute(update(queue_entries).where(entry).values(completed_at=completed_at))


@pytest.mark.promise("explain-campaign")
async def test_tenant_limit_is_named_with_usage_end_and_forecast(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=100)
    campaign = await a_queued_campaign(bench, 150)
    await bench.drain(ScriptedProvider())
    resumes_at = bench.clock.now() + HOUR
    found = await explained(bench, campaign)
    assert (found.state, found.reason, found.until) == ("held", "rate_per_hour", resumes_at)
    assert found.limit == ReachedLimit("rate_per_hour", LimitScope.TENANT, "default", used=100, allowed=100)
    assert (found.remedy, found.actions) == (Remedy.CHANGE_LIMIT, ())
    assert (found.forecast_start, found.forecast_messages) == (resumes_at, 50)
    assert resumes_at < (found.forecast_end or 0) < resumes_at + 10 * SECOND


@pytest.mark.promise("explain-campaign")
async def test_campaign_limit_is_named_as_its_own(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=100)
    campaign = await a_queued_campaign(bench, 30, rate_per_hour=10)
    await bench.drain(ScriptedProvider())
    found = await explained(bench, campaign)
    assert found.limit == ReachedLimit("rate_per_hour", LimitScope.CAMPAIGN, "To 30", used=10, allowed=10)
    [action] = found.actions
    assert (action.kind, action.subject) == (ActionKind.EDIT_LIMITS, campaign.campaign_id)


@pytest.mark.promise("explain-campaign")
@pytest.mark.parametrize(
    ("own", "scope"),
    [
        ({}, LimitScope.TENANT),
        ({"rate_per_hour": 10}, LimitScope.TENANT),
        ({"working_hours": "00:00-24:00"}, LimitScope.TENANT),
        ({"working_hours": "09:00-18:00"}, LimitScope.TENANT),
        ({"working_hours": "11:00-18:00"}, LimitScope.CAMPAIGN),
        ({"in_readers_time_zone": True}, LimitScope.TENANT),
    ],
)
async def test_deferral_names_working_hours_that_open_last(
    bench: Bench, own: dict[str, Any], scope: LimitScope
) -> None:
    await change_tenant(bench.database, working_hours="10:00-18:00")  # it is eight
    campaign = await a_queued_campaign(bench, 5, **own)
    await bench.drain(ScriptedProvider())
    await a_worker(bench)
    found = await explained(bench, campaign)
    assert (found.state, found.reason, found.remedy) == ("held", "outside_hours", Remedy.CHANGE_LIMIT)
    assert found.limit is not None
    assert found.limit.scope is scope
    assert bool(found.actions) == (scope is LimitScope.CAMPAIGN)
    # The advice has an effect: without the blamed hours, it is sent earlier.
    if scope is LimitScope.TENANT:
        assert commands(found) == ["mailwright tenant edit default --working-hours 00:00-24:00"]


@pytest.mark.promise("explain-campaign")
async def test_every_deferral_has_its_state_reason_and_remedy(bench: Bench) -> None:
    now = bench.clock.now()
    campaign = await a_queued_campaign(bench, 5)
    assert (await explained(bench, campaign)).state == "no_worker"
    await a_worker(bench)
    found = await explained(bench, campaign)
    assert (found.state, found.unsent) == ("sending", 5)
    await change_tenant(bench.database, working_hours="09:00-18:00")  # it is eight
    for reason, until, state, remedy in (
        (SCHEDULED, now + DAY, "scheduled", Remedy.RESCHEDULE_CAMPAIGN),
        (AWAITING_WINNER, now + HOUR, "held", Remedy.CHOOSE_WINNER),
        ("quota_exhausted", now + HOUR, "held", Remedy.MORE_QUOTA),
        ("outside_hours", now + HOUR, "held", Remedy.CHANGE_LIMIT),
        (PAUSED, INDEFINITELY, "paused", Remedy.RESUME_CAMPAIGN),
    ):
        await defer_lane(bench.database, campaign.lane, reason, until)
        found = await explained(bench, campaign)
        assert (found.state, found.reason, found.remedy) == (state, reason, remedy)
        assert found.until == (None if until == INDEFINITELY else until)


@pytest.mark.promise("explain-campaign")
async def test_deferred_messages_defer_their_campaign(bench: Bench) -> None:
    campaign = await a_queued_campaign(bench, 3)
    await bench.drain(ScriptedProvider(*[THROTTLE] * 3))
    await a_worker(bench)
    assert (await explained(bench, campaign)).state == "sending"  # A wait of less than 5 seconds is no deferral.
    until, reason = bench.clock.now() + 10 * SECOND, "provider_throttled"
    async with bench.database.write() as tx:
        await tx.execute(update(deliveries).values(claimable_at=until))
    await record_queue(bench)

    found = await explained(bench, campaign)
    assert (found.state, found.reason, found.until) == ("held", reason, until)
    assert (found.is_message_deferral, found.unsent, found.remedy) == (True, 3, Remedy.PROVIDER_RECOVERY)
    seen = await queue_progress(bench.database, bench.clock, bench.engine.defaults, tenant_id=DEFAULT_TENANT)
    assert (seen.reason, seen.next_run_at, seen.eta) == (reason, until, None)
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    [forecasted] = (await forecast(bench.database, bench.clock, defaults, tenant_id=DEFAULT_TENANT)).campaigns
    assert (forecasted.starts_at, forecasted.segments[0].reason) == (until, reason)

    behind = await a_queued_campaign(bench, 2)
    assert (await explained(bench, behind)).state == "sending"  # The first campaign does not delay it.
    bench.clock.advance(until - bench.clock.now())
    await record_queue(bench)
    assert (await explained(bench, campaign)).state == "sending"


@pytest.mark.promise("explain-campaign")
async def test_queued_campaign_names_the_one_ahead(bench: Bench) -> None:
    await a_worker(bench)
    first, second = await a_queued_campaign(bench, 5), await a_queued_campaign(bench, 7)
    found = await explained(bench, second)
    assert (found.state, found.reason) == ("in_line", "queued")
    assert (found.campaign_ahead, found.remedy) == ("To 5", Remedy.PAUSE_CAMPAIGN_AHEAD)
    await defer_lane(bench.database, first.lane, PAUSED, INDEFINITELY)
    await record_queue(bench)
    assert (await explained(bench, second)).state == "sending"


@pytest.mark.promise("explain-campaign")
async def test_finished_campaign_has_its_state_and_failures(bench: Bench) -> None:
    campaign = await a_queued_campaign(bench, 5)
    now = bench.clock.now()
    for status, state in (
        (CampaignStatus.DRAFT, "draft"),
        (CampaignStatus.SENT, "sent"),
        (CampaignStatus.CANCELLED, "cancelled"),
    ):
        await change_campaign(bench, campaign, status=status, finished_at=now, completed_at=now)
        assert (await explained(bench, campaign)).state == state
    async with bench.database.write() as tx:
        await tx.execute(update(deliveries).values(status=Status.FAILED, error_code="REFUSED"))
    await change_campaign(bench, campaign, status=CampaignStatus.SENDING, completed_at=now)
    found = await explained(bench, campaign)
    assert (found.state, found.failed, found.recipients) == ("failures", 5, 5)
    async with bench.database.write() as tx:
        await tx.execute(update(deliveries).values(status=Status.IN_DOUBT))
    assert (await explained(bench, campaign)).state == "in_doubt"


@pytest.mark.promise("explain-campaign")
async def test_campaign_of_another_tenant_is_not_found(bench: Bench) -> None:
    other = await a_tenant(bench.database, "other")
    campaign = await a_queued_campaign(bench, 1)
    for tenant_id, wanted in (
        (other, campaign),
        (None, QueuedTestCampaign("nonsense", 0)),
        (None, QueuedTestCampaign(uuid7(1), 0)),
    ):
        with pytest.raises(NotFound):
            await explained(bench, wanted, tenant_id)
    assert (await explained(bench, campaign, DEFAULT_TENANT)).campaign_id == campaign.campaign_id


async def test_message_names_the_deferral_of_its_campaign(bench: Bench) -> None:
    now = bench.clock.now()
    await a_worker(bench)
    campaign, later = await a_queued_campaign(bench, 1), await a_queued_campaign(bench, 2)
    async with bench.database.write() as tx:
        rows = await tx.execute(messages.select().order_by(messages.c.id))
        for row, lane in zip(rows, (campaign.lane, later.lane, later.lane), strict=True):
            key = (
                queue_entries.select()
                .with_only_columns(queue_entries.c.campaign_key)
                .where(queue_entries.c.lane == lane)
            )
            await tx.execute(update(messages).where(messages.c.id == row.id).values(campaign_key=key.scalar_subquery()))

    async def explain_one(number: int) -> MessageExplanation:
        return await explain(bench.database, bench.clock, rows[number].outbox_id, tenant_id=None)

    assert (await explain_one(1)).campaign_ahead == "To 1"
    for reason, remedy in (
        (SCHEDULED, Remedy.CANCEL_CAMPAIGN),
        ("rate_per_hour", Remedy.PAUSE_AND_RESUME),  # No such limit is set any more.
        ("quota_exhausted", Remedy.MORE_QUOTA),
        (AWAITING_WINNER, Remedy.CHOOSE_WINNER),
        (PAUSED, Remedy.RESUME_CAMPAIGN),
    ):
        await defer_lane(bench.database, campaign.lane, reason, now + HOUR)
        found = await explain_one(0)
        assert (found.campaign, found.reason, found.remedy) == ("To 1", reason, remedy)
        assert found.limit is None or found.limit.scope is LimitScope.PROVIDER


@pytest.mark.promise("explain-campaign")
@pytest.mark.parametrize("owner", ["campaign Spring news", "tenant default"])
async def test_message_names_the_limit_that_defers_its_campaign(bench: Bench, owner: str) -> None:
    is_own = owner.startswith("campaign")
    if not is_own:
        await change_tenant(bench.database, daily_limit=2)
    desk, defaults = CampaignHarness(bench), DefaultLimits(default_limits(bench.engine.settings))
    campaign_id = await desk.start(3, name="Spring news", limits={"dailyLimit": 2} if is_own else {})
    await desk.run_scheduler()
    await bench.drain(ScriptedProvider())
    await a_worker(bench)
    [waiting] = [row.message_id for row in await desk.report(campaign_id) if row.sent_at is None]
    found = await explain_message(bench.database, bench.clock, defaults, waiting, tenant_id=None)
    whole = await explain_campaign(bench.database, bench.clock, defaults, campaign_id, tenant_id=None)
    assert found.limit == whole.limit
    text = message_text(found)
    assert text.sentence.startswith(f"Daily limit of {owner} reached (2 of 2). Sending resumes at ")
    assert text.what_would_change == f"Raise the daily limit of {owner}."


async def test_api_returns_the_forecast_and_the_explanation(
    bench: Bench, database: Database, clock: ManualClock
) -> None:
    campaign = await a_queued_campaign(bench, 3)
    async with an_api(database, clock) as api:
        answer = await api.client.get("/v1/forecast", params={"days": 30})
        assert answer.status_code == 200
        [forecasted] = answer.json()["campaigns"]
        assert (forecasted["campaignId"], forecasted["remaining"]) == (campaign.campaign_id, 3)
        assert forecasted["startsAt"] <= forecasted["finishesAt"]
        assert forecasted["segments"][0].keys() == {"from", "to", "sending", "reason"}
        assert (await api.stranger.get("/v1/forecast")).json()["campaigns"] == []
        assert (await api.anonymous.get("/v1/forecast")).status_code == 401
        assert (await api.client.get("/v1/forecast", params={"days": 0})).status_code in (400, 422)
        path = f"/v1/campaigns/{campaign.campaign_id}/explain"
        assert (await api.client.get(path)).json()["state"] == "no_worker"
        assert (await api.stranger.get(path)).status_code == 404
        assert (await api.client.get("/v1/campaigns/nonsense/explain")).status_code == 404


@pytest.mark.promise("explain-campaign")
async def test_deferral_by_a_removed_limit_names_no_limit(bench: Bench) -> None:
    """After a setting is removed and the workers are restarted, the deferral is still in force."""
    await change_tenant(bench.database, rate_per_hour=10)
    campaign = await a_queued_campaign(bench, 30)
    await bench.drain(ScriptedProvider())
    await change_tenant(bench.database, rate_per_hour=None)
    found = await explained(bench, campaign)
    assert (found.limit, found.remedy) == (None, Remedy.PAUSE_AND_RESUME)
    assert (found.state, found.reason, found.until) == ("held", "rate_per_hour", bench.clock.now() + HOUR)


@pytest.mark.promise("explain-campaign")
async def test_cancelled_campaign_still_names_unconfirmed_messages(bench: Bench) -> None:
    campaign = await a_queued_campaign(bench, 3)
    await change_campaign(bench, campaign, status=CampaignStatus.CANCELLED, completed_at=bench.clock.now())
    async with bench.database.write() as tx:
        await tx.execute(update(deliveries).where(deliveries.c.message_key == 1).values(status=Status.IN_DOUBT))
    found = await explained(bench, campaign)
    assert (found.state, found.reason) == ("cancelled", "in_doubt")
    assert (found.in_doubt, found.remedy) == (1, Remedy.RESOLVE_MESSAGES)


@pytest.mark.promise("explain-campaign")
async def test_interval_of_the_tenant_is_named(bench: Bench) -> None:
    await change_tenant(bench.database, interval_ms=HOUR)
    campaign = await a_queued_campaign(bench, 3)
    await a_worker(bench)
    found = await explained(bench, campaign)
    assert (found.state, found.reason) == ("sending", None)
    assert found.limit == ReachedLimit("interval", LimitScope.TENANT, "default")


@pytest.mark.promise("explain-campaign")
async def test_leases_of_a_killed_worker_are_explained_with_their_end(bench: Bench) -> None:
    campaign = await a_queued_campaign(bench, 3)
    await WorkerRegistry(bench.database, bench.clock, "killed").report(WorkerPresence("scripted"))
    assert len(await claims_of(bench.database, bench.clock, "killed").claim(10)) == 3
    lease_ends = bench.clock.now() + LOCK_TTL
    assert (await explained(bench, campaign)).lost_messages == 0
    bench.clock.advance(13 * SECOND)
    await a_worker(bench)
    found = await explained(bench, campaign)
    assert (found.state, found.reason, found.until) == ("sending", "worker_lost", lease_ends)
    assert (found.lost_messages, found.lost_until) == (3, lease_ends)
    assert "held 3 messages; others take over at" in campaign_text(found).sentence
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    foreseen = await forecast(bench.database, bench.clock, defaults, tenant_id=None)
    assert ForecastAssumption.WORKER_LOST in foreseen.assumptions
    bench.clock.advance(LOCK_TTL)
    await bench.drain(ScriptedProvider())
    assert await bench.statuses() == {"SENT": 3}
