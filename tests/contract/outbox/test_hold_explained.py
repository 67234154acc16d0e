"""A hold of all sending is named wherever a message or campaign is explained, and provider reports can cause one."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mailwright.app.sending import release_sending
from mailwright.checks.installation import check
from mailwright.domain.clock import HOUR, MINUTE, SECOND, ManualClock, isoformat
from mailwright.domain.explanation import CampaignState, ExplanationState, Remedy
from mailwright.domain.ids import uuid7
from mailwright.domain.report import Report
from mailwright.domain.states import EventType, Resolution, Status
from mailwright.events.unknown_sends import find_unknown_sends
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.explain import explain
from mailwright.outbox.operations import Operations
from mailwright.outbox.sending_hold import DueMessages, HoldReason, SendingHold, find_hold, hold_sending
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.forecast_values import ForecastAssumption
from mailwright.texts.explanations import campaign_text, deferral_text, message_text
from tests.api import Api, a_request, an_api
from tests.builders import DEFAULT_TENANT, Bench, a_message, a_newsletter, a_settler, claims_of, settings_for
from tests.campaigns import OPERATOR, CampaignHarness
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("restore-held")


@pytest.fixture
async def api(bench: Bench, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(bench.database, clock) as api:
        yield api


async def hold(bench: Bench, reason: HoldReason = HoldReason.RESTORED) -> None:
    await hold_sending(bench.database, SendingHold(reason, bench.clock.now(), "The database is older."))
    bench.clock.advance(MINUTE)


def a_report(bench: Bench, outbox_id: str, **changes: Any) -> Report:
    plain = {"source": "ses", "type": EventType.DELIVERED, "at": bench.clock.now(), "outbox_id": outbox_id}
    return Report(**{"key": f"report-{outbox_id}", **plain, **changes})


# Explanations.


@pytest.mark.parametrize("reason", HoldReason)
async def test_held_message_names_the_hold(bench: Bench, reason: HoldReason) -> None:
    since = bench.clock.now()
    [outbox_id] = await bench.accept(a_message())
    await hold(bench, reason)
    found = await explain(bench.database, bench.clock, outbox_id, tenant_id=DEFAULT_TENANT)
    assert (found.state, found.reason, found.held_since) == (ExplanationState.HELD, reason, since)
    assert found.remedy is Remedy.RELEASE_SENDING
    text = message_text(found)
    assert text.sentence.startswith("All sending has been on hold since 08:00 UTC")
    assert "An operator reviews the quarantine" in (text.what_would_change or "")


async def test_held_campaign_names_the_hold_everywhere(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    sending, paused = await desk.start(3), await desk.start(name="Later")
    await desk.campaigns.pause(OPERATOR, paused)
    await hold(bench)
    await desk.run_scheduler()
    for campaign_id in (sending, paused):
        found = await explain_campaign(
            bench.database, bench.clock, bench.engine.defaults, campaign_id, tenant_id=DEFAULT_TENANT
        )
        assert (found.state, found.reason, found.remedy) == (
            CampaignState.HELD,
            HoldReason.RESTORED,
            Remedy.RELEASE_SENDING,
        )
        assert campaign_text(found).sentence.startswith("All sending has been on hold since 08:00 UTC")
        position = await desk.position(campaign_id)
        assert position.defer_reason == HoldReason.RESTORED
        shown = deferral_text(position.defer_reason, position.deferred_until, bench.clock.now())
        assert shown == "All sending is on hold: database restored"
    assert (await desk.progress()).reason == HoldReason.RESTORED
    seen = await forecast(bench.database, bench.clock, bench.engine.defaults, tenant_id=DEFAULT_TENANT)
    assert seen.assumptions[0] is ForecastAssumption.SENDING_HELD
    assert [each.blocker for each in seen.campaigns] == [HoldReason.RESTORED] * 2


async def test_accepted_response_warns_of_the_hold(api: Api, bench: Bench) -> None:
    assert "sendingHeld" not in (await api.client.post("/v1/email/send", json=a_request())).json()
    since = bench.clock.now()
    await hold(bench)
    answer = await api.client.post("/v1/email/send", json=a_request())
    assert answer.status_code == 202
    held = answer.json()["sendingHeld"]
    assert (held["reason"], held["since"]) == ("database_restored", isoformat(since))
    assert held["sentence"].startswith("All sending has been on hold since 08:00 UTC")
    batch = await api.client.post("/v1/email/batch", json={"messages": [a_request()]})
    assert batch.json()["sendingHeld"] == held
    ready = await api.anonymous.get("/readyz")
    assert (ready.status_code, ready.json()["sendingHeld"]) == (200, "database_restored")
    why = await api.client.get(f"/v1/email/{answer.json()['outboxId']}/explain")
    assert (why.json()["state"], why.json()["heldSince"]) == ("held", isoformat(since))
    await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.SEND)
    bench.clock.advance(SECOND)
    assert "sendingHeld" not in (await api.client.post("/v1/email/send", json=a_request())).json()


async def test_check_names_the_hold_and_its_end(bench: Bench) -> None:
    await hold(bench)
    settings = settings_for(bench.database.url.render_as_string(hide_password=False))
    [found] = [each async for each in check(settings) if each.name == "sending"]
    assert "on hold since 15 Jan 2027, 08:00 UTC (database_restored)" in found.summary
    assert "mailwright quarantine release" in (found.advice or "")


# Reports.


async def test_report_of_one_unsent_message_holds_only_that_message(bench: Bench) -> None:
    reported, other = await bench.accept(a_message(), a_message())
    for kind in (EventType.DELIVERED, EventType.OPENED):  # The second event changes nothing either.
        await bench.engine.reports.receive([a_report(bench, reported, type=kind, key=kind)], by_address=True)
    assert await find_hold(bench.database) is None
    provider = ScriptedProvider()
    await bench.drain(provider)
    bench.clock.advance(HOUR)
    await bench.drain(provider)
    assert provider.outbox_ids == [other]
    record = await bench.record(reported)
    assert (record.summary.status, record.summary.error_code) == (Status.IN_DOUBT, "REPORTED_UNSENT")
    why = await explain(bench.database, bench.clock, reported, tenant_id=None)
    assert not why.will_resend
    # A person decides.
    await Operations(bench.database, bench.clock).resolve(reported, Resolution.RESEND, tenant_id=None)
    await bench.drain(provider)
    assert provider.outbox_ids == [other, reported]


async def test_claimed_message_that_was_reported_is_not_sent(bench: Bench) -> None:
    [reported] = await bench.accept(a_message())
    [claimed] = await claims_of(bench.database, bench.clock).claim(10)
    await bench.engine.reports.receive([a_report(bench, reported)], by_address=True)
    begun = await a_settler(bench.database, bench.clock).exchange([], [claimed])
    assert begun.message_keys == frozenset()


async def test_reports_of_several_unsent_messages_hold_sending(bench: Bench) -> None:
    sent, second, third, other = await bench.accept(a_message(), a_message(), a_message(), a_newsletter())
    # The provider has the messages, which this state of the database has not sent.
    await bench.engine.reports.receive([a_report(bench, each) for each in (sent, second)], by_address=True)
    assert await find_hold(bench.database) is None
    await bench.engine.reports.receive([a_report(bench, third)], by_address=True)
    found = await find_hold(bench.database)
    assert found is not None
    assert found.reason is HoldReason.REPORTED
    assert all(each in found.detail for each in (sent, second, third))
    [entry] = await list_entries(bench.database, tenant_id=None, limit=1)
    assert entry.action == "sending.hold"
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.messages == []

    doubted, _ = await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.IN_DOUBT)
    assert doubted == 1
    assert (await bench.record(sent)).summary.status == Status.SENT  # The report proves it.
    assert (await bench.record(other)).summary.status == Status.IN_DOUBT


async def test_unsent_messages_reported_over_hours_hold_no_others(bench: Bench) -> None:
    for outbox_id in await bench.accept(*(a_message() for _ in range(5))):
        await bench.engine.reports.receive([a_report(bench, outbox_id)], by_address=True)
        bench.clock.advance(HOUR // 2)
    assert await find_hold(bench.database) is None


async def test_released_sending_never_repeats_a_reported_message(bench: Bench) -> None:
    *sent, other = await bench.accept(*(a_message() for _ in range(4)))
    await bench.engine.reports.receive([a_report(bench, each) for each in sent], by_address=True)
    await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.SEND)
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.outbox_ids == [other]
    assert await find_hold(bench.database) is None


async def test_repeated_report_still_holds_sending(bench: Bench) -> None:
    reports = [a_report(bench, each) for each in await bench.accept(*(a_message() for _ in range(3)))]
    await bench.engine.reports.receive(reports)  # Recorded by a source that is not trusted.
    assert await find_hold(bench.database) is None
    await bench.engine.reports.receive(reports, by_address=True)
    assert await find_hold(bench.database) is not None


async def test_unverified_report_never_holds_sending(bench: Bench) -> None:
    [waiting] = await bench.accept(a_message())
    await bench.engine.reports.receive([a_report(bench, waiting, source="smtp", type=EventType.BOUNCED)])
    assert await find_hold(bench.database) is None


async def test_usual_reports_never_hold_sending(bench: Bench) -> None:
    ids = await bench.accept(a_message(), a_message())
    await bench.drain(ScriptedProvider())
    await bench.accept(a_message())
    await bench.engine.reports.receive([a_report(bench, each) for each in ids], by_address=True)
    assert await find_hold(bench.database) is None
    assert await find_unknown_sends(bench.database) is None


async def test_unknown_messages_are_recorded_and_hold_nothing(bench: Bench) -> None:
    unknown = [uuid7(bench.clock.now()) for _ in range(3)]
    await bench.engine.reports.receive([a_report(bench, each) for each in unknown[:2]], by_address=True)
    await bench.engine.reports.receive([a_report(bench, unknown[2], source="sendgrid")], by_address=True)
    await bench.engine.reports.receive([a_report(bench, "no-id-of-ours")], by_address=True)
    await bench.engine.reports.receive([a_report(bench, uuid7(0))])  # Not from a trusted source.
    assert await find_hold(bench.database) is None
    found = await find_unknown_sends(bench.database)
    assert found is not None
    assert (found.reports, found.source, found.outbox_id) == (3, "sendgrid", unknown[2])
