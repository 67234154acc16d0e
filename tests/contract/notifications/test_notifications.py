"""The queue contract, on a separate SQLite or PostgreSQL database and in a schema of our own database."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from email import message_from_bytes, policy
from html import unescape
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import select, text

from mailwright.app.notification_queue import notification_config, open_configured_queue
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, ManualClock
from mailwright.domain.errors import ConfigurationInvalid, NotPossibleNow
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.outbox.audit import audit
from mailwright.outbox.settle import SentProof, record_proofs
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.sources.notifications import fanout as fanout_module
from mailwright.sources.notifications.producer import EmittedEvent, NewEvent
from mailwright.sources.notifications.service import NotificationService
from mailwright.storage.tables import messages
from tests.builders import FAULT, REFUSAL, SENT, THROTTLE, UNKNOWN, claims_of, deliveries_of, suppress
from tests.notifications import (
    MOST,
    PLACES,
    HookedDatabase,
    QueueOwner,
    QueueSetup,
    a_queue_setup,
    a_queue_setup_at,
    make_tables,
)
from tests.standins.provider import ScriptedProvider

LOCK_TTL = 120 * SECOND


class Crash(Exception):
    """Simulates the end of the worker process."""


@pytest.fixture(params=PLACES)
async def setup(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[QueueSetup]:
    async with a_queue_setup_at(request.param, request, tmp_path, clock) as setup:
        yield setup


def service_of(setup: QueueSetup) -> NotificationService:
    config = notification_config(setup.bench.engine.settings)
    return NotificationService(setup.bench.database, setup.clock, setup.queue, config, 1)


async def test_listed_address_has_no_spaces_around_it(setup: QueueSetup) -> None:
    number = await setup.owner.notification(subscription={"contact_value": "  reader@example.com \n"})
    [listed] = await service_of(setup).list_notifications()
    assert (listed.to, (await service_of(setup).find(number)).to) == ("reader@example.com", "reader@example.com")


def html_of(message: OutgoingMessage) -> str:
    """Return the HTML as an email client shows it."""
    parsed = message_from_bytes(message.content, policy=policy.default)
    body = parsed.get_body(("html",))
    assert body is not None
    return unescape(body.get_content())


def fault(**changes: Any) -> SendResult:
    return replace(FAULT, **changes)


# Successful sends.


async def test_sent_message_is_recorded_in_row_and_timeline(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    provider = ScriptedProvider(SENT)
    await setup.round(provider)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, row.locked_by, row.locked_at) == ("sent", 1, None, None)
    assert await setup.owner.error(number) == {
        "provider": "scripted",
        "providerMessageId": "<id-of-the-provider>",
        "status": "sent",
    }
    [entry] = await setup.owner.timeline()
    assert (entry.event_type, entry.section_status_snapshot, entry.subscription_id) == ("notify_sent", "Open", 1)


async def test_message_carries_trace_and_ids_of_its_row(setup: QueueSetup) -> None:
    await setup.owner.notification()
    await setup.round(ScriptedProvider())
    async with setup.bench.database.read() as tx:
        [message] = await tx.execute(select(messages))
    assert message.request_id == "trace-1"
    assert message.to_email == "reader1@example.com"
    ids = {"subscriptionId": 1, "openEventId": 1, "term": "92026", "campus": "NB", "dedupeKey": "dedupe-1"}
    assert orjson.loads(message.payload)["metadata"] == ids


async def test_timeline_records_current_section_status(setup: QueueSetup) -> None:
    await setup.owner.insert_sections(open_status="Wait")  # changed again after the event
    await setup.owner.notification(event={"status_after": "Open"}, payload={"courseTitle": None, "sectionNumber": None})
    provider = ScriptedProvider()
    await setup.round(provider)
    [entry] = await setup.owner.timeline()
    assert entry.section_status_snapshot == "Wait"
    text = html_of(provider.messages[0])
    assert "01:198:112" in text
    assert "M 09:00–10:00 TIL 124, TH 13:00–14:20 LSB" in text


async def test_every_message_has_manage_and_unsubscribe_links(setup: QueueSetup) -> None:
    await setup.owner.notification()
    await setup.owner.notification(subscription={"unsubscribe_token": None})
    provider = ScriptedProvider()
    await setup.round(provider)
    first, second = (html_of(message) for message in provider.messages)
    assert "https://seats.example/subscriptions/1" in first
    assert "https://seats.example/subscriptions/1/unsubscribe?token=token-1" in first
    assert second.count("https://seats.example/subscriptions/2") >= 2


async def test_message_has_headers_of_automatic_email(setup: QueueSetup) -> None:
    await setup.owner.notification()
    await setup.owner.notification(subscription={"unsubscribe_token": None})
    provider = ScriptedProvider()
    await setup.round(provider)
    first, second = (message_from_bytes(message.content, policy=policy.default) for message in provider.messages)
    assert [email["Auto-Submitted"] for email in (first, second)] == ["auto-generated"] * 2
    assert first["List-Unsubscribe"] == "<https://seats.example/subscriptions/1/unsubscribe?token=token-1>"
    assert first["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert second["List-Unsubscribe"] is None  # Without a token, no link unsubscribes at once.


@pytest.mark.parametrize("key", ["92026|NB|10001→Open", "dedupe-7", "two\nlines"])
async def test_dedupe_key_reaches_provider_and_survives_requeue(setup: QueueSetup, key: str) -> None:
    number = await setup.owner.notification(dedupe_key=key)
    provider = ScriptedProvider(REFUSAL, SENT)
    fanout = await setup.round(provider)
    assert (await setup.owner.row(number)).fanout_status == "failed"
    await service_of(setup).requeue(number, actor="test")
    await setup.round(provider, fanout)
    first, second = provider.messages
    assert first.outbox_id != second.outbox_id
    assert first.dedupe_key == second.dedupe_key
    emails = [message_from_bytes(message.content, policy=policy.default) for message in provider.messages]
    assert [email["X-Dedupe-Key"] for email in emails] == [first.dedupe_key] * 2
    assert (first.dedupe_key == key) is ("\n" not in key)


async def test_message_is_in_subscriber_locale_or_fallback(setup: QueueSetup) -> None:
    for locale in ("ru", "pt-BR", "fr", None):
        await setup.owner.notification(subscription={"locale": locale})
    provider = ScriptedProvider()
    await setup.round(provider)
    languages = [html_of(message).partition('lang="')[2][:2] for message in provider.messages]
    assert languages == ["ru", "pt", "en", "en"]


# Retries.


async def test_temporary_failure_leaves_row_pending_and_unlocked(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    await setup.round(ScriptedProvider(fault(retry_after=1_500)))
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, row.locked_by, row.locked_at) == ("pending", 1, None, None)
    assert row.last_attempt_at == setup.owner.now
    assert await setup.owner.error(number) == {
        "provider": "scripted",
        "status": "retryable",
        "code": "TEMPORARY",
        "message": "later",
        "retryAfterSeconds": 2,
    }
    assert await setup.owner.timeline() == []


async def test_retry_follows_the_schedule(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    provider = ScriptedProvider(FAULT, FAULT, SENT)
    fanout = await setup.round(provider)
    await setup.round(provider, fanout)  # the first delay is zero
    assert (await setup.owner.row(number)).fanout_attempts == 2
    setup.advance(2 * SECOND - 1)
    await setup.round(provider, fanout)
    assert len(provider.messages) == 2
    setup.advance(1)
    await setup.round(provider, fanout)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 3)


async def test_retry_after_delays_every_worker(setup: QueueSetup) -> None:
    await setup.owner.notification()
    provider = ScriptedProvider(fault(retry_after=30 * SECOND), SENT)
    await setup.round(provider)
    setup.advance(30 * SECOND - 1)
    await setup.round(provider, await setup.fanout("another"))
    assert len(provider.messages) == 1
    setup.advance(1)
    await setup.round(provider, await setup.fanout("a third"))
    assert await setup.owner.statuses() == {"sent": 1}


@pytest.mark.promise("notify-foreign-rows")
@pytest.mark.parametrize(
    "refusal",
    [
        replace(THROTTLE, retry_after=30 * SECOND),
        replace(FAULT, is_deferral=True, retry_after=30 * SECOND),
        replace(FAULT, is_deferral=True, blames_provider=True, retry_after=30 * SECOND, definitely_not_sent=False),
    ],
    ids=["throttled", "greylisted", "503"],
)
async def test_temporary_rejection_is_an_attempt_at_once(setup: QueueSetup, refusal: SendResult) -> None:
    number = await setup.owner.notification()
    provider = ScriptedProvider(refusal, SENT)
    fanout = await setup.round(provider)
    row, error = await setup.owner.row(number), await setup.owner.error(number)
    assert (row.fanout_status, row.fanout_attempts, row.locked_by, row.locked_at) == ("pending", 1, None, None)
    assert row.last_attempt_at == setup.owner.now
    assert (error["status"], error["code"], error["retryAfterSeconds"]) == ("retryable", refusal.code, 30)
    found = await service_of(setup).find(number)
    assert found.wait is not None
    assert (found.wait.reason, found.wait.until) == ("retry", setup.clock.now() + 30 * SECOND)
    assert str(refusal.code) in found.wait.detail
    setup.advance(30 * SECOND)
    await setup.round(provider, fanout)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 2)


@pytest.mark.promise("notify-foreign-rows")
async def test_rejections_end_the_row_at_its_maximum(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    provider = ScriptedProvider(*[THROTTLE] * 9)
    fanout = await setup.fanout()
    for _ in range(6):
        await setup.round(provider, fanout)
        setup.advance(10 * SECOND)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.messages)) == ("failed", 3, 3)
    assert (await setup.owner.error(number))["code"] == THROTTLE.code


DOWN = replace(
    FAULT,
    code="NETWORK_ERROR",
    message="connection refused",
    is_deferral=True,
    blames_provider=True,
    is_completed=False,
)


@pytest.mark.promise("notify-foreign-rows")
async def test_outage_costs_no_attempt_and_is_named(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    provider = ScriptedProvider(DOWN, SENT)
    fanout = await setup.round(provider)
    row, error = await setup.owner.row(number), await setup.owner.error(number)
    assert (row.fanout_status, row.fanout_attempts, row.last_attempt_at) == ("pending", 0, None)
    assert row.locked_by == "worker-1"
    assert error == {
        "provider": "scripted",
        "status": "deferred",
        "code": "NETWORK_ERROR",
        "message": "connection refused",
    }
    found = await service_of(setup).find(number)
    assert found.wait is not None
    assert (found.wait.reason, found.wait.detail) == (
        "provider_unavailable",
        "scripted: NETWORK_ERROR: connection refused",
    )
    assert found.explanation is not None
    [listed] = await service_of(setup).list_notifications()
    assert listed.wait == found.wait
    setup.advance(10 * SECOND)
    await setup.round(provider, fanout)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 1)


@pytest.mark.promise("notify-foreign-rows")
async def test_outage_is_named_in_rows_that_were_never_tried(setup: QueueSetup) -> None:
    provider = ScriptedProvider(*[DOWN] * 50)
    numbers = [await setup.owner.notification() for _ in range(8)]
    await setup.round(provider)
    late = await setup.owner.notification()
    fanout = await setup.fanout()
    await fanout.claim_due(MOST)
    report = WorkerPresence("scripted", setup.clock.now() + 10 * SECOND, "NETWORK_ERROR: connection refused")
    await WorkerRegistry(setup.bench.database, setup.clock, "sender").report(report)
    setup.advance(SECOND)
    await fanout.record_results()
    for number in (*numbers, late):
        row, error = await setup.owner.row(number), await setup.owner.error(number)
        assert (row.fanout_status, row.fanout_attempts) == ("pending", 0)
        assert (error["status"], error["code"]) == ("deferred", "NETWORK_ERROR")


@pytest.mark.promise("notify-foreign-rows")
async def test_outage_named_in_a_row_is_replaced_by_its_result(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    provider = ScriptedProvider(DOWN, FAULT, SENT)
    fanout = await setup.round(provider)
    assert await fanout.locks.release() == 1  # the worker stops during the outage
    row = await setup.owner.row(number)
    assert (row.fanout_attempts, row.locked_by) == (0, None)
    other = await setup.fanout("other")
    await setup.round(provider, other)
    assert (await setup.owner.error(number))["status"] == "retryable"
    assert (await setup.owner.row(number)).fanout_attempts == 1
    await setup.round(provider, other)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 2)


# Permanent failures.


TERMINAL = [
    ({"subscription": {"contact_value": "not an address"}}, "failed", "INVALID_RECIPIENT", "/recipient/email"),
    ({"subscription": {"contact_value": None}}, "failed", "INVALID_RECIPIENT", "/recipient"),
    ({"subscription": {"status": "unsubscribed"}}, "skipped", "UNSUBSCRIBED", "/subscription/status"),
    ({"subscription": {"status": "paused"}}, "skipped", "SUBSCRIPTION_NOT_ACTIVE", "/subscription/status"),
    ({"subscription": {"contact_type": "sms"}}, "skipped", "NON_EMAIL_CONTACT", "/subscription/contactType"),
    ({"payload": {"courseTitle": None}}, "failed", "MISSING_VARIABLE", "/template/variables/courseTitle"),
    ({"payload": {"version": "2.0"}}, "failed", "UNSUPPORTED_VERSION", "/version"),
    ({"payload": {"version": "next"}}, "failed", "INVALID_PAYLOAD", "/version"),
    ({"payload": {"eventType": "unheard-of"}}, "failed", "UNKNOWN_EVENT_TYPE", "/event/payload/eventType"),
    ({"event": {"event_at": "yesterday"}}, "failed", "INVALID_PAYLOAD", "/event/eventAt"),
    ({"event": {"payload": "{"}}, "failed", "INVALID_PAYLOAD", "/event/payload"),
    ({"event": {"term_id": None}}, "failed", "INVALID_PAYLOAD", "/event"),
    ({"subscription": {"metadata": "{"}}, "failed", "INVALID_PREFERENCES", "/subscription/preferences"),
    ({"preferences": {"deliveryWindow": {"startMinutes": 9_999}}}, "failed", "INVALID_PREFERENCES", None),
    ({"preferences": {"notifyOn": ["Closed"]}}, "skipped", "NOT_WANTED", None),
    ({"preferences": {"maxNotifications": 0}}, "skipped", "MAX_NOTIFICATIONS_REACHED", None),
    ({"open_event_id": 4_711}, "failed", "EVENT_NOT_FOUND", "/openEventId"),
    ({"subscription_id": 4_711}, "failed", "SUBSCRIPTION_NOT_FOUND", "/subscriptionId"),
]


async def test_invalid_row_records_reason_and_one_attempt(setup: QueueSetup) -> None:
    numbers = [await setup.owner.notification(**changes) for changes, *_ in TERMINAL]
    provider = ScriptedProvider()
    await setup.round(provider)
    assert provider.messages == []
    for number, (changes, status, code, path) in zip(numbers, TERMINAL, strict=True):
        row, error = await setup.owner.row(number), await setup.owner.error(number)
        assert (row.fanout_status, row.fanout_attempts, row.locked_by) == (status, 1, None), changes
        assert error["code"] == code, (changes, error)
        assert error["message"]
        assert path is None or error["path"] == path, (changes, error)
        assert "not an address" not in str(error)


async def test_rejected_or_suppressed_address_ends_its_row(setup: QueueSetup) -> None:
    rejected, suppressed = await setup.owner.notification(), await setup.owner.notification()
    await suppress(setup.bench.database, "reader2@example.com")
    await setup.round(ScriptedProvider(REFUSAL))
    row = await setup.owner.row(rejected)
    assert (row.fanout_status, row.fanout_attempts) == ("failed", 1)
    assert (await setup.owner.error(rejected))["code"] == "REFUSED"
    row = await setup.owner.row(suppressed)
    assert (row.fanout_status, row.fanout_attempts) == ("skipped", 1)
    assert (await setup.owner.error(suppressed))["code"] == "RECIPIENT_SUPPRESSED"


@pytest.mark.parametrize("is_verified", [0, None])
async def test_active_subscription_is_served_without_verification_flag(
    setup: QueueSetup, is_verified: int | None
) -> None:
    await setup.owner.notification(subscription={"is_verified": is_verified})
    await setup.owner.notification(subscription={"is_verified": is_verified, "status": "pending"})
    await setup.round(ScriptedProvider())
    assert await setup.owner.statuses() == {"sent": 1, "skipped": 1}


async def test_newer_minor_version_may_add_fields(setup: QueueSetup) -> None:
    await setup.owner.notification(payload={"version": "1.7", "newField": {"a": 1}})
    await setup.round(ScriptedProvider())
    assert await setup.owner.statuses() == {"sent": 1}


async def test_old_row_expires_without_an_attempt(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    setup.advance(DAY)
    provider = ScriptedProvider()
    await setup.round(provider)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, provider.messages) == ("expired", 0, [])
    assert (await setup.owner.error(number))["code"] == "EXPIRED"


# Exhausted attempts and requeueing.


async def test_row_without_attempts_left_fails_with_last_error(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    fanout = await setup.fanout()
    for _ in range(4):
        await setup.round(ScriptedProvider(FAULT), fanout)
        setup.advance(10 * SECOND)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, row.locked_by) == ("failed", 3, None)
    assert await setup.owner.error(number) == {
        "provider": "scripted",
        "status": "retryable",
        "code": "TEMPORARY",
        "message": "later",
    }
    assert await setup.bench.statuses() == {"FAILED": 1}
    assert (await audit(setup.bench.database)).ok


async def test_row_exhausted_by_others_fails_unchanged(setup: QueueSetup) -> None:
    number = await setup.owner.notification(fanout_attempts=3, error='{"code": "THEIRS"}')
    provider = ScriptedProvider()
    await setup.round(provider)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, row.error) == ("failed", 3, '{"code": "THEIRS"}')
    assert provider.messages == []


@pytest.mark.parametrize("by", ["service", "sql"])
async def test_requeued_row_gets_all_attempts_again(setup: QueueSetup, by: str) -> None:
    number = await setup.owner.notification()
    fanout = await setup.round(ScriptedProvider(REFUSAL))
    await setup.owner.change("subscriptions", 1, contact_value="corrected@example.com")
    if by == "service":
        await service_of(setup).requeue(number, actor="test")
    else:
        reset = {"fanout_status": "pending", "fanout_attempts": 0, "error": None}
        await setup.owner.change("open_event_notifications", number, **reset)
    provider = ScriptedProvider(FAULT, SENT)
    await setup.round(provider, fanout)
    assert (await setup.owner.row(number)).fanout_attempts == 1
    await setup.round(provider, fanout)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 2)
    assert {message.recipients for message in provider.messages} == {("corrected@example.com",)}


async def test_reset_of_sent_row_does_not_resend(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    provider = ScriptedProvider()
    fanout = await setup.round(provider)
    with pytest.raises(NotPossibleNow):
        await service_of(setup).requeue(number, actor="test")
    reset = {"fanout_status": "pending", "fanout_attempts": 0, "error": None}
    await setup.owner.change("open_event_notifications", number, **reset)
    await setup.round(provider, fanout)
    assert (await setup.owner.row(number)).fanout_status == "sent"
    assert (len(provider.messages), len(await setup.owner.timeline())) == (1, 1)


# Locks and crashed workers.


async def test_claim_locks_row_without_an_attempt(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    await (await setup.fanout("mine")).claim_due(MOST)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("pending", 0)
    assert (row.locked_by, row.locked_at) == ("mine", setup.owner.now)


async def test_locked_row_is_skipped_until_lock_expires(setup: QueueSetup) -> None:
    # Time formats of other programs.
    now = setup.owner.now
    locks = [now, now.replace("T", " ").replace("Z", ""), now.replace("Z", "+00:00")]
    for locked_at in locks:
        await setup.owner.notification(locked_by="theirs", locked_at=locked_at)
    provider = ScriptedProvider()
    setup.advance(LOCK_TTL)
    fanout = await setup.round(provider)
    assert provider.messages == []
    setup.advance(1)
    await setup.round(provider, fanout)
    assert await setup.owner.statuses() == {"sent": len(locks)}


async def test_two_workers_never_claim_the_same_row(setup: QueueSetup) -> None:
    for _ in range(20):
        await setup.owner.notification()
    mine, theirs = await setup.fanout("mine"), await setup.fanout("theirs")
    claimed = await asyncio.gather(mine.claim_due(MOST), theirs.claim_due(MOST))
    assert sum(claimed) == len(await deliveries_of(setup.bench.database)) == 20
    rows = await setup.queue.pending(setup.clock.now() + 1, 0, MOST)  # as a slow worker read them before
    assert await mine.process_rows([replace(row, locked_at=None) for row in rows], setup.clock.now()) == 0


async def test_lock_is_renewed_while_message_waits(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    fanout = await setup.fanout("mine")
    await fanout.claim_due(MOST)
    for _ in range(6):
        setup.advance(LOCK_TTL // 2)
        await fanout.locks.renew()
        assert await (await setup.fanout("theirs")).claim_due(MOST) == 0
    assert (await setup.owner.row(number)).locked_by == "mine"
    await setup.bench.drain(ScriptedProvider())
    await fanout.record_results()
    assert (await setup.owner.row(number)).fanout_status == "sent"


async def test_message_of_dead_worker_is_taken_over_once(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    await (await setup.fanout("dead")).claim_due(MOST)
    setup.advance(LOCK_TTL + 1)
    provider = ScriptedProvider()
    await setup.round(provider, await setup.fanout("alive"))
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.messages)) == ("sent", 1, 1)


async def test_result_of_dead_worker_is_recorded_without_resend(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    await (await setup.fanout("dead")).claim_due(MOST)
    provider = ScriptedProvider()
    await setup.bench.drain(provider)  # sent, but the result was not recorded
    setup.advance(LOCK_TTL + 1)
    await setup.round(provider, await setup.fanout("alive"))
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.messages)) == ("sent", 1, 1)
    assert len(await setup.owner.timeline()) == 1


@pytest.mark.promise("notify-foreign-rows")
async def test_doubt_counts_at_once_and_is_resent_with_same_id(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    provider = ScriptedProvider(UNKNOWN, SENT, reports_events=True)
    fanout = await setup.round(provider)
    at = setup.owner.now
    row, error = await setup.owner.row(number), await setup.owner.error(number)
    assert (row.fanout_status, row.fanout_attempts, row.last_attempt_at) == ("pending", 1, at)
    assert row.locked_by == "worker-1"
    assert (error["status"], error["code"], error["provider"]) == ("in_doubt", UNKNOWN.code, "scripted")
    found = await service_of(setup).find(number)
    assert found.wait is not None
    assert found.wait.reason == "in_doubt"
    assert str(UNKNOWN.code) in found.wait.detail
    assert found.explanation is not None
    await fanout.record_results()  # Stating it again changes nothing.
    assert (await setup.owner.row(number)).fanout_attempts == 1
    for _ in range(10):
        setup.advance(LOCK_TTL // 2)
        await fanout.locks.renew()
        await setup.round(provider, fanout)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 2)
    assert len(set(provider.outbox_ids)) == 1
    assert len(provider.messages) == 2


@pytest.mark.promise("notify-foreign-rows")
async def test_report_of_a_doubt_adds_no_attempt(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    fanout = await setup.round(ScriptedProvider(UNKNOWN, reports_events=True))
    [delivery] = await deliveries_of(setup.bench.database)

    async def prove(tx: Any) -> None:
        await record_proofs(tx, [SentProof(delivery.message_key, delivery.tenant_id)], setup.clock.now())

    await setup.bench.database.transact(prove)
    await fanout.record_results()
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 1)


@pytest.mark.promise("notify-foreign-rows")
async def test_doubt_of_the_last_attempt_is_not_resent(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    provider = ScriptedProvider(FAULT, FAULT, UNKNOWN, SENT)
    fanout = await setup.fanout()
    for _ in range(6):
        await setup.round(provider, fanout)
        setup.advance(10 * SECOND)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.messages)) == ("pending", 3, 3)
    assert (await setup.owner.error(number))["status"] == "in_doubt"
    for _ in range(30):
        setup.advance(HOUR)
        await fanout.locks.renew()
        await setup.round(provider, fanout)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.messages)) == ("failed", 3, 3)


@pytest.mark.promise("notify-foreign-rows")
async def test_doubt_of_a_dead_worker_is_counted_once(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    database = HookedDatabase(setup.bench.database)
    dying = await setup.fanout("dying", database=database)
    await dying.claim_due(MOST)
    provider = ScriptedProvider(UNKNOWN, SENT, reports_events=True)
    await setup.bench.drain(provider)

    async def crash() -> None:
        raise Crash

    database.before_transact = crash
    with pytest.raises(Crash):
        await dying.record_results()  # the row states the doubt, and the link does not know it
    assert (await setup.owner.row(number)).fanout_attempts == 1
    another = await setup.fanout("another")
    for _ in range(10):
        setup.advance(LOCK_TTL // 2)
        await another.locks.renew()
        await setup.round(provider, another)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.messages)) == ("sent", 2, 2)


@pytest.mark.promise("notify-foreign-rows")
async def test_crash_between_commits_never_counts_attempt_twice(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    database = HookedDatabase(setup.bench.database)
    fanout = await setup.fanout("dying", database=database)
    await fanout.claim_due(MOST)
    provider = ScriptedProvider(FAULT, SENT)
    await setup.bench.drain(provider)

    async def crash() -> None:
        raise Crash

    database.before_transact = crash
    if setup.queue.is_shared:  # one commit did both, so nothing is left to record
        assert await fanout.record_results() == 0
    else:
        with pytest.raises(Crash):
            await fanout.record_results()
    assert (await setup.owner.row(number)).fanout_attempts == 1
    another = await setup.fanout("another")
    await another.record_results()
    assert (await setup.owner.row(number)).fanout_attempts == 1
    await setup.round(provider, another)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 2)


@pytest.mark.promise("notify-foreign-rows")
async def test_shared_queue_is_updated_in_the_settling_commit(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    await (await setup.fanout()).claim_due(MOST)
    await setup.bench.drain(ScriptedProvider())
    status = (await setup.owner.row(number)).fanout_status
    assert status == ("sent" if setup.queue.is_shared else "pending")
    await (await setup.fanout()).record_results()
    assert (await setup.owner.row(number)).fanout_status == "sent"


@pytest.mark.promise("notify-foreign-rows")
async def test_unrecordable_results_do_not_block_others(setup: QueueSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout_module, "BATCH", 2)
    numbers = [await setup.owner.notification() for _ in range(5)]
    fanout = await setup.fanout("mine")
    await fanout.claim_due(MOST)
    for number in numbers[:3]:  # another worker has their locks now
        await setup.owner.change("open_event_notifications", number, locked_by="theirs")
    await setup.bench.drain(ScriptedProvider())
    await fanout.record_results()
    statuses = [(await setup.owner.row(number)).fanout_status for number in numbers]
    assert statuses == ["pending"] * 3 + ["sent"] * 2
    setup.advance(LOCK_TTL + 1)
    provider = ScriptedProvider()
    await setup.round(provider, fanout)
    assert (await setup.owner.statuses(), provider.messages) == ({"sent": 5}, [])


async def test_worker_counts_its_locked_rows(setup: QueueSetup) -> None:
    for _ in range(3):
        await setup.owner.notification()
    mine, theirs = await setup.fanout("mine"), await setup.fanout("theirs")
    await mine.claim_due(MOST)
    assert (await mine.locks.count(), await theirs.locks.count()) == (3, 0)
    await setup.round(ScriptedProvider(), mine)
    assert await mine.locks.count() == 0


async def test_shutdown_releases_rows_that_were_not_started(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    stopping = await setup.fanout("stopping")
    await stopping.claim_due(MOST)
    assert await stopping.locks.release() == 1
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, row.locked_by, row.locked_at) == ("pending", 0, None, None)
    provider = ScriptedProvider()
    await setup.bench.drain(provider)
    assert provider.messages == []  # a message is not sent while its row is unlocked
    await setup.round(provider, await setup.fanout("next"))
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.messages)) == ("sent", 1, 1)


async def test_released_and_reclaimed_message_can_be_released(setup: QueueSetup) -> None:
    await setup.owner.notification()
    stopping = await setup.fanout("stopping")
    await stopping.claim_due(MOST)
    await stopping.locks.release()
    await (await setup.fanout("next")).claim_due(MOST)
    claims = claims_of(setup.bench.database, setup.clock)
    await claims.release(await claims.claim(1))
    assert len(await claims.claim(1)) == 1


async def test_unsubscribed_between_attempts_gets_no_message(setup: QueueSetup) -> None:
    number = await setup.owner.notification()
    provider = ScriptedProvider(FAULT)
    fanout = await setup.round(provider)
    await setup.owner.change("subscriptions", 1, status="unsubscribed")
    await setup.round(provider, fanout)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.messages)) == ("skipped", 2, 1)
    assert await setup.bench.statuses() == {"CANCELLED": 1}
    assert (await audit(setup.bench.database)).ok


# Waits.


@pytest.mark.promise("explain-campaign")
async def test_every_wait_has_reason_and_end(setup: QueueSetup) -> None:
    now = setup.clock.now()
    minute = now // MINUTE % 1440
    window = {"startMinutes": (minute + 60) % 1440, "endMinutes": (minute + 120) % 1440}
    snooze = "2030-01-01T00:00:00Z"
    waiting = {
        "delivery_window": await setup.owner.notification(preferences={"deliveryWindow": window}),
        "snoozed": await setup.owner.notification(preferences={"snoozeUntil": snooze}),
        "locked": await setup.owner.notification(locked_by="theirs", locked_at=setup.owner.now),
    }
    provider = ScriptedProvider()
    fanout = await setup.round(provider)
    service = service_of(setup)
    for reason, number in waiting.items():
        notification = await service.find(number)
        assert notification.wait is not None
        assert (notification.row.status, notification.wait.reason) == ("pending", reason)
        assert notification.wait.until > now
        assert notification.wait.detail
    assert provider.messages == []
    setup.advance(60 * MINUTE)
    await setup.round(provider, fanout)
    assert (await setup.owner.row(waiting["delivery_window"])).fanout_status == "sent"


async def test_one_of_two_duplicates_in_window_is_sent(setup: QueueSetup) -> None:
    first = await setup.owner.notification(dedupe_key="same", preferences={})
    second = await setup.owner.notification(dedupe_key="same", subscription_id=1)
    fanout = await setup.fanout()
    provider = ScriptedProvider(FAULT, SENT)
    await setup.round(provider, fanout)
    notification = await service_of(setup).find(second)
    assert notification.wait is not None
    assert notification.wait.reason == "dedupe"
    await setup.round(provider, fanout)
    await setup.round(provider, fanout)
    assert (await setup.owner.row(first)).fanout_status == "sent"
    assert (await setup.owner.row(second)).fanout_status == "skipped"
    assert (await setup.owner.error(second))["code"] == "DUPLICATE"
    setup.advance(180 * SECOND)
    later = await setup.owner.notification(dedupe_key="same", subscription_id=1)
    await setup.round(provider, fanout)
    assert (await setup.owner.row(later)).fanout_status == "sent"


async def test_late_visible_row_waits_for_duplicate_in_progress(
    setup: QueueSetup,
) -> None:
    """Ids are assigned before commit, so of two concurrent writers the lower id may become visible last."""
    first = await setup.owner.notification(dedupe_key="same", preferences={})
    second = await setup.owner.notification(dedupe_key="same", subscription_id=1)
    await setup.owner.change("open_event_notifications", first, fanout_status="failed")  # not visible yet
    fanout = await setup.fanout()
    assert await fanout.claim_due(MOST) == 1
    await setup.owner.change("open_event_notifications", first, fanout_status="pending")
    provider = ScriptedProvider()
    for _ in range(2):
        await setup.round(provider, fanout)
    assert [(await setup.owner.row(each)).fanout_status for each in (first, second)] == ["skipped", "sent"]
    assert len(provider.messages) == 1


async def test_maximum_of_subscriber_holds_for_concurrent_rows(setup: QueueSetup) -> None:
    await setup.owner.notification(preferences={"maxNotifications": 2})
    for _ in range(3):
        await setup.owner.notification(subscription_id=1)
    provider = ScriptedProvider(FAULT)
    fanout = await setup.fanout()
    await fanout.claim_due(MOST)
    [_, _, third, _] = await setup.owner.rows()
    wait = (await service_of(setup).find(third.notification_id)).wait
    assert wait is not None
    assert wait.reason == "maximum"
    for _ in range(4):
        await setup.round(provider, fanout)
    assert await setup.owner.statuses() == {"sent": 2, "skipped": 2}
    assert len(await setup.owner.timeline()) == 2


async def test_maximum_of_subscriber_holds_across_workers(setup: QueueSetup) -> None:
    """One worker has locked the first row but not created its message when another claims the second."""
    await setup.owner.notification(preferences={"maxNotifications": 1})
    await setup.owner.notification(subscription_id=1)
    database = HookedDatabase(setup.bench.database)
    one, other = await setup.fanout("one", database=database), await setup.fanout("other")

    async def claim() -> None:
        assert await other.claim_due(MOST) == 1

    database.before_transact = claim
    assert await one.claim_due(MOST) == 0
    rows = [(row.locked_by, row.fanout_attempts) for row in await setup.owner.rows()]
    assert rows == [(None, 0), ("other", 0)]
    provider = ScriptedProvider()
    for fanout in (other, one, other):
        await setup.round(provider, fanout)
    assert (await setup.owner.statuses(), len(provider.messages)) == ({"sent": 1, "skipped": 1}, 1)


# Validation at startup.


async def test_incomplete_queue_is_rejected_with_all_problems(tmp_path: Path, empty_sqlite: bytes) -> None:
    ours, theirs = tmp_path / "mailwright.db", f"sqlite:///{tmp_path}/queue.db"
    ours.write_bytes(empty_sqlite)
    await make_tables(theirs, without=("last_attempt_at", "locked_by", "TABLE subscription_events"))
    with pytest.raises(ConfigurationInvalid) as rejected:
        async with a_queue_setup(f"sqlite:///{ours}", theirs, None, ManualClock()):
            pass
    problems = "\n".join(rejected.value.problems)
    assert len(rejected.value.problems) == 3
    for name in ("notifications.last_attempt_at", "notifications.locked_by", "subscription_events"):
        assert name in problems


async def test_queue_with_ten_columns_works(setup: QueueSetup) -> None:
    """The queue has exactly the columns of its contract, without `created_at`: the age of a row is its event's."""
    await drop_column(setup, "open_event_notifications", "created_at")
    owner = setup.owner
    async with open_configured_queue(setup.bench.engine.settings, setup.bench.database) as queue:
        setup = replace(setup, queue=queue)
        event = await owner.event(1)
        row = {"open_event_id": event, "subscription_id": await owner.subscriber(1), "dedupe_key": "one"}
        await insert_row(owner, row)
        late = await owner.event(2, event_at="2020-01-01T00:00:00Z")
        await insert_row(owner, {**row, "open_event_id": late, "subscription_id": await owner.subscriber(2)})
        twin = await owner.event(1, event_at=owner.now)
        await insert_row(owner, {**row, "open_event_id": twin})
        provider = ScriptedProvider()
        fanout = await setup.round(provider)
        await setup.round(provider, fanout)
        assert await statuses_of(owner) == ["sent", "expired", "skipped"]
        setup.advance(200 * SECOND)
        again = await owner.event(1)
        await insert_row(owner, {**row, "open_event_id": again})  # outside of the window of the first event
        await setup.round(provider, fanout)
        service = service_of(setup)
        [newest] = await service.list_notifications(limit=1)
        assert newest.row.status == "sent"
        setup.advance(200 * SECOND)
        emitted = await service.emit(SEAT)
        assert emitted.notifications == 1
        assert len(provider.messages) == 2


