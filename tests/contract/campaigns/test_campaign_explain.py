"""Why a campaign waits, on both engines: one sentence, and the data that it was made of."""

import pytest
from sqlalchemy import select, update

from mailwright.app.wiring import default_limits
from mailwright.domain.campaign import AWAITING_WINNER, INDEFINITELY, PAUSED, SCHEDULED, CampaignStatus
from mailwright.domain.clock import DAY, HOUR, ManualClock
from mailwright.domain.errors import NotFound
from mailwright.domain.ids import uuid7
from mailwright.domain.states import Status
from mailwright.outbox import explain as messages_explained
from mailwright.outbox.defer import defer_lane
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.sources.campaigns import progress
from mailwright.sources.campaigns.explain import CampaignExplanation, explain_campaign
from mailwright.sources.campaigns.forecast import forecast
from mailwright.storage.database import Database
from mailwright.storage.tables import campaigns, deliveries, messages, queue_entries
from tests.api import an_api
from tests.builders import DEFAULT_TENANT, THROTTLE, Bench, a_tenant, change_tenant
from tests.contract.campaigns.test_forecast import InLine, in_line
from tests.standins.provider import ScriptedProvider


async def explained(bench: Bench, campaign: InLine, tenant_id: int | None = None) -> CampaignExplanation:
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    return await explain_campaign(bench.database, bench.clock, defaults, campaign.campaign_id, tenant_id=tenant_id)


async def a_worker(bench: Bench) -> None:
    await WorkerRegistry(bench.database, bench.clock, "w").report(WorkerPresence("scripted"))


async def change_campaign(bench: Bench, campaign: InLine, *, completed_at: int | None = None, **values: object) -> None:
    async with bench.database.write() as tx:
        mine = campaigns.c.campaign_id == campaign.campaign_id
        await tx.execute(update(campaigns).where(mine).values(**values))
        entry = queue_entries.c.lane == campaign.lane
        await tx.execute(update(queue_entries).where(entry).values(completed_at=completed_at))


@pytest.mark.promise("explain-campaign")
async def test_the_tenants_hourly_limit_is_named_with_its_end_and_what_comes_then(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=100)
    campaign = await in_line(bench, 150)
    await bench.drain(ScriptedProvider())
    found = await explained(bench, campaign)
    assert found.sentence == "It is held by the tenant default's hourly limit until 09:00:00 UTC (in 60 minutes)."
    assert (found.state, found.reason, found.until) == ("held", "rate_per_hour", bench.clock.now() + HOUR)
    assert found.what_would_change is not None
    assert "mailwright tenant edit default --rate-per-hour N" in found.what_would_change
    assert found.then is not None
    assert found.then.startswith("It continues at 09:00:00 UTC (in 60 minutes) and ends at 09:00:0")
    assert found.then.endswith("with 50 mails to send.")


@pytest.mark.promise("explain-campaign")
async def test_a_limit_of_the_campaigns_own_is_told_as_such(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=100)
    campaign = await in_line(bench, 30, rate_per_hour=10)
    await bench.drain(ScriptedProvider())
    found = await explained(bench, campaign)
    assert found.sentence.startswith("It is held by its own hourly limit until")
    assert found.what_would_change is not None
    assert f"mailwright campaign limits {campaign.campaign_id}" in found.what_would_change


@pytest.mark.promise("explain-campaign")
async def test_every_way_to_wait_has_its_own_words(bench: Bench) -> None:
    now = bench.clock.now()
    campaign = await in_line(bench, 5)
    assert (await explained(bench, campaign)).state == "no_worker"
    await a_worker(bench)
    found = await explained(bench, campaign)
    assert (found.state, found.sentence) == ("sending", "It is being sent: 5 mails left.")
    await change_tenant(bench.database, working_hours="09:00-18:00")  # it is eight
    for reason, until, state, words in (
        (SCHEDULED, now + DAY, "scheduled", "it begins on 2027-01-16 at 08:00:00 UTC (in 24 hours)"),
        (AWAITING_WINNER, now + HOUR, "held", "the better version is chosen at 09:00:00 UTC"),
        ("quota_exhausted", now + HOUR, "held", "they are asked again at 09:00:00 UTC"),
        ("outside_hours", now + HOUR, "held", "working hours until 09:00:00 UTC"),
        (PAUSED, INDEFINITELY, "paused", "It is paused, and keeps its place in line."),
    ):
        await defer_lane(bench.database, campaign.lane, reason, until)
        found = await explained(bench, campaign)
        assert (found.state, found.reason) == (state, reason)
        assert words in found.sentence
        assert found.what_would_change


