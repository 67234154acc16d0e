"""Waves: a small part of the audience first, and the next part if the guard rails find nothing."""

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import update

from mailwright.app.limits import default_limits
from mailwright.domain.campaign import NEXT_WAVE, CampaignStatus
from mailwright.domain.clock import HOUR, MINUTE, Instant
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.guard_rails import DEFAULT_GUARD_RAILS
from mailwright.domain.report import ContactVerdict
from mailwright.outbox.limits import DefaultLimits
from mailwright.sources.campaigns import enqueue
from mailwright.sources.campaigns.enqueue import size_of_waves
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.forecast_values import CampaignForecast
from mailwright.sources.campaigns.guard_actions import CampaignGuardActions
from mailwright.sources.campaigns.review import ChangedSinceReview, review_started
from mailwright.storage.tables import queue_entries
from mailwright.texts.explanations import campaign_text
from tests.builders import FAULT, Bench
from tests.campaigns import OPERATOR, CampaignHarness, a_definition
from tests.contract.campaigns.test_guard_rails import explained, report, sent_ids
from tests.standins.provider import ScriptedProvider

WAVES = {"percents": [1, 10], "waitMinutes": 60}


@pytest.fixture
def desk(bench: Bench) -> CampaignHarness:
    return CampaignHarness(bench)


@pytest.fixture
def guard(bench: Bench) -> CampaignGuardActions:
    return CampaignGuardActions(bench.database, bench.clock, DEFAULT_GUARD_RAILS)


async def drain(desk: CampaignHarness, *answers: Any) -> None:
    await desk.bench.drain(ScriptedProvider(*answers))


async def a_forecast(desk: CampaignHarness) -> CampaignForecast:
    defaults = DefaultLimits(default_limits(desk.bench.engine.settings))
    found = await forecast(desk.database, desk.clock, defaults, tenant_id=None, measured_rate=1e6)
    return found.campaigns[0]


@pytest.mark.promise("waves")
async def test_each_wave_reaches_its_share_once(desk: CampaignHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue, "BATCH_SIZE", 70)
    campaign_id = await desk.start(300, waves=WAVES)
    sent = []
    for _ in range(3):
        await drain(desk)
        sent.append((await desk.counts(campaign_id)).sent)
        if len(sent) < 3:
            assert await desk.deferral(campaign_id) == ("next_wave", HOUR)
            desk.clock.advance(HOUR)
    assert sent == [3, 30, 300]
    assert await desk.status(campaign_id) == CampaignStatus.SENT
    assert len(set(await desk.addresses(campaign_id))) == 300
    assert (await desk.audit_actions(campaign_id)).count("open_wave") == 2