async def drop_column(setup: QueueSetup, table: str, column: str) -> None:
    prefix = f"{setup.owner.schema}." if setup.owner.schema else ""
    async with setup.owner.database.write() as tx:
        await tx.execute(text(f"ALTER TABLE {prefix}{table} DROP COLUMN {column}"))


async def insert_row(owner: QueueOwner, values: dict[str, Any]) -> None:
    prefix = f"{owner.schema}." if owner.schema else ""
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    async with owner.database.write() as tx:
        await tx.execute(text(f"INSERT INTO {prefix}open_event_notifications ({names}) VALUES ({marks})"), values)


async def statuses_of(owner: QueueOwner) -> list[str]:
    prefix = f"{owner.schema}." if owner.schema else ""
    async with owner.database.read() as tx:
        query = text(f"SELECT fanout_status FROM {prefix}open_event_notifications ORDER BY notification_id")
        return [row.fanout_status for row in await tx.execute(query)]


# Written events.


SEAT = NewEvent(term_id="92026", campus_code="NB", index_number="10001", status_before="Closed", status_after="Open")


async def event_of(setup: QueueSetup, emitted: EmittedEvent) -> Any:
    known = setup.owner.table("open_events")
    async with setup.owner.database.read() as tx:
        [row] = await tx.execute(select(known).where(known.c.open_event_id == emitted.open_event_id))
    return row


