"""Snooze: contacts pause bulk email; messages wait or fail with the reason, and transactional email is sent."""

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.app.limits import default_limits
from mailwright.audience import contacts, erasure, personal_data
from mailwright.audience.contact_fields import InvalidContact
from mailwright.audience.export import ExportSelection, export_csv
from mailwright.audience.preferences import PreferenceChoice, update_preferences
from mailwright.audience.snooze import snooze
from mailwright.domain.clock import DAY, HOUR, MINUTE
from mailwright.domain.errors import NotFound
from mailwright.domain.states import Status
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.explain import explain
from mailwright.outbox.limits import DefaultLimits
from mailwright.sources.campaigns.forecast import forecast
from mailwright.storage.tables import bulk_sends
from mailwright.texts.explanations import message_text
from tests.builders import DEFAULT_TENANT, Bench, a_contact, a_message, a_newsletter, change_tenant
from tests.campaigns import CampaignHarness, address_of, join
from tests.standins.provider import ScriptedProvider

ADA = "ada@example.com"


@pytest.fixture
async def ada(bench: Bench) -> str:
    await a_contact(bench.database, ADA, name="Ada Lovelace")
    return ADA


async def pause(bench: Bench, days: float | None, email: str = ADA) -> None:
    until = None if days is None else bench.clock.now() + int(days * DAY)
    await snooze(bench.database, bench.clock, DEFAULT_TENANT, email, until, actor="test")


async def states(bench: Bench, *ids: str) -> Counter[str]:
    return Counter([(await bench.record(outbox_id)).summary.status for outbox_id in ids])


async def sent(bench: Bench, *messages: Any) -> list[str]:
    ids = await bench.accept(*messages)
    await bench.drain(ScriptedProvider())
    return ids


@pytest.mark.promise("snooze")
async def test_bulk_waits_for_the_pause_and_transactional_is_sent(bench: Bench, ada: str) -> None:
    await pause(bench, 2)
    bulk, receipt = await sent(bench, a_newsletter(to=ada), a_message(to=ada))
    assert (await states(bench, receipt), await states(bench, bulk)) == ({Status.SENT: 1}, {Status.PENDING: 1})
    found = await explain(bench.database, bench.clock, bulk, tenant_id=DEFAULT_TENANT)
    assert (found.state, found.reason, found.until) == ("held", "snoozed", bench.clock.now() + 2 * DAY)
    assert message_text(found).sentence.startswith("Ada Lovelace has paused bulk email until ")
    bench.clock.advance(2 * DAY)
    await bench.drain(ScriptedProvider())
    assert await states(bench, bulk) == {Status.SENT: 1}


@pytest.mark.promise("snooze")
async def test_message_that_would_be_too_late_fails(bench: Bench, ada: str) -> None:
    await pause(bench, 7)
    ids = await sent(bench, a_newsletter(to=ada), a_newsletter(to=ada, expires_at=bench.clock.now() + HOUR))
    for each in ids:
        summary = (await bench.record(each)).summary
        assert (summary.status, summary.error_code) == (Status.FAILED, "RECIPIENT_SNOOZED")


async def test_ended_pause_releases_its_messages(bench: Bench, ada: str) -> None:
    await pause(bench, 2)
    [bulk] = await sent(bench, a_newsletter(to=ada))
    await pause(bench, None)
    await bench.drain(ScriptedProvider())
    assert await states(bench, bulk) == {Status.SENT: 1}


async def test_pause_after_the_claim_stops_the_attempt(bench: Bench, ada: str) -> None:
    class PausingProvider(ScriptedProvider):
        async def send(self, message: Any) -> Any:
            await pause(bench, 2)
            return await super().send(message)

    ids = await bench.accept(a_message(), *(a_newsletter(to=ada) for _ in range(3)))
    await bench.drain(PausingProvider(capacity=1), window=1)
    assert await states(bench, *ids) == {Status.SENT: 1, Status.PENDING: 3}


async def test_campaign_counts_snoozed_recipients_as_suppressed(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await join(bench.database, [address_of(number) for number in range(5)])
    await pause(bench, 30, address_of(1))
    campaign_id = await desk.start()
    await bench.drain(ScriptedProvider())
    counts = await desk.counts(campaign_id)
    assert (counts.sent, counts.suppressed, await desk.status(campaign_id)) == (4, 1, "SENT")


@pytest.mark.promise("forecast-comes-true")
async def test_workers_follow_the_forecast_of_snoozed_messages(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await join(bench.database, [address_of(number) for number in range(10)])
    await pause(bench, 1, address_of(3))
    await pause(bench, 2, address_of(7))
    campaign_id = await desk.start()
    await bench.drain(ScriptedProvider())
    defaults = DefaultLimits(default_limits(bench.engine.settings))
    found = await forecast(bench.database, bench.clock, defaults, tenant_id=None, measured_rate=1e6)
    [course] = found.campaigns
    for expected in (9, 10):
        bench.clock.advance(DAY)
        await bench.drain(ScriptedProvider())
        assert (await desk.counts(campaign_id)).sent == expected
    assert course.finishes_at is not None
    assert abs(course.finishes_at - bench.clock.now()) <= MINUTE


async def test_pause_is_in_every_export_and_in_the_audit_log(bench: Bench, ada: str) -> None:
    await pause(bench, 7)
    day = "2027-01-22"
    exported = await personal_data.export_personal_data(bench.database, DEFAULT_TENANT, ada)
    assert exported["snoozedUntil"].startswith(day)
    selection = ExportSelection(DEFAULT_TENANT)
    rows = [part async for part in export_csv(bench.database, selection, bench.clock.now())]
    assert f",{day}T" in "".join(rows)
    entries = await list_entries(bench.database, tenant_id=DEFAULT_TENANT, limit=5, subject=ada)
    assert [entry.action for entry in entries] == ["contact.snooze"]


async def test_erasure_removes_pause_and_counted_sends(bench: Bench, ada: str) -> None:
    await change_tenant(bench.database, frequency_cap="3 per 7 days")
    await sent(bench, a_newsletter(to=ada))
    await pause(bench, 7)
    contact = await contacts.find_by_email(bench.database, DEFAULT_TENANT, ada)
    await erasure.erase(bench.database, bench.clock, DEFAULT_TENANT, ada, actor="test")
    erased = await contacts.find_by_id(bench.database, DEFAULT_TENANT, contact.contact_id)
    assert erased.snoozed_until is None
    async with bench.database.read() as tx:
        assert not await tx.execute(select(bulk_sends))


@pytest.mark.parametrize("days", [0, -1, 400])
async def test_invalid_pause_is_refused(bench: Bench, ada: str, days: int) -> None:
    with pytest.raises(InvalidContact):
        await pause(bench, days)


async def test_unknown_contact_cannot_be_paused(bench: Bench) -> None:
    with pytest.raises(NotFound):
        await pause(bench, 7, "nobody@example.com")


async def test_preference_page_sets_and_ends_a_pause(bench: Bench, ada: str) -> None:
    kept = PreferenceChoice(frozenset(), frozenset(), None)
    for days, until in ((30, bench.clock.now() + 30 * DAY), (None, bench.clock.now() + 30 * DAY), (0, None)):
        choice = PreferenceChoice(kept.shown, kept.selected, None, snooze_days=days)
        outcome = await update_preferences(bench.database, bench.clock, DEFAULT_TENANT, ada, choice, source="reader")
        assert outcome.after.snoozed_until == until
