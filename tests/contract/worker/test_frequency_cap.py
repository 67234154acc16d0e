"""Frequency caps: exact with several workers, never for transactional email, explained and foreseen."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from mailwright.app.limits import default_limits
from mailwright.app.retention import RetentionSweep
from mailwright.audience.snooze import snooze
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, ManualClock
from mailwright.domain.errors import InvalidInput
from mailwright.domain.explanation import Remedy
from mailwright.domain.frequency import FrequencyCap, parse_frequency_cap
from mailwright.domain.permits import Deferral
from mailwright.domain.retention import RetentionKind
from mailwright.domain.states import Status
from mailwright.outbox import tenants
from mailwright.outbox.explain import explain
from mailwright.outbox.frequency import delete_old_sends, free_at
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.retention_rules import list_rules, set_rule
from mailwright.sources.campaigns.checks import CampaignCheck, check_campaign
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.forecast import forecast
from mailwright.texts.explanations import campaign_text, message_text
from mailwright.worker.gate import Gate
from tests.builders import (
    DEFAULT_TENANT,
    FAULT,
    REFUSAL,
    Bench,
    a_bench,
    a_contact,
    a_message,
    a_newsletter,
    a_tenant,
    change_tenant,
    claims_of,
)
from tests.campaigns import OPERATOR, CampaignHarness, address_of, join
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider

ADA = "ada@example.com"


async def states(bench: Bench, ids: list[str]) -> Counter[str]:
    return Counter([(await bench.record(outbox_id)).summary.status for outbox_id in ids])


async def newsletters(bench: Bench, count: int, email: str = ADA, **changes: Any) -> list[str]:
    return await bench.accept(*(a_newsletter(to=email, **changes) for _ in range(count)))


async def drain(bench: Bench, *answers: Any) -> None:
    """Send what is due, and then what waited for messages in flight."""
    await bench.drain(ScriptedProvider(*answers))
    bench.clock.advance(SECOND)
    await bench.drain(ScriptedProvider())


@pytest.fixture(params=["database", "valkey"])
async def shared(engine: DatabaseAddress, clock: ManualClock, request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """An installation with and without Valkey."""
    url = request.getfixturevalue("valkey").url if request.param == "valkey" else None
    async with a_bench(engine.url, clock, redis_url=url) as bench:
        yield bench


@pytest.mark.promise("frequency-cap")
async def test_two_workers_never_exceed_the_cap(shared: Bench) -> None:
    bench = shared
    await change_tenant(bench.database, frequency_cap="3 per 7 days")
    people = [f"reader{number}@example.com" for number in range(20)]
    ids = [outbox_id for _ in range(5) for email in people for outbox_id in await newsletters(bench, 1, email)]
    provider = ScriptedProvider()
    for _ in range(2):
        await asyncio.gather(*(bench.drain(provider) for _ in range(2)))
        bench.clock.advance(SECOND)
    received = Counter(message.recipients[0] for message in provider.messages)
    assert received == Counter(dict.fromkeys(people, 3))
    assert await states(bench, ids) == {Status.SENT: 60, Status.FAILED: 40}


@pytest.mark.promise("frequency-cap")
async def test_transactional_email_is_neither_capped_nor_counted(bench: Bench) -> None:
    await change_tenant(bench.database, frequency_cap="1 per 7 days")
    before = await bench.accept(*(a_message(to=ADA) for _ in range(3)))
    await bench.drain(ScriptedProvider())
    ids = await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    after = await bench.accept(a_message(to=ADA))
    await bench.drain(ScriptedProvider())
    assert await states(bench, [*before, *ids, *after]) == {Status.SENT: 5}


async def test_message_waits_for_the_cap_and_says_until_when(bench: Bench) -> None:
    await change_tenant(bench.database, frequency_cap="2 per 2 days")
    first = await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    bench.clock.advance(HOUR)
    until = bench.clock.now() + 2 * DAY - HOUR
    second = await newsletters(bench, 2)
    await drain(bench)
    [waiting] = [each for each in second if (await bench.record(each)).summary.status == Status.PENDING]
    found = await explain(bench.database, bench.clock, waiting, tenant_id=DEFAULT_TENANT)
    assert (found.state, found.reason, found.until) == ("held", "frequency_cap", until)
    sentence = message_text(found).sentence
    assert "has received 2 of 2 bulk emails since " in sentence
    assert "This email can be sent from " in sentence
    bench.clock.advance(until - bench.clock.now())
    await bench.drain(ScriptedProvider())
    assert await states(bench, [*first, *second]) == {Status.SENT: 3}


@pytest.mark.promise("frequency-cap")
async def test_message_that_would_be_too_late_fails_with_the_reason(bench: Bench) -> None:
    await change_tenant(bench.database, frequency_cap="1 per 7 days")
    await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    [late] = await newsletters(bench, 1)
    [expiring] = await newsletters(bench, 1, expires_at=bench.clock.now() + HOUR)
    await bench.drain(ScriptedProvider())
    for each in (late, expiring):
        summary = (await bench.record(each)).summary
        assert (summary.status, summary.error_code) == (Status.FAILED, "FREQUENCY_CAP")
        assert "received 1 of 1 bulk emails within 7 days" in (summary.error_reason or "")


async def test_rejected_message_does_not_count(bench: Bench) -> None:
    await change_tenant(bench.database, frequency_cap="1 per 7 days")
    rejected = await newsletters(bench, 1)
    await bench.drain(ScriptedProvider(REFUSAL))
    sent = await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    assert await states(bench, rejected) == {Status.FAILED: 1}
    assert await states(bench, sent) == {Status.SENT: 1}


@pytest.mark.parametrize("limit", [1, 2])
async def test_message_takes_the_place_of_a_rejected_one(bench: Bench, limit: int) -> None:
    await change_tenant(bench.database, frequency_cap=f"{limit} per 7 days")
    ids = await newsletters(bench, 2 * limit)
    await drain(bench, *[REFUSAL] * limit)
    assert await states(bench, ids) == {Status.FAILED: limit, Status.SENT: limit}
    codes = {(await bench.record(each)).summary.error_code for each in ids}
    assert "FREQUENCY_CAP" not in codes


async def test_deleted_rejection_does_not_count(bench: Bench) -> None:
    await change_tenant(bench.database, frequency_cap="1 per 90 days")
    await newsletters(bench, 1)
    await bench.drain(ScriptedProvider(REFUSAL))
    await newsletters(bench, 1, "bob@example.com")
    await bench.drain(ScriptedProvider())
    bench.clock.advance(40 * DAY)
    await bench.accept(a_message())  # Newer than the rows that are deleted.
    rule = {"days": 30, "exports": False, "actor": "ada"}
    await set_rule(bench.database, bench.clock, DEFAULT_TENANT, RetentionKind.MESSAGES, **rule)
    sweep = RetentionSweep(bench.engine.settings, bench.database, bench.clock)
    assert sum([count.rows async for _, count in sweep.run(await list_rules(bench.database))]) == 2
    ids = [*await newsletters(bench, 1), *await newsletters(bench, 1, "bob@example.com")]
    await bench.drain(ScriptedProvider())
    assert [(await bench.record(each)).summary.status for each in ids] == [Status.SENT, Status.FAILED]


async def test_retried_message_counts_once(bench: Bench) -> None:
    await change_tenant(bench.database, frequency_cap="2 per 7 days")
    ids = await newsletters(bench, 1)
    await bench.drain(ScriptedProvider(FAULT))
    bench.clock.advance(HOUR)
    await bench.drain(ScriptedProvider())
    ids += await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    assert await states(bench, ids) == {Status.SENT: 2}


async def test_cap_is_per_tenant_and_can_be_turned_off(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with a_bench(engine.url, clock, frequency_cap="1 per 7 days") as bench:
        assert await states(bench, await sent_twice(bench)) == {Status.SENT: 1, Status.FAILED: 1}
        await change_tenant(bench.database, frequency_cap="off")
        assert await states(bench, await sent_twice(bench)) == {Status.SENT: 2}


async def a_capped_message(bench: Bench) -> str:
    """Return a message that a cap defers."""
    await change_tenant(bench.database, frequency_cap="1 per 2 days")
    await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    [waiting] = await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    assert await states(bench, [waiting]) == {Status.PENDING: 1}
    return waiting


@pytest.mark.promise("frequency-cap")
@pytest.mark.parametrize("cap", [None, "off", "2 per 2 days"])
async def test_changed_cap_releases_deferred_messages_at_once(bench: Bench, cap: str | None) -> None:
    waiting = await a_capped_message(bench)
    found = await explain(bench.database, bench.clock, waiting, tenant_id=DEFAULT_TENANT)
    assert found.reason == "frequency_cap"
    await tenants.change(bench.database, tenants.DEFAULT, frequency_cap=cap)
    found = await explain(bench.database, bench.clock, waiting, tenant_id=DEFAULT_TENANT)
    assert found.reason != "frequency_cap"
    await bench.drain(ScriptedProvider())
    assert await states(bench, [waiting]) == {Status.SENT: 1}


async def test_lowered_cap_defers_the_message_again(bench: Bench) -> None:
    waiting = await a_capped_message(bench)
    await tenants.change(bench.database, tenants.DEFAULT, frequency_cap="1 per 3 days")
    await bench.drain(ScriptedProvider())
    found = await explain(bench.database, bench.clock, waiting, tenant_id=DEFAULT_TENANT)
    assert (found.reason, found.until) == ("frequency_cap", bench.clock.now() + 3 * DAY)


async def test_deferral_by_a_cap_that_just_changed_ends(bench: Bench) -> None:
    """The worker decided with the old cap, and writes its deferral after the change."""
    await change_tenant(bench.database, frequency_cap="1 per 2 days")
    [outbox_id] = await newsletters(bench, 1)
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    gate = Gate(bench.database, bench.clock, DatabaseLedger(bench.database, bench.clock), defaults)
    claims = claims_of(bench.database, bench.clock)
    [admitted] = await gate.admit(claims, await claims.claim(1))
    await tenants.change(bench.database, tenants.DEFAULT, frequency_cap="off")
    await gate.defer([(admitted.claimed, Deferral(bench.clock.now() + DAY, "frequency_cap:1/2"))])
    await bench.drain(ScriptedProvider())
    assert await states(bench, [outbox_id]) == {Status.SENT: 1}


async def test_other_change_and_other_tenant_stay_deferred(bench: Bench) -> None:
    await a_tenant(bench.database, "other")
    waiting = await a_capped_message(bench)
    await tenants.change(bench.database, "other", frequency_cap="off")
    await tenants.change(bench.database, tenants.DEFAULT, weight=2)
    found = await explain(bench.database, bench.clock, waiting, tenant_id=DEFAULT_TENANT)
    assert found.reason == "frequency_cap"


@pytest.mark.parametrize("is_paused", [False, True])
async def test_campaign_that_ignores_the_cap_later_continues(bench: Bench, is_paused: bool) -> None:
    desk = CampaignHarness(bench)
    await change_tenant(bench.database, frequency_cap="1 per 2 days")
    await desk.start(5)
    await bench.drain(ScriptedProvider())
    campaign_id = await desk.start(name="Offer")
    await bench.drain(ScriptedProvider())
    found = await explain_campaign(
        bench.database,
        bench.clock,
        DefaultLimits(default_limits(bench.engine.settings)),
        campaign_id,
        tenant_id=DEFAULT_TENANT,
    )
    assert (found.reason, found.remedy) == ("frequency_cap", Remedy.CHANGE_FREQUENCY_CAP)
    if is_paused:
        await desk.campaigns.pause(OPERATOR, campaign_id)
    await desk.edit_limits(campaign_id, ignoreFrequencyCap="product recall")
    if is_paused:
        await desk.campaigns.resume(OPERATOR, campaign_id)
    await bench.drain(ScriptedProvider())
    assert (await desk.counts(campaign_id)).sent == 5


async def test_explanation_offers_to_change_the_cap(bench: Bench) -> None:
    waiting = await a_capped_message(bench)
    facts = await explain(bench.database, bench.clock, waiting, tenant_id=DEFAULT_TENANT)
    assert facts.remedy in (Remedy.CHANGE_FREQUENCY_CAP, Remedy.START_WORKER)
    advice = message_text(replace(facts, remedy=Remedy.CHANGE_FREQUENCY_CAP)).what_would_change or ""
    assert "Raise the frequency cap" in advice


async def sent_twice(bench: Bench) -> list[str]:
    ids = await newsletters(bench, 2)
    await drain(bench)
    return ids


async def test_exempt_campaign_ignores_the_cap_with_its_reason(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await change_tenant(bench.database, frequency_cap="1 per 7 days")
    await desk.start(5)
    await bench.drain(ScriptedProvider())
    exempt = await desk.start(name="Recall", limits={"ignoreFrequencyCap": "product recall"})
    capped = await desk.start(name="Offer")
    await bench.drain(ScriptedProvider())
    assert (await desk.counts(exempt)).sent == 5
    counts = await desk.counts(capped)
    assert (counts.sent, counts.suppressed, counts.failed) == (0, 5, 0)
    assert await desk.status(capped) == CampaignStatus.SENT


async def checked(bench: Bench, desk: CampaignHarness, campaign_id: str) -> CampaignCheck:
    campaign, now = await desk.campaign(campaign_id), bench.clock.now()
    definition = campaign.definition
    return await check_campaign(bench.database, bench.engine.templates, definition, tenant_id=DEFAULT_TENANT, now=now)


async def test_check_counts_capped_and_paused_recipients(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await change_tenant(bench.database, frequency_cap="1 per 2 days")
    await join(bench.database, [address_of(number) for number in range(5)])
    await newsletters(bench, 1, address_of(1))
    await newsletters(bench, 1, address_of(2))
    await bench.drain(ScriptedProvider())
    await newsletters(bench, 1, address_of(3))
    await bench.drain(ScriptedProvider(REFUSAL))
    for number in (2, 4):
        until = bench.clock.now() + DAY
        await snooze(bench.database, bench.clock, DEFAULT_TENANT, address_of(number), until, actor="test")
    found = await checked(bench, desk, await desk.create())
    assert (found.planned, found.held.capped, found.held.snoozed) == (5, 1, 2)
    warned = {issue.code: issue.sentence for issue in found.warnings}
    assert warned["FREQUENCY_CAP"].startswith("1 of 5 recipients have reached the frequency cap (1 per 2 days)")
    assert warned["SNOOZED"].startswith("2 of 5 recipients have paused bulk email")
    exempt = await checked(bench, desk, await desk.create(limits={"ignoreFrequencyCap": "product recall"}))
    assert (exempt.held.capped, exempt.held.snoozed) == (0, 2)
    later = await checked(bench, desk, await desk.create(scheduledAt=bench.clock.now() + 3 * DAY))
    assert (later.held.capped, later.held.snoozed) == (0, 0)


async def test_finished_campaign_that_nobody_received_says_why(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await change_tenant(bench.database, frequency_cap="1 per 7 days")
    await desk.start(5)
    await bench.drain(ScriptedProvider())
    until = bench.clock.now() + 7 * DAY
    await snooze(bench.database, bench.clock, DEFAULT_TENANT, address_of(0), until, actor="test")
    campaign_id = await desk.start(name="Offer")
    await bench.drain(ScriptedProvider())
    assert await desk.status(campaign_id) == CampaignStatus.SENT
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    found = await explain_campaign(bench.database, bench.clock, defaults, campaign_id, tenant_id=DEFAULT_TENANT)
    sentence = campaign_text(found).sentence
    assert "nobody received it: 4 recipients had reached the frequency cap" in sentence
    assert "1 recipient had paused bulk email" in sentence


async def test_failed_message_says_when_a_retry_helps(bench: Bench) -> None:
    await change_tenant(bench.database, frequency_cap="1 per 7 days")
    await a_contact(bench.database, ADA)
    await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    [capped] = await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    await snooze(bench.database, bench.clock, DEFAULT_TENANT, ADA, bench.clock.now() + 7 * DAY, actor="test")
    [snoozed] = await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    remedies = [(await explain(bench.database, bench.clock, each, tenant_id=None)).remedy for each in (capped, snoozed)]
    assert remedies == [Remedy.RETRY_BELOW_CAP, Remedy.RETRY_AFTER_PAUSE]


@pytest.mark.promise("forecast-comes-true")
async def test_workers_follow_the_forecast_of_capped_messages(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await change_tenant(bench.database, frequency_cap="1 per 2 days")
    await join(bench.database, [address_of(number) for number in range(20)])
    await newsletters(bench, 1, address_of(1))
    await bench.drain(ScriptedProvider())
    bench.clock.advance(5 * HOUR)
    await newsletters(bench, 1, address_of(2))
    await bench.drain(ScriptedProvider())
    campaign_id = await desk.start()
    await bench.drain(ScriptedProvider())
    assert (await desk.counts(campaign_id)).sent == 18
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    found = await forecast(bench.database, bench.clock, defaults, tenant_id=None, measured_rate=1e6)
    [course] = found.campaigns
    assert course.segments[0].reason == "frequency_cap"
    expected = [bench.clock.now() + 2 * DAY - 5 * HOUR, bench.clock.now() + 2 * DAY]
    for until, sent in zip(expected, (19, 20), strict=True):
        bench.clock.advance(until - bench.clock.now())
        await bench.drain(ScriptedProvider())
        assert (await desk.counts(campaign_id)).sent == sent
    assert course.finishes_at is not None
    assert abs(course.finishes_at - bench.clock.now()) <= MINUTE


async def test_old_sends_are_deleted(bench: Bench) -> None:
    await change_tenant(bench.database, frequency_cap="1 per 90 days")
    await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    bench.clock.advance(92 * DAY)
    await delete_old_sends(bench.database, bench.clock.now())
    ids = await newsletters(bench, 1)
    await bench.drain(ScriptedProvider())
    assert await states(bench, ids) == {Status.SENT: 1}


@pytest.mark.parametrize(
    "text", ["3", "0 per 7 days", "3 per 91 days", "3 per week", "2000 per 1 day", "-1 per 2 days"]
)
def test_invalid_cap_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_frequency_cap(text)


@pytest.mark.parametrize(
    ("text", "cap"), [("3 per 7 days", FrequencyCap(3, 7)), ("1 per day", FrequencyCap(1, 1)), ("off", None)]
)
def test_cap_is_parsed(text: str, cap: FrequencyCap | None) -> None:
    assert parse_frequency_cap(text) == cap


def test_place_is_free_when_the_oldest_counted_send_leaves() -> None:
    cap = FrequencyCap(2, 1)
    assert free_at(cap, [], 5 * DAY) is None
    assert free_at(cap, [4 * DAY, 5 * DAY], 5 * DAY) is None
    assert free_at(cap, [4 * DAY + 1, 4 * DAY + 9, 5 * DAY], 5 * DAY) == 5 * DAY + 9