@pytest.mark.promise("explain-campaign")
async def test_mails_that_all_wait_for_their_provider_say_so_for_the_campaign(bench: Bench) -> None:
    campaign = await in_line(bench, 3)
    await bench.drain(ScriptedProvider(*[THROTTLE] * 3))
    await a_worker(bench)
    async with bench.database.read() as tx:
        rows = await tx.execute(select(deliveries.c.claimable_at, deliveries.c.defer_reason))
    until, reason = min(tuple(row) for row in rows)
    assert until > bench.clock.now()
    assert reason == "provider_throttled"

    found = await explained(bench, campaign)
    assert (found.state, found.reason, found.until) == ("held", reason, until)
    assert found.sentence.startswith("The provider takes no more mail for now: 3 mails left, the first of them goes ")
    seen = await progress.queue_progress(bench.database, bench.clock, tenant_id=DEFAULT_TENANT)
    assert (seen.reason, seen.next_run_at, seen.eta) == (reason, until, None)
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    [course] = (await forecast(bench.database, bench.clock, defaults, tenant_id=DEFAULT_TENANT)).campaigns
    assert (course.starts_at, course.segments[0].reason) == (until, reason)

    behind = await in_line(bench, 2)
    assert (await explained(bench, behind)).state == "sending"  # the first does not keep it waiting
    bench.clock.advance(until - bench.clock.now())
    assert (await explained(bench, campaign)).state == "sending"


@pytest.mark.promise("explain-campaign")
async def test_the_second_in_line_names_the_first(bench: Bench) -> None:
    await a_worker(bench)
    first, second = await in_line(bench, 5), await in_line(bench, 7)
    found = await explained(bench, second)
    assert (found.state, found.reason) == ("in_line", "in_line")
    assert "the campaign To 5 of the same tenant goes first" in found.sentence
    await defer_lane(bench.database, first.lane, PAUSED, INDEFINITELY)
    assert (await explained(bench, second)).state == "sending"


@pytest.mark.promise("explain-campaign")
async def test_the_ends_are_told_too(bench: Bench) -> None:
    campaign = await in_line(bench, 5)
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
    assert (found.state, found.sentence) == ("failures", "It is through, but 5 of its readers did not get it.")
    async with bench.database.write() as tx:
        await tx.execute(update(deliveries).values(status=Status.IN_DOUBT))
    assert (await explained(bench, campaign)).state == "in_doubt"


@pytest.mark.promise("explain-campaign")
async def test_another_tenants_campaign_is_not_found(bench: Bench) -> None:
    other = await a_tenant(bench.database, "other")
    campaign = await in_line(bench, 1)
    for tenant_id, wanted in ((other, campaign), (None, InLine("nonsense", 0)), (None, InLine(uuid7(1), 0))):
        with pytest.raises(NotFound):
            await explained(bench, wanted, tenant_id)
    assert (await explained(bench, campaign, DEFAULT_TENANT)).campaign_id == campaign.campaign_id