async def test_written_event_keeps_the_facts_of_its_detection(setup: QueueSetup) -> None:
    await setup.owner.insert_sections()
    await setup.owner.subscriber(1)
    service = service_of(setup)
    row = await event_of(setup, await service.emit(SEAT))
    payload = orjson.loads(row.payload)
    assert row.section_id == 7
    assert (payload["courseTitle"], payload["sectionNumber"]) == ("Data Structures", "05")
    assert re.fullmatch("[0-9a-f]{64}", payload["snapshotHash"])
    prefix = f"{setup.owner.schema}." if setup.owner.schema else ""
    async with setup.owner.database.write() as tx:
        await tx.execute(text(f"UPDATE {prefix}courses SET title = 'Renamed'"))
        await tx.execute(text(f"UPDATE {prefix}sections SET section_number = '99'"))
    provider = ScriptedProvider()
    await setup.round(provider)
    html = html_of(provider.messages[0])
    assert "Data Structures" in html
    assert "Renamed" not in html


async def test_facts_of_the_event_itself_win(setup: QueueSetup) -> None:
    await setup.owner.insert_sections()
    given = {"courseTitle": "Own title", "snapshotHash": "abc", "sectionNumber": None}
    row = await event_of(setup, await service_of(setup).emit(replace(SEAT, payload=given, section_id=4_711)))
    assert row.section_id == 4_711
    assert orjson.loads(row.payload) == {"courseTitle": "Own title", "snapshotHash": "abc"}