async def test_wave_waits_before_it_opens_and_says_until_when(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(200, waves=WAVES)
    await drain(desk)
    desk.clock.advance(HOUR - MINUTE)
    await drain(desk)
    why = await explained(desk, campaign_id)
    assert (why.state, why.reason, why.until) == ("held", "next_wave", desk.clock.now() + MINUTE)
    assert campaign_text(why).sentence.startswith("Wave 1 of 3 is sent. The next wave opens at ")
    assert [action.kind for action in why.actions] == ["open_wave", "pause_campaign", "cancel_campaign"]
    counts = await desk.counts(campaign_id)
    assert (counts.sent, counts.not_enqueued) == (2, 198)


@pytest.mark.promise("waves")
async def test_bad_wave_holds_the_next_until_a_person_acts(desk: CampaignHarness, guard: CampaignGuardActions) -> None:
    campaign_id = await desk.start(500, waves={"percents": [5], "waitMinutes": 60})
    await drain(desk)
    await report(desk, (await sent_ids(desk, campaign_id))[:5], ContactVerdict.HARD_BOUNCE)
    desk.clock.advance(2 * HOUR)
    await drain(desk)
    counts, position = await desk.counts(campaign_id), await desk.position(campaign_id)
    assert (counts.recipients, position.defer_reason) == (25, "guard_rails")
    assert await desk.status(campaign_id) == CampaignStatus.SENDING
    why = await explained(desk, campaign_id)
    assert "Its guard rails hold the next wave: 5 hard bounces among 25 emails (20 %)" in campaign_text(why).sentence
    assert (await desk.audit_actions(campaign_id))[-1] == "hold_wave"
    await desk.campaigns.pause(OPERATOR, campaign_id)
    await desk.campaigns.resume(OPERATOR, campaign_id)
    await drain(desk)
    assert (await desk.position(campaign_id)).defer_reason == "guard_rails"
    await guard.open_next_wave(OPERATOR, campaign_id)
    await drain(desk)
    assert len(await sent_ids(desk, campaign_id)) == 500


async def test_person_can_open_the_next_wave_early(desk: CampaignHarness, guard: CampaignGuardActions) -> None:
    campaign_id = await desk.start(100, waves=WAVES)
    with pytest.raises(NotPossibleNow):
        await guard.open_next_wave(OPERATOR, campaign_id)
    await drain(desk)
    seen = review_started(await desk.campaign(campaign_id))
    await guard.open_next_wave(OPERATOR, campaign_id, wave=1, reviewed=seen)
    await drain(desk)
    assert (await desk.counts(campaign_id)).sent == 10
    with pytest.raises(NotPossibleNow, match="Wave 2 was opened meanwhile"):
        await guard.open_next_wave(OPERATOR, campaign_id, wave=1, reviewed=seen)
    await desk.edit_limits(campaign_id, ratePerHour=1_000)
    with pytest.raises(ChangedSinceReview, match="limits"):
        await guard.open_next_wave(OPERATOR, campaign_id, wave=2, reviewed=seen)
    await guard.open_next_wave(OPERATOR, campaign_id)
    await drain(desk)
    assert await desk.status(campaign_id) == CampaignStatus.SENT


async def test_wave_stays_closed_if_counts_cannot_be_read(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(100, waves=WAVES)
    await drain(desk)
    async with desk.database.write() as tx:
        await tx.execute(update(queue_entries).values(limits='{"guard_rails": {"minMessages": "many"}}'))
    desk.clock.advance(3 * HOUR)
    await drain(desk)
    assert (await desk.counts(campaign_id)).recipients == 1


async def test_pause_keeps_the_time_of_the_next_wave(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(100, waves=WAVES)
    await drain(desk)
    await desk.campaigns.pause(OPERATOR, campaign_id)
    desk.clock.advance(30 * MINUTE)
    await desk.campaigns.resume(OPERATOR, campaign_id)
    assert await desk.deferral(campaign_id) == ("next_wave", 30 * MINUTE)


async def test_retried_recipient_does_not_delay_the_next_wave(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(200, waves=WAVES)
    await drain(desk, FAULT)
    assert await desk.deferral(campaign_id) == ("next_wave", HOUR)
    desk.clock.advance(HOUR)
    await drain(desk)
    assert (await desk.counts(campaign_id)).sent == 20


async def test_two_schedulers_open_a_wave_once(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(300, waves=WAVES)
    await drain(desk)
    desk.clock.advance(HOUR)
    await asyncio.gather(*(desk.run_scheduler() for _ in range(4)))
    assert (await desk.counts(campaign_id)).recipients == 30
    assert (await desk.audit_actions(campaign_id)).count("open_wave") == 1


@pytest.mark.promise("forecast-comes-true")
@pytest.mark.parametrize("waves_sent", [0, 1, 2])
async def test_workers_follow_the_forecast_of_waves(desk: CampaignHarness, waves_sent: int) -> None:
    campaign_id = await desk.start(200, waves=WAVES, limits={"ratePerHour": 80})
    for _ in range(waves_sent):
        await drain(desk)
        desk.clock.advance(20 * MINUTE)
    found = await a_forecast(desk)
    assert (found.remaining, found.finishes_at is None) == (200 - (await desk.counts(campaign_id)).sent, False)
    finished_at = await run_until_sent(desk, campaign_id)
    assert abs((found.finishes_at or 0) - finished_at) <= MINUTE
    assert any(segment.reason == NEXT_WAVE for segment in found.segments)


async def run_until_sent(desk: CampaignHarness, campaign_id: str) -> Instant:
    for _ in range(30):
        await drain(desk)
        if await desk.status(campaign_id) == CampaignStatus.SENT:
            return desk.clock.now()
        until = (await desk.position(campaign_id)).deferred_until
        desk.clock.advance((until or desk.clock.now() + MINUTE) - desk.clock.now())
    raise AssertionError("The campaign did not finish.")


@pytest.mark.parametrize("recipients", [0, 1, 7, 99, 100, 250, 1_234])
def test_waves_are_nested_and_have_their_share(recipients: int) -> None:
    sizes = [size_of_waves(recipients, percent) for percent in (1, 10, 50, 99)]
    assert sizes == sorted(sizes)
    assert all(abs(size - recipients * share / 100) <= 2 for size, share in zip(sizes, (1, 10, 50, 99), strict=True))


@pytest.mark.parametrize("percents", [[], [10, 1], [5, 5], [0], [100], list(range(1, 11))])
def test_invalid_waves_are_refused(percents: list[int]) -> None:
    with pytest.raises(ValidationError):
        a_definition(waves={"percents": percents})


def test_waves_and_an_ab_test_are_refused_together() -> None:
    test = {"variants": [{"name": "a"}, {"name": "b"}], "testPercent": 20}
    with pytest.raises(ValidationError, match="cannot be combined with an A/B test"):
        a_definition(waves=WAVES, experiment=test)