async def test_a_message_of_a_campaign_says_what_holds_the_campaign(bench: Bench) -> None:
    now = bench.clock.now()
    await a_worker(bench)
    campaign, later = await in_line(bench, 1), await in_line(bench, 2)
    async with bench.database.write() as tx:
        rows = await tx.execute(messages.select().order_by(messages.c.id))
        for row, lane in zip(rows, (campaign.lane, later.lane, later.lane), strict=True):
            key = (
                queue_entries.select()
                .with_only_columns(queue_entries.c.campaign_key)
                .where(queue_entries.c.lane == lane)
            )
            await tx.execute(update(messages).where(messages.c.id == row.id).values(campaign_key=key.scalar_subquery()))

    async def why(number: int) -> messages_explained.MessageExplanation:
        return await messages_explained.explain(bench.database, bench.clock, rows[number].outbox_id, tenant_id=None)

    assert "the campaign To 1 goes before its own" in (await why(1)).sentence
    for reason, words in (
        (SCHEDULED, "Its campaign To 1 is scheduled"),
        ("rate_per_hour", "It is held by the hourly limit of its campaign To 1 or of the tenant default until 09:00"),
        ("warmup", "It is held by the warm-up of its campaign"),
        ("quota_exhausted", "The providers have no quota left for it; they are asked again at 09:00:00"),
        (AWAITING_WINNER, "Its campaign To 1 tries its versions on some readers first"),
        (PAUSED, "Its campaign To 1 is paused"),
    ):
        await defer_lane(bench.database, campaign.lane, reason, now + HOUR)
        found = await why(0)
        assert words in found.sentence
        assert found.reason == reason
        assert found.what_would_change


async def test_the_api_answers_with_the_forecast_and_the_explanation(
    bench: Bench, database: Database, clock: ManualClock
) -> None:
    campaign = await in_line(bench, 3)
    async with an_api(database, clock) as api:
        answer = await api.client.get("/v1/forecast", params={"days": 30})
        assert answer.status_code == 200
        [course] = answer.json()["campaigns"]
        assert (course["campaignId"], course["remaining"]) == (campaign.campaign_id, 3)
        assert course["startsAt"] <= course["finishesAt"]
        assert course["segments"][0].keys() == {"from", "to", "sending", "reason"}
        assert (await api.stranger.get("/v1/forecast")).json()["campaigns"] == []
        assert (await api.anonymous.get("/v1/forecast")).status_code == 401
        assert (await api.client.get("/v1/forecast", params={"days": 0})).status_code in (400, 422)
        path = f"/v1/campaigns/{campaign.campaign_id}/explain"
        assert (await api.client.get(path)).json()["state"] == "no_worker"
        assert (await api.stranger.get(path)).status_code == 404
        assert (await api.client.get("/v1/campaigns/nonsense/explain")).status_code == 404


@pytest.mark.promise("explain-campaign")
async def test_a_rule_that_is_gone_is_told_as_gone(bench: Bench) -> None:
    """As when a setting was taken away and the workers were started anew: what it held is still held."""
    await change_tenant(bench.database, rate_per_hour=10)
    campaign = await in_line(bench, 30)
    await bench.drain(ScriptedProvider())
    await change_tenant(bench.database, rate_per_hour=None)
    found = await explained(bench, campaign)
    assert found.sentence.startswith("It was held by the hourly limit, which is in force no more; it waits until 09:00")
    assert (found.state, found.reason, found.until) == ("held", "rate_per_hour", bench.clock.now() + HOUR)


@pytest.mark.promise("explain-campaign")
async def test_doubts_of_a_cancelled_campaign_are_still_told(bench: Bench) -> None:
    campaign = await in_line(bench, 3)
    await change_campaign(bench, campaign, status=CampaignStatus.CANCELLED, completed_at=bench.clock.now())
    async with bench.database.write() as tx:
        await tx.execute(update(deliveries).where(deliveries.c.message_key == 1).values(status=Status.IN_DOUBT))
    found = await explained(bench, campaign)
    assert (found.state, found.reason) == ("cancelled", "in_doubt")
    assert "Of 1 mail nobody knows yet whether the provider has them" in found.sentence
    assert "mailwright message resolve" in (found.what_would_change or "")


@pytest.mark.promise("explain-campaign")
async def test_an_interval_is_named_with_what_would_change_it(bench: Bench) -> None:
    await change_tenant(bench.database, interval_ms=HOUR)
    campaign = await in_line(bench, 3)
    await bench.drain(ScriptedProvider())
    found = await explained(bench, campaign)
    assert found.sentence.startswith("It is held by the tenant default's interval between mails until 0")
    assert found.reason == "interval"
    assert "mailwright tenant edit default --interval-ms N" in (found.what_would_change or "")
