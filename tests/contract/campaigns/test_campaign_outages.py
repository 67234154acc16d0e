"""Outages as the reason of campaigns, on both engines: explanation, poll, list and forecast agree."""

import asyncio
from dataclasses import replace

import pytest

from mailwright.app.limits import default_limits
from mailwright.domain.campaign import PAUSED
from mailwright.domain.clock import SECOND
from mailwright.domain.explanation import CampaignState, Remedy
from mailwright.outbox.defer import defer_lane
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry, list_present
from mailwright.sources.campaigns import progress
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.forecast_values import ForecastAssumption
from mailwright.sources.campaigns.queue_progress import queue_progress
from mailwright.texts.explanations import campaign_text
from tests.builders import DEFAULT_TENANT, FAULT, THROTTLE, Bench
from tests.contract.campaigns.test_forecast import QueuedTestCampaign, a_queued_campaign
from tests.standins.provider import ScriptedProvider

DOWN = replace(FAULT, code="NETWORK_ERROR", message="connection refused", blames_provider=True, is_deferral=True)


async def shown_reasons(bench: Bench, campaign: QueuedTestCampaign) -> set[str | None]:
    """Return the reasons that explanation, poll, list and forecast show for the campaign."""
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    found = await explain_campaign(bench.database, bench.clock, defaults, campaign.campaign_id, tenant_id=None)
    poll = await queue_progress(bench.database, bench.clock, bench.engine.defaults, tenant_id=DEFAULT_TENANT)
    async with bench.database.read() as tx:
        [listed] = await progress.list_positions(tx, tenant_id=DEFAULT_TENANT)
    foreseen = await forecast(bench.database, bench.clock, defaults, tenant_id=DEFAULT_TENANT)
    return {found.reason, poll.reason, listed.defer_reason, foreseen.campaigns[0].segments[0].reason}


@pytest.mark.promise("outage-recovery")
@pytest.mark.parametrize(
    ("response", "reason"),
    [(DOWN, "provider_unavailable"), (THROTTLE, "provider_throttled")],
    ids=["unavailable", "throttled"],
)
async def test_running_worker_shows_an_outage_at_once(bench: Bench, response: object, reason: str) -> None:
    campaign = await a_queued_campaign(bench, 300)
    worker = await bench.worker(ScriptedProvider(*[response] * 300), source_duty_seconds=0.01)  # type: ignore[list-item]
    running = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(60):
            while not any(each.is_unavailable for each in await list_present(bench.database, bench.clock.now())):
                await asyncio.sleep(0.01)
            while await shown_reasons(bench, campaign) != {reason}:
                await asyncio.sleep(0.01)
    finally:
        worker.stop()
        await running


@pytest.mark.promise("outage-recovery")
async def test_silent_provider_is_unavailable_after_seconds(bench: Bench) -> None:
    campaign = await a_queued_campaign(bench, 20)
    provider = ScriptedProvider()
    provider.hold()
    worker = await bench.worker(provider, source_duty_seconds=0.01)
    running = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(60):
            await provider.has(10)
            bench.clock.advance(4 * SECOND)
            while not any(each.is_unavailable for each in await list_present(bench.database, bench.clock.now())):
                await asyncio.sleep(0.01)
            while await shown_reasons(bench, campaign) != {"provider_unavailable"}:
                await asyncio.sleep(0.01)
            provider.let_go()
            while any(each.is_unavailable for each in await list_present(bench.database, bench.clock.now())):
                await asyncio.sleep(0.01)
    finally:
        provider.let_go()
        worker.stop()
        await running


async def test_outage_has_a_remedy_and_an_assumption(bench: Bench) -> None:
    campaign = await a_queued_campaign(bench, 5)
    until = bench.clock.now() + 10 * SECOND
    await WorkerRegistry(bench.database, bench.clock, "w").report(WorkerPresence("smtp", until, "NETWORK_ERROR"))
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    found = await explain_campaign(bench.database, bench.clock, defaults, campaign.campaign_id, tenant_id=None)
    assert (found.state, found.until, found.remedy) == (CampaignState.HELD, until, Remedy.PROVIDER_RECOVERY)
    foreseen = await forecast(bench.database, bench.clock, defaults, tenant_id=DEFAULT_TENANT)
    assert ForecastAssumption.PROVIDER_RECOVERS in foreseen.assumptions


async def test_pause_outranks_an_outage(bench: Bench) -> None:
    campaign = await a_queued_campaign(bench, 5)
    until = bench.clock.now() + 10 * SECOND
    await WorkerRegistry(bench.database, bench.clock, "w").report(WorkerPresence("smtp", until, "NETWORK_ERROR"))
    await defer_lane(bench.database, campaign.lane, PAUSED, until + SECOND)
    assert await shown_reasons(bench, campaign) == {PAUSED}


async def test_one_usable_provider_means_no_outage(bench: Bench) -> None:
    campaign = await a_queued_campaign(bench, 5)
    until = bench.clock.now() + 10 * SECOND
    await WorkerRegistry(bench.database, bench.clock, "w").report(
        WorkerPresence("smtp", until, "NETWORK_ERROR"), WorkerPresence("ses")
    )
    assert await shown_reasons(bench, campaign) == {None}


@pytest.mark.promise("throttled-rate")
async def test_throttled_campaign_shows_the_learned_rate(bench: Bench) -> None:
    campaign = await a_queued_campaign(bench, 120)
    for worker in ("a", "b"):
        await WorkerRegistry(bench.database, bench.clock, worker).report(WorkerPresence("ses", learned_rate=6.0))
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    found = await explain_campaign(bench.database, bench.clock, defaults, campaign.campaign_id, tenant_id=None)
    assert found.limit is not None
    assert (found.state, found.reason, found.limit.allowed) == (CampaignState.SENDING, None, 12)
    assert "to about 12 messages per second" in campaign_text(found).sentence
    foreseen = await forecast(bench.database, bench.clock, defaults, tenant_id=DEFAULT_TENANT)
    assert (foreseen.rate, foreseen.campaigns[0].segments[0].reason) == (12, "provider_throttled")
    assert ForecastAssumption.LEARNED_RATE in foreseen.assumptions
