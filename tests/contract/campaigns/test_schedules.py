"""Send times of campaigns and messages: in the past, without a zone, moved, overdue, and outside working hours."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mailwright.content.presend_checks import PresendContext
from mailwright.domain.clock import DAY, HOUR, MINUTE, ManualClock, isoformat
from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.domain.explanation import CampaignState
from mailwright.domain.permits import Limits
from mailwright.outbox.limits import DefaultLimits
from mailwright.sources.campaigns.checks import check_campaign
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.variants import CampaignNotStartable
from tests.api import Api, a_request, an_api
from tests.builders import DEFAULT_TENANT, Bench, change_tenant
from tests.campaigns import OPERATOR, CampaignHarness, a_definition, address_of, join
from tests.standins.provider import ScriptedProvider

SEND = "/v1/email/send"
LOCAL, TOKYO = "2027-01-16T09:00:00", "Asia/Tokyo"
NEXT_YEAR = 1_830_000_000_000
IN_TOKYO, IN_UTC = "2027-01-16T00:00:00.000Z", "2027-01-16T09:00:00.000Z"


@pytest.fixture
def desk(bench: Bench) -> CampaignHarness:
    return CampaignHarness(bench)


@pytest.fixture
async def api(bench: Bench, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(bench.database, clock) as api:
        yield api


async def refused_codes(desk: CampaignHarness, campaign_id: str) -> list[str]:
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.campaigns.start(OPERATOR, campaign_id)
    return [problem.code for problem in refused.value.problems]


@pytest.mark.promise("schedule-past")
async def test_schedule_in_the_past_needs_confirmation(desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(0)])
    campaign_id = await desk.create(scheduledAt=desk.clock.now() - HOUR)
    assert await refused_codes(desk, campaign_id) == ["SCHEDULE_IN_PAST"]
    assert await desk.status(campaign_id) == "DRAFT"
    await desk.campaigns.start(OPERATOR, campaign_id, send_now=True)
    assert (await desk.campaign(campaign_id)).definition.scheduled_at is None
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert len(provider.messages) == 1


@pytest.mark.promise("campaign-refusals")
@pytest.mark.parametrize("how", [{}, {"send_now": True}, {"send_at": NEXT_YEAR}, {"send_at": 1}], ids=str)
@pytest.mark.parametrize("starts_in", [None, DAY, -DAY])
async def test_refused_start_changes_nothing(desk: CampaignHarness, how: dict[str, Any], starts_in: int | None) -> None:
    await join(desk.database, [address_of(0)])
    content = {"subject": "News", "body": "<p>{{ unknown }}</p>"}
    scheduled_at = None if starts_in is None else desk.clock.now() + starts_in
    campaign_id = await desk.create(content=content, scheduledAt=scheduled_at)
    draft, actions = await desk.campaign(campaign_id), await desk.audit_actions(campaign_id)
    desk.clock.advance(MINUTE)
    with pytest.raises(CampaignNotStartable):
        await desk.campaigns.start(OPERATOR, campaign_id, **how)
    assert (await desk.campaign(campaign_id), await desk.audit_actions(campaign_id)) == (draft, actions)


async def test_start_at_another_time_replaces_the_send_time(desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(0)])
    campaign_id = await desk.create(scheduledAt=desk.clock.now() - DAY)
    later = desk.clock.now() + DAY
    started = await desk.campaigns.start(OPERATOR, campaign_id, send_at=later)
    assert (started.status, started.definition.scheduled_at) == ("READY", later)
    assert await desk.deferral(campaign_id) == ("scheduled", DAY)
    assert await desk.audit_actions(campaign_id) == ["create", "reschedule", "start"]


async def test_schedule_a_minute_ago_counts_as_now(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(1, scheduledAt=desk.clock.now() - MINUTE)
    assert await desk.status(campaign_id) == "READY"


@pytest.mark.promise("schedule-past")
async def test_api_refuses_a_past_schedule_until_confirmed(api: Api, desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(0)])
    campaign_id = await desk.create(scheduledAt=desk.clock.now() - DAY)
    checked = (await api.client.post(f"/v1/campaigns/{campaign_id}/preflight")).json()
    assert [problem["code"] for problem in checked["problems"]] == ["SCHEDULE_IN_PAST"]
    refused = await api.client.post(f"/v1/campaigns/{campaign_id}/start")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "scheduledAt")
    moved = await api.client.put(
        f"/v1/campaigns/{campaign_id}/schedule", json={"scheduledAt": isoformat(desk.clock.now() - DAY)}
    )
    assert (moved.status_code, moved.json()["errors"][0]["field"]) == (422, "scheduledAt")
    started = await api.client.post(f"/v1/campaigns/{campaign_id}/start?sendNow=true")
    assert (started.status_code, started.json()["scheduledAt"]) == (200, None)


@pytest.mark.promise("schedule-past")
async def test_message_with_a_past_schedule_is_refused(api: Api, clock: ManualClock) -> None:
    past = a_request(scheduledAt=isoformat(clock.now() - HOUR))
    refused = await api.client.post(SEND, json=past)
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, "IN_THE_PAST")
    batch = await api.client.post("/v1/email/batch", json={"messages": [past, a_request()]})
    rejected, accepted = batch.json()["results"]
    assert (rejected["error"]["code"], accepted["status"]) == ("IN_THE_PAST", "PENDING")
    await api.send(scheduledAt=isoformat(clock.now() - MINUTE))


@pytest.mark.promise("hours-zone")
async def test_time_without_zone_is_in_the_tenants_zone(api: Api, bench: Bench) -> None:
    body = {"name": "News", "content": {"subject": "News", "body": "<p>News</p>"}, "scheduledAt": LOCAL}
    created = (await api.client.post("/v1/campaigns", json=body)).json()
    assert created["scheduledAt"] == IN_UTC
    await change_tenant(bench.database, timezone=TOKYO)
    edited = (await api.client.put(f"/v1/campaigns/{created['campaignId']}", json=body)).json()
    assert edited["scheduledAt"] == IN_TOKYO
    outbox_id = await api.send(scheduledAt=LOCAL)
    assert (await api.client.get(f"/v1/email/{outbox_id}")).json()["scheduledAt"] == IN_TOKYO
    batch = await api.client.post("/v1/email/batch", json={"messages": [a_request(scheduledAt=LOCAL)]})
    [accepted] = batch.json()["results"]
    assert (await api.client.get(f"/v1/email/{accepted['outboxId']}")).json()["scheduledAt"] == IN_TOKYO


async def test_scheduled_campaign_is_moved(desk: CampaignHarness, api: Api) -> None:
    campaign_id = await desk.start(1, scheduledAt=desk.clock.now() + HOUR)
    moved = await api.client.put(
        f"/v1/campaigns/{campaign_id}/schedule", json={"scheduledAt": isoformat(desk.clock.now() + 2 * HOUR)}
    )
    assert moved.json()["deferredUntil"] == isoformat(desk.clock.now() + 2 * HOUR)
    desk.clock.advance(HOUR)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert provider.messages == []
    await desk.campaigns.reschedule(OPERATOR, campaign_id, None)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 1
    assert (await desk.audit_actions(campaign_id))[2:4] == ["reschedule", "send_now"]
    with pytest.raises(NotPossibleNow):
        await desk.campaigns.reschedule(OPERATOR, campaign_id, desk.clock.now() + HOUR)


async def test_paused_campaign_follows_its_new_schedule(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(1, scheduledAt=desk.clock.now() + HOUR)
    await desk.campaigns.pause(OPERATOR, campaign_id)
    await desk.campaigns.reschedule(OPERATOR, campaign_id, desk.clock.now() + 3 * HOUR)
    assert (await desk.deferral(campaign_id))[0] == "paused"
    await desk.campaigns.resume(OPERATOR, campaign_id)
    assert await desk.deferral(campaign_id) == ("scheduled", 3 * HOUR)


async def test_draft_cannot_be_moved_into_the_past(desk: CampaignHarness) -> None:
    campaign_id = await desk.create()
    with pytest.raises(InvalidInput):
        await desk.campaigns.reschedule(OPERATOR, campaign_id, desk.clock.now() - HOUR)
    await desk.campaigns.reschedule(OPERATOR, campaign_id, desk.clock.now() + HOUR)
    assert (await desk.campaign(campaign_id)).definition.scheduled_at == desk.clock.now() + HOUR


@pytest.mark.promise("schedule-past")
async def test_campaign_a_day_late_waits_for_a_person(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(2, scheduledAt=desk.clock.now() + HOUR)
    desk.clock.advance(HOUR + 398 * DAY)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert provider.messages == []
    assert (await desk.deferral(campaign_id))[0] == "schedule_overdue"
    found = await explain_campaign(
        desk.database, desk.clock, DefaultLimits(Limits()), campaign_id, tenant_id=DEFAULT_TENANT
    )
    assert (found.state, found.reason, found.until) == (CampaignState.OVERDUE, "schedule_overdue", None)
    assert [action.kind for action in found.actions] == ["send_now", "cancel_campaign"]
    await change_tenant(desk.database, rate_per_hour=10)  # a changed limit does not release it
    await desk.bench.drain(provider)
    assert provider.messages == []
    await desk.campaigns.reschedule(OPERATOR, campaign_id, None)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 2


@pytest.mark.promise("schedule-past")
async def test_campaign_some_hours_late_is_sent(desk: CampaignHarness) -> None:
    await desk.start(2, scheduledAt=desk.clock.now() + HOUR)
    desk.clock.advance(24 * HOUR)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert len(provider.messages) == 2


async def test_schedule_outside_working_hours_is_a_warning(desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(0)])
    definition = a_definition(scheduledAt=desk.clock.now() + 12 * HOUR)  # 20:00
    facts = PresendContext(limits=Limits(working_hours="09:00-18:00"))
    examined = await check_campaign(
        desk.database,
        desk.bench.engine.templates,
        definition,
        tenant_id=DEFAULT_TENANT,
        now=desk.clock.now(),
        facts=facts,
    )
    [warning] = [issue for issue in examined.warnings if issue.code == "OUTSIDE_HOURS"]
    assert warning.sentence == ("Its send time is outside working hours. Sending begins on 16 Jan 2027, 09:00 UTC.")