async def test_event_without_sections_stores_section_of_subscribers(setup: QueueSetup) -> None:
    await setup.owner.subscriber(1, section_id=12)
    row = await event_of(setup, await service_of(setup).emit(SEAT))
    assert row.section_id == 12
    await setup.owner.subscriber(1, section_id=13)
    setup.advance(MINUTE * 10)
    ambiguous = await event_of(setup, await service_of(setup).emit(SEAT))
    assert ambiguous.section_id is None
    assert set(orjson.loads(ambiguous.payload)) == {"snapshotHash"}


@pytest.mark.promise("notify-foreign-rows")
async def test_foreign_queue_file_keeps_its_schema(tmp_path: Path, empty_sqlite: bytes) -> None:
    ours, file = tmp_path / "mailwright.db", tmp_path / "queue.db"
    ours.write_bytes(empty_sqlite)
    await make_tables(f"sqlite:///{file}")
    before = schema_of(file)
    async with a_queue_setup(f"sqlite:///{ours}", f"sqlite:///{file}", None, ManualClock()) as setup:
        await setup.owner.notification()
        await setup.round(ScriptedProvider())
        assert await setup.owner.statuses() == {"sent": 1}
    assert schema_of(file) == before


def schema_of(file: Path) -> Any:
    with closing(sqlite3.connect(file)) as connection:
        journal = connection.execute("PRAGMA journal_mode").fetchall()
        return journal, connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
