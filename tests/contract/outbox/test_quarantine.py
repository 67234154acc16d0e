"""After a restore, a person sends or drops the messages that may have been sent, on both engines."""

import asyncio

import orjson
import pytest
from sqlalchemy import insert, select, update

from mailwright.app.sending import PausedSends, decide_quarantine, release_sending
from mailwright.domain.clock import DAY, MINUTE
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.states import OnDoubt, Resolution, Status
from mailwright.outbox import quarantine, sending_hold
from mailwright.outbox.quarantine import (
    QuarantinedMessages,
    QuarantineFilter,
    find_quarantine,
    resolve_quarantined,
)
from mailwright.outbox.sending_hold import DueMessages, HoldReason, SendingHold, hold_sending
from mailwright.sources.articles.runs import stop_open_runs
from mailwright.sources.campaigns.restored import list_running_campaigns
from mailwright.storage.database import Database
from mailwright.storage.tables import audit_log, campaign_runs, deliveries
from tests.builders import Bench, a_message, a_newsletter
from tests.campaigns import CampaignHarness
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("restore-held")


async def held(bench: Bench) -> None:
    await hold_sending(bench.database, SendingHold(HoldReason.RESTORED, bench.clock.now(), "Restored."))
    bench.clock.advance(MINUTE)


async def set_status(bench: Bench, status: Status) -> None:
    """Set the status of every message, as in a backup that was made during a send."""
    async with bench.database.write() as tx:
        now = bench.clock.now()
        values = {"status": status, "attempted_at": now, "in_doubt_since": now, "claimable_at": now}
        await tx.execute(update(deliveries).values(**values))


async def test_quarantine_lists_messages_that_may_have_been_sent(bench: Bench) -> None:
    await bench.accept(a_message(), a_message(), a_newsletter())
    await held(bench)
    await bench.accept(a_message())  # After the restore: certainly not sent.
    found = await find_quarantine(bench.database)
    assert found.hold is not None
    assert found.messages == [
        QuarantinedMessages("default", "api", None, None, 2, 0),
        QuarantinedMessages("default", "campaign", None, None, 1, 0),
    ]


async def test_quarantine_names_the_campaign(bench: Bench) -> None:
    harness = CampaignHarness(bench)
    campaign_id = await harness.start(recipients=2)
    await harness.run_scheduler()
    await held(bench)
    [found] = (await find_quarantine(bench.database)).messages
    assert (found.campaign_id, found.campaign_name, found.messages) == (campaign_id, "News of January", 2)


async def test_dropped_messages_are_never_sent(bench: Bench) -> None:
    old = await bench.accept(a_message(), a_newsletter())
    await held(bench)
    [later] = await bench.accept(a_message())
    await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.IN_DOUBT)
    assert await resolve_quarantined(bench.database, bench.clock, Resolution.CLOSE, actor="ada") == len(old)
    provider = ScriptedProvider()
    await bench.drain(provider)
    bench.clock.advance(DAY)
    await bench.drain(provider)
    assert provider.outbox_ids == [later]
    assert {(await bench.record(each)).summary.status for each in old} == {Status.CLOSED_UNKNOWN}
    assert (await find_quarantine(bench.database)).messages == []


async def test_released_messages_are_sent_once(bench: Bench) -> None:
    old = await bench.accept(a_message(), a_message())
    await held(bench)
    await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.IN_DOUBT)
    assert await resolve_quarantined(bench.database, bench.clock, Resolution.RESEND, actor="ada") == len(old)
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert sorted(provider.outbox_ids) == sorted(old)


async def test_first_of_two_decisions_counts(bench: Bench) -> None:
    await bench.accept(a_message(), a_newsletter())
    await held(bench)
    both = (release_sending(bench.database, bench.clock, actor=due, due=due) for due in DueMessages)
    results = await asyncio.gather(*both, return_exceptions=True)
    [refused] = [each for each in results if isinstance(each, BaseException)]
    assert isinstance(refused, NotPossibleNow)
    async with bench.database.read() as tx:
        entries = await tx.execute(select(audit_log.c.id).where(audit_log.c.action == "sending.release"))
    assert len(entries) == 1


