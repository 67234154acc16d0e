"""Webhooks are notified once of each change of a campaign."""

import asyncio
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from mailwright.domain.clock import DAY, HOUR, isoformat
from mailwright.events.outbound.dispatcher import WebhookDispatcher
from mailwright.events.outbound.endpoints import WebhookEndpointInput, WebhookEndpoints
from mailwright.providers.http import HttpClient, addresses_of
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.storage.tables import events
from tests.builders import DEFAULT_TENANT, FAULT, REFUSAL, Bench
from tests.campaigns import OPERATOR, CampaignHarness
from tests.standins.http import HttpStandIn
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("webhook-once-each")


@pytest.fixture
def desk(bench: Bench) -> CampaignHarness:
    return CampaignHarness(bench)


async def announced(desk: CampaignHarness) -> list[tuple[str, Any]]:
    """Return the events of campaigns with their reason, oldest first. The scheduler runs again first."""
    await desk.run_scheduler()
    mine = events.c.type.like("campaign.%")
    async with desk.database.read() as tx:
        rows = await tx.execute(select(events).where(mine).order_by(events.c.id))
    return [(row.type.removeprefix("campaign."), orjson.loads(row.metadata).get("reason")) for row in rows]


async def test_campaign_is_announced_from_start_to_end(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(3)
    await desk.campaigns.pause(OPERATOR, campaign_id)
    assert await announced(desk) == [("started", None), ("held", "paused")]
    await desk.campaigns.resume(OPERATOR, campaign_id)
    await desk.bench.drain(ScriptedProvider())
    expected = [("started", None), ("held", "paused"), ("resumed", None), ("finished", None)]
    assert await announced(desk) == expected
    assert await announced(desk) == expected


async def test_limit_holds_and_releases_a_campaign(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(3, limits={"dailyLimit": 2})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert await announced(desk) == [("started", None), ("held", "daily_limit")]
    async with desk.database.read() as tx:
        [held] = await tx.execute(select(events).where(events.c.type == "campaign.held"))
    assert orjson.loads(held.metadata)["until"] == isoformat((await desk.position(campaign_id)).deferred_until)
    desk.clock.advance(2 * DAY)
    assert await announced(desk) == [("started", None), ("held", "daily_limit")]
    await desk.bench.drain(provider)
    assert (await announced(desk))[-1] == ("finished", None)


async def test_outage_is_announced_once_and_not_resumed_by_a_probe(desk: CampaignHarness) -> None:
    await desk.start(2)
    down = ScriptedProvider(*[FAULT] * 4)
    await desk.bench.drain(down)
    for _ in range(3):
        desk.clock.advance(1_000)
        await desk.run_scheduler()
    held = [each for each in await announced(desk) if each[0] != "started"]
    assert ("resumed", None) not in held


async def test_failures_are_announced_until_accepted(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(2)
    await desk.bench.drain(ScriptedProvider(REFUSAL))
    assert await announced(desk) == [("started", None), ("held", "failures")]
    await desk.bench.engine.campaign_failures.accept_failures(OPERATOR, campaign_id)
    assert (await announced(desk))[2:] == [("finished", None)]


async def test_undecided_test_and_cancellation_are_announced(desk: CampaignHarness) -> None:
    test = {"variants": [{"name": "A"}, {"name": "B", "subject": "Other"}], "waitMinutes": 60}
    campaign_id = await desk.start(20, experiment=test)
    await desk.bench.drain(ScriptedProvider())
    desk.clock.advance(HOUR)
    await desk.bench.drain(ScriptedProvider())
    await desk.campaigns.cancel(OPERATOR, campaign_id)
    expected = [("started", None), ("held", "waits_for_winner"), ("held", "ab_test_undecided"), ("cancelled", None)]
    assert await announced(desk) == expected


async def test_several_schedulers_announce_a_hold_once(desk: CampaignHarness) -> None:
    await desk.start(3, limits={"dailyLimit": 2})
    worker = await desk.bench.worker(ScriptedProvider())
    await worker.run(drain=True)
    await asyncio.gather(*(CampaignScheduler(desk.database, desk.clock).tick() for _ in range(4)))
    assert await announced(desk) == [("started", None), ("held", "daily_limit")]


async def test_discarded_draft_is_not_announced(desk: CampaignHarness) -> None:
    await desk.campaigns.cancel(OPERATOR, await desk.create())
    assert await announced(desk) == []


async def test_webhook_receives_the_campaign_and_the_reason(desk: CampaignHarness) -> None:
    async with HttpStandIn() as receiver:
        endpoints = WebhookEndpoints(desk.database, desk.clock, allows_private=True)
        wanted = WebhookEndpointInput(f"{receiver.url}/hook", ("campaign.held",))
        await endpoints.create(DEFAULT_TENANT, wanted, actor="test")
        campaign_id = await desk.start(1)
        await desk.campaigns.pause(OPERATOR, campaign_id)
        dispatcher = WebhookDispatcher(desk.database, desk.clock, HttpClient(resolve=addresses_of))
        await dispatcher.dispatch_all()
        await dispatcher.close()
        [body] = [each.json() for each in receiver.requests]
    assert (body["type"], body["message"], body["contact"]) == ("campaign.held", None, None)
    assert body["campaign"] == {"campaignId": campaign_id, "name": "News of January"}
    assert body["metadata"] == {"reason": "paused", "until": None}