async def test_newer_hold_survives_an_older_decision(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.accept(a_message())
    await held(bench)
    older = await sending_hold.require_hold(bench.database)
    await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.IN_DOUBT)
    await held(bench)

    async def find_older(_: Database) -> SendingHold:
        return older

    monkeypatch.setattr(sending_hold, "require_hold", find_older)
    with pytest.raises(NotPossibleNow, match="Someone else"):
        await sending_hold.release_hold(bench.database, bench.clock, actor="bob", due=DueMessages.SEND)
    assert (await find_quarantine(bench.database)).hold != older


async def test_decision_about_full_batches_is_in_the_audit_log(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "BATCH", 2)
    await bench.accept(*(a_message() for _ in range(4)))
    await held(bench)
    await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.IN_DOUBT)
    assert await resolve_quarantined(bench.database, bench.clock, Resolution.CLOSE, actor="ada") == 4
    async with bench.database.read() as tx:
        [entry] = await tx.execute(select(audit_log.c.detail).where(audit_log.c.action == "quarantine.resolve"))
    assert orjson.loads(entry.detail)["messages"] == 4


async def test_decision_about_one_source_leaves_the_others(bench: Bench) -> None:
    [single, newsletter] = await bench.accept(a_message(), a_newsletter())
    only = QuarantineFilter(tenant="default", source="campaign", campaign_id="")
    await held(bench)
    with pytest.raises(NotPossibleNow, match="Sending is on hold"):
        (await find_quarantine(bench.database)).count_undecided(only)
    await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.IN_DOUBT)
    found = await find_quarantine(bench.database)
    assert (found.count_undecided(), found.count_undecided(only)) == (2, 1)
    with pytest.raises(NotPossibleNow, match="nothing to do"):
        found.count_undecided(QuarantineFilter(campaign_id="another"))
    decided = await decide_quarantine(
        bench.database, bench.clock, Resolution.CLOSE, was_held=False, actor="ada", only=only
    )
    assert decided == (1, PausedSends())
    statuses = [(await bench.record(each)).summary.status for each in (single, newsletter)]
    assert statuses == [Status.IN_DOUBT, Status.CLOSED_UNKNOWN]
    async with bench.database.read() as tx:
        [entry] = await tx.execute(select(audit_log.c.detail).where(audit_log.c.action == "quarantine.resolve"))
    assert orjson.loads(entry.detail)["source"] == "campaign"


@pytest.mark.parametrize("status", [Status.SENT_ATTEMPT, Status.IN_DOUBT])
async def test_message_that_was_being_sent_is_not_resent(bench: Bench, status: Status) -> None:
    [message] = await bench.accept(a_message(on_doubt=OnDoubt.RESEND))
    await set_status(bench, status)
    await held(bench)
    provider = ScriptedProvider()
    await bench.drain(provider)  # While sending is held, nothing is decided.
    assert (await find_quarantine(bench.database)).messages[0].messages == 1
    await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.IN_DOUBT)
    bench.clock.advance(MINUTE)
    await bench.drain(provider)
    assert provider.messages == []
    assert (await bench.record(message)).summary.status == Status.IN_DOUBT


@pytest.mark.parametrize("due", list(DueMessages))
async def test_campaign_without_messages_yet_is_paused(bench: Bench, due: DueMessages) -> None:
    harness = CampaignHarness(bench)
    campaign_id = await harness.start(recipients=3)
    await held(bench)
    provider = ScriptedProvider()
    await harness.run_scheduler()  # Adds the recipients after the restore.
    assert len(await list_running_campaigns(bench.database)) == 1
    assert (await release_sending(bench.database, bench.clock, actor="ada", due=due))[1].campaigns == (campaign_id,)
    await bench.drain(provider)
    assert provider.messages == []
    assert await harness.status(campaign_id) == "PAUSED"


async def test_article_run_without_all_messages_is_stopped(bench: Bench) -> None:
    async with bench.database.write() as tx:
        run = {
            "run_id": "r",
            "tenant_id": 1,
            "campaign_tag": "t",
            "article_key": "a",
            "actor": "ada",
            "list_key": "news",
        }
        run |= {"send_batch_id": "b", "audience_filter": "{}", "content": "[]", "recipients": 0, "skipped": 0}
        await tx.execute(insert(campaign_runs).values(**run, enqueued_to="", started_at=1))
    await stop_open_runs(bench.database, bench.clock)
    async with bench.database.read() as tx:
        [row] = await tx.execute(select(campaign_runs))
    assert row.enqueue_ended_at is not None
    assert "restored" in row.failure
