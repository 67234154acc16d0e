"""The contract of the queue, sentence by sentence: on SQLite and PostgreSQL beside us, and in our own database."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from email import message_from_bytes, policy
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from mailwright.domain.clock import DAY, MINUTE, SECOND, ManualClock
from mailwright.domain.errors import ConfigurationInvalid, NotPossibleNow
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.outbox.audit import audit
from mailwright.sources.notifications import fanout as fanning
from mailwright.sources.notifications.fanout import NotificationFanout
from mailwright.sources.notifications.service import NotificationService
from tests.builders import FAULT, REFUSAL, SENT, THROTTLE, UNKNOWN, claims_of, deliveries_of, suppress
from tests.notifications import MOST, PLACES, Stand, a_stand, a_stand_at, make_tables
from tests.standins.provider import ScriptedProvider

LOCK_TTL = 120 * SECOND


class Crash(Exception):
    """The worker's process has ended here."""


@pytest.fixture(params=PLACES)
async def stand(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Stand]:
    async with a_stand_at(request.param, request, tmp_path, clock) as stand:
        yield stand


def desk_of(stand: Stand, fanout: NotificationFanout) -> NotificationService:
    return NotificationService(stand.bench.database, stand.clock, stand.queue, fanout._house, 1)


def html_of(mail: OutgoingMessage) -> str:
    """As a reader's program shows it."""
    parsed = message_from_bytes(mail.content, policy=policy.default)
    body = parsed.get_body(("html",))
    assert body is not None
    return unescape(body.get_content())


def fault(**changes: Any) -> SendResult:
    return replace(FAULT, **changes)


# Sent.


async def test_a_mail_that_was_sent_is_told_to_its_row_and_its_subscriber(stand: Stand) -> None:
    number = await stand.seats.notification()
    provider = ScriptedProvider(SENT)
    await stand.round(provider)
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts, row.locked_by, row.locked_at) == ("sent", 1, None, None)
    assert await stand.seats.error(number) == {
        "provider": "scripted",
        "providerMessageId": "<id-of-the-provider>",
        "status": "sent",
    }
    [told] = await stand.seats.timeline()
    assert (told.event_type, told.section_status_snapshot, told.subscription_id) == ("notify_sent", "Open", 1)


async def test_the_timeline_has_the_status_that_the_section_has(stand: Stand) -> None:
    await stand.seats.tell_of_sections(open_status="Wait")  # it has changed again since the event
    await stand.seats.notification(event={"status_after": "Open"}, payload={"courseTitle": None, "sectionNumber": None})
    provider = ScriptedProvider()
    await stand.round(provider)
    [told] = await stand.seats.timeline()
    assert told.section_status_snapshot == "Wait"
    text = html_of(provider.mails[0])
    assert "01:198:112" in text
    assert "M 09:00–10:00 TIL 124, TH 13:00–14:20 LSB" in text


async def test_every_mail_has_its_ways_to_manage_and_to_leave(stand: Stand) -> None:
    await stand.seats.notification()
    await stand.seats.notification(subscription={"unsubscribe_token": None})
    provider = ScriptedProvider()
    await stand.round(provider)
    first, second = (html_of(mail) for mail in provider.mails)
    assert "https://seats.example/subscriptions/1" in first
    assert "https://seats.example/subscriptions/1/unsubscribe?token=token-1" in first
    assert second.count("https://seats.example/subscriptions/2") >= 2


async def test_each_reader_gets_the_mail_in_their_language_or_the_one_that_stands_in(stand: Stand) -> None:
    for locale in ("ru", "pt-BR", "fr", None):
        await stand.seats.notification(subscription={"locale": locale})
    provider = ScriptedProvider()
    await stand.round(provider)
    languages = [html_of(mail).partition('lang="')[2][:2] for mail in provider.mails]
    assert languages == ["ru", "pt", "en", "en"]


# Not now.


async def test_a_mail_that_failed_for_now_waits_in_its_row_without_a_lock(stand: Stand) -> None:
    number = await stand.seats.notification()
    await stand.round(ScriptedProvider(fault(retry_after=1_500)))
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts, row.locked_by, row.locked_at) == ("pending", 1, None, None)
    assert row.last_attempt_at == stand.seats.now
    assert await stand.seats.error(number) == {
        "provider": "scripted",
        "status": "retryable",
        "code": "TEMPORARY",
        "message": "later",
        "retryAfterSeconds": 2,
    }
    assert await stand.seats.timeline() == []


async def test_the_next_try_comes_by_the_schedule_and_not_before(stand: Stand) -> None:
    number = await stand.seats.notification()
    provider = ScriptedProvider(FAULT, FAULT, SENT)
    fanout = await stand.round(provider)
    await stand.round(provider, fanout)  # the first delay is none at all
    assert (await stand.seats.row(number)).fanout_attempts == 2
    stand.advance(2 * SECOND - 1)
    await stand.round(provider, fanout)
    assert len(provider.mails) == 2
    stand.advance(1)
    await stand.round(provider, fanout)
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 3)


async def test_what_a_provider_asks_for_lengthens_the_wait_for_every_worker(stand: Stand) -> None:
    await stand.seats.notification()
    provider = ScriptedProvider(fault(retry_after=30 * SECOND), SENT)
    await stand.round(provider)
    stand.advance(30 * SECOND - 1)
    await stand.round(provider, await stand.fanout("another"))
    assert len(provider.mails) == 1
    stand.advance(1)
    await stand.round(provider, await stand.fanout("a third"))
    assert await stand.seats.statuses() == {"sent": 1}


@pytest.mark.promise("notify-attempts")
async def test_a_provider_that_only_asks_us_to_slow_down_costs_no_attempt(stand: Stand) -> None:
    number = await stand.seats.notification()
    slow = ScriptedProvider(*[THROTTLE] * 100)
    fanout = await stand.round(slow)
    row = await stand.seats.row(number)
    assert slow.mails
    assert (row.fanout_status, row.fanout_attempts, row.locked_by) == ("pending", 0, "worker-1")
    for _ in range(5):
        stand.advance(10 * SECOND)
        await stand.round(ScriptedProvider(), fanout)
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 1)


# Never.


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


async def test_a_row_that_can_never_become_a_mail_says_why_and_counts_one_attempt(stand: Stand) -> None:
    numbers = [await stand.seats.notification(**changes) for changes, *_ in TERMINAL]
    provider = ScriptedProvider()
    await stand.round(provider)
    assert provider.mails == []
    for number, (changes, status, code, path) in zip(numbers, TERMINAL, strict=True):
        row, error = await stand.seats.row(number), await stand.seats.error(number)
        assert (row.fanout_status, row.fanout_attempts, row.locked_by) == (status, 1, None), changes
        assert error["code"] == code, (changes, error)
        assert error["message"]
        assert path is None or error["path"] == path, (changes, error)
        assert "not an address" not in str(error)


async def test_an_address_that_is_refused_or_has_left_ends_its_row(stand: Stand) -> None:
    refused, left = await stand.seats.notification(), await stand.seats.notification()
    await suppress(stand.bench.database, "reader2@example.com")
    await stand.round(ScriptedProvider(REFUSAL))
    row = await stand.seats.row(refused)
    assert (row.fanout_status, row.fanout_attempts) == ("failed", 1)
    assert (await stand.seats.error(refused))["code"] == "REFUSED"
    row = await stand.seats.row(left)
    assert (row.fanout_status, row.fanout_attempts) == ("skipped", 1)
    assert (await stand.seats.error(left))["code"] == "RECIPIENT_SUPPRESSED"


@pytest.mark.parametrize("is_verified", [0, None])
async def test_whoever_is_active_is_told_whether_or_not_their_program_keeps_who_is_verified(
    stand: Stand, is_verified: int | None
) -> None:
    await stand.seats.notification(subscription={"is_verified": is_verified})
    await stand.seats.notification(subscription={"is_verified": is_verified, "status": "pending"})
    await stand.round(ScriptedProvider())
    assert await stand.seats.statuses() == {"sent": 1, "skipped": 1}


async def test_a_newer_minor_version_may_say_more(stand: Stand) -> None:
    await stand.seats.notification(payload={"version": "1.7", "newField": {"a": 1}})
    await stand.round(ScriptedProvider())
    assert await stand.seats.statuses() == {"sent": 1}


async def test_what_is_older_than_it_is_of_use_expires_without_an_attempt(stand: Stand) -> None:
    number = await stand.seats.notification()
    stand.advance(DAY)
    provider = ScriptedProvider()
    await stand.round(provider)
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts, provider.mails) == ("expired", 0, [])
    assert (await stand.seats.error(number))["code"] == "EXPIRED"


# The end of all attempts, and from the beginning.


async def test_a_row_that_has_had_its_attempts_is_failed_and_keeps_the_last_one(stand: Stand) -> None:
    number = await stand.seats.notification()
    fanout = await stand.fanout()
    for _ in range(4):
        await stand.round(ScriptedProvider(FAULT), fanout)
        stand.advance(10 * SECOND)
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts, row.locked_by) == ("failed", 3, None)
    assert await stand.seats.error(number) == {
        "provider": "scripted",
        "status": "retryable",
        "code": "TEMPORARY",
        "message": "later",
    }
    assert await stand.bench.statuses() == {"FAILED": 1}
    assert (await audit(stand.bench.database)).ok


async def test_a_row_that_others_tried_often_enough_is_failed_as_it_is(stand: Stand) -> None:
    number = await stand.seats.notification(fanout_attempts=3, error='{"code": "THEIRS"}')
    provider = ScriptedProvider()
    await stand.round(provider)
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts, row.error) == ("failed", 3, '{"code": "THEIRS"}')
    assert provider.mails == []


@pytest.mark.parametrize("by", ["desk", "hand"])
async def test_what_was_requeued_gets_all_its_attempts_again(stand: Stand, by: str) -> None:
    number = await stand.seats.notification()
    fanout = await stand.round(ScriptedProvider(REFUSAL))
    await stand.seats.change("subscriptions", 1, contact_value="corrected@example.com")
    if by == "desk":
        await desk_of(stand, fanout).requeue(number, actor="test")
    else:
        reset = {"fanout_status": "pending", "fanout_attempts": 0, "error": None}
        await stand.seats.change("open_event_notifications", number, **reset)
    provider = ScriptedProvider(FAULT, SENT)
    await stand.round(provider, fanout)
    assert (await stand.seats.row(number)).fanout_attempts == 1
    await stand.round(provider, fanout)
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 2)
    assert {mail.recipients for mail in provider.mails} == {("corrected@example.com",)}


async def test_what_was_sent_is_not_sent_again_whoever_resets_its_row(stand: Stand) -> None:
    number = await stand.seats.notification()
    provider = ScriptedProvider()
    fanout = await stand.round(provider)
    with pytest.raises(NotPossibleNow):
        await desk_of(stand, fanout).requeue(number, actor="test")
    reset = {"fanout_status": "pending", "fanout_attempts": 0, "error": None}
    await stand.seats.change("open_event_notifications", number, **reset)
    await stand.round(provider, fanout)
    assert (await stand.seats.row(number)).fanout_status == "sent"
    assert (len(provider.mails), len(await stand.seats.timeline())) == (1, 1)


# Locks, and workers that end.


async def test_taking_a_row_locks_it_and_counts_nothing(stand: Stand) -> None:
    number = await stand.seats.notification()
    await (await stand.fanout("mine")).claim_due(MOST)
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("pending", 0)
    assert (row.locked_by, row.locked_at) == ("mine", stand.seats.now)


async def test_a_row_that_somebody_holds_is_left_alone_until_its_lock_ends(stand: Stand) -> None:
    # In the spellings that other programs have for a time.
    now = stand.seats.now
    locks = [now, now.replace("T", " ").replace("Z", ""), now.replace("Z", "+00:00")]
    for locked_at in locks:
        await stand.seats.notification(locked_by="theirs", locked_at=locked_at)
    provider = ScriptedProvider()
    stand.advance(LOCK_TTL)
    fanout = await stand.round(provider)
    assert provider.mails == []
    stand.advance(1)
    await stand.round(provider, fanout)
    assert await stand.seats.statuses() == {"sent": len(locks)}


async def test_of_two_workers_that_want_a_row_one_gets_it(stand: Stand) -> None:
    for _ in range(20):
        await stand.seats.notification()
    mine, theirs = await stand.fanout("mine"), await stand.fanout("theirs")
    taken = await asyncio.gather(mine.claim_due(MOST), theirs.claim_due(MOST))
    assert sum(taken) == len(await deliveries_of(stand.bench.database)) == 20
    rows = await stand.queue.pending(stand.clock.now() + 1, 0, MOST)  # as a slow worker saw them before
    assert await mine._deal_with([replace(row, locked_at=None) for row in rows], stand.clock.now()) == 0


async def test_a_lock_is_renewed_while_its_mail_waits(stand: Stand) -> None:
    number = await stand.seats.notification()
    fanout = await stand.fanout("mine")
    await fanout.claim_due(MOST)
    for _ in range(6):
        stand.advance(LOCK_TTL // 2)
        await fanout.renew_locks()
        assert await (await stand.fanout("theirs")).claim_due(MOST) == 0
    assert (await stand.seats.row(number)).locked_by == "mine"
    await stand.bench.drain(ScriptedProvider())
    await fanout.record_results()
    assert (await stand.seats.row(number)).fanout_status == "sent"


async def test_a_mail_whose_worker_died_is_taken_over_as_the_same_mail(stand: Stand) -> None:
    number = await stand.seats.notification()
    await (await stand.fanout("dead")).claim_due(MOST)
    stand.advance(LOCK_TTL + 1)
    provider = ScriptedProvider()
    await stand.round(provider, await stand.fanout("alive"))
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.mails)) == ("sent", 1, 1)


async def test_what_is_known_to_be_sent_is_told_by_another_and_not_sent_again(stand: Stand) -> None:
    number = await stand.seats.notification()
    await (await stand.fanout("dead")).claim_due(MOST)
    provider = ScriptedProvider()
    await stand.bench.drain(provider)  # sent, and nobody lived to tell
    stand.advance(LOCK_TTL + 1)
    await stand.round(provider, await stand.fanout("alive"))
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.mails)) == ("sent", 1, 1)
    assert len(await stand.seats.timeline()) == 1


async def test_a_mail_in_doubt_goes_again_under_its_own_name_and_counts_once(stand: Stand) -> None:
    number = await stand.seats.notification()
    provider = ScriptedProvider(UNKNOWN, SENT)
    fanout = await stand.round(provider)
    stand.advance(5 * SECOND)
    await stand.round(provider, fanout)
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 1)
    assert len(set(provider.outbox_ids)) == 1
    assert len(provider.mails) == 2


@pytest.mark.promise("notify-told-once")
async def test_a_crash_after_the_row_was_told_and_before_we_noted_it_counts_nothing_twice(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = await stand.seats.notification()
    fanout = await stand.fanout("dying")
    await fanout.claim_due(MOST)
    provider = ScriptedProvider(FAULT, SENT)
    await stand.bench.drain(provider)

    async def crash(_ended: Any) -> None:
        raise Crash

    monkeypatch.setattr(fanout, "_end_links", crash)
    if stand.queue.is_shared:  # both were one commit, and nothing is left to tell
        assert await fanout.record_results() == 0
    else:
        with pytest.raises(Crash):
            await fanout.record_results()
    assert (await stand.seats.row(number)).fanout_attempts == 1
    another = await stand.fanout("another")
    await another.record_results()
    assert (await stand.seats.row(number)).fanout_attempts == 1
    await stand.round(provider, another)
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts) == ("sent", 2)


@pytest.mark.promise("notify-told-once")
async def test_a_row_in_our_own_database_is_told_in_the_commit_of_the_result(stand: Stand) -> None:
    number = await stand.seats.notification()
    await (await stand.fanout()).claim_due(MOST)
    await stand.bench.drain(ScriptedProvider())
    status = (await stand.seats.row(number)).fanout_status
    assert status == ("sent" if stand.queue.is_shared else "pending")
    await (await stand.fanout()).record_results()
    assert (await stand.seats.row(number)).fanout_status == "sent"


@pytest.mark.promise("notify-told-once")
async def test_results_that_cannot_be_told_now_keep_no_other_waiting(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanning, "BATCH", 2)
    numbers = [await stand.seats.notification() for _ in range(5)]
    fanout = await stand.fanout("mine")
    await fanout.claim_due(MOST)
    for number in numbers[:3]:  # their locks are another's by now
        await stand.seats.change("open_event_notifications", number, locked_by="theirs")
    await stand.bench.drain(ScriptedProvider())
    await fanout.record_results()
    statuses = [(await stand.seats.row(number)).fanout_status for number in numbers]
    assert statuses == ["pending"] * 3 + ["sent"] * 2
    stand.advance(LOCK_TTL + 1)
    provider = ScriptedProvider()
    await stand.round(provider, fanout)
    assert (await stand.seats.statuses(), provider.mails) == ({"sent": 5}, [])


async def test_a_worker_knows_how_many_rows_it_holds(stand: Stand) -> None:
    for _ in range(3):
        await stand.seats.notification()
    mine, theirs = await stand.fanout("mine"), await stand.fanout("theirs")
    await mine.claim_due(MOST)
    assert (await mine.count_locked_rows(), await theirs.count_locked_rows()) == (3, 0)
    await stand.round(ScriptedProvider(), mine)
    assert await mine.count_locked_rows() == 0


async def test_a_worker_that_leaves_gives_back_what_it_did_not_begin(stand: Stand) -> None:
    number = await stand.seats.notification()
    leaving = await stand.fanout("leaving")
    await leaving.claim_due(MOST)
    assert await leaving.release_locks() == 1
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts, row.locked_by, row.locked_at) == ("pending", 0, None, None)
    provider = ScriptedProvider()
    await stand.bench.drain(provider)
    assert provider.mails == []  # nobody sends a mail whose row nobody holds
    await stand.round(provider, await stand.fanout("next"))
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.mails)) == ("sent", 1, 1)


async def test_what_was_given_back_and_taken_up_again_can_be_put_off_like_any_other(stand: Stand) -> None:
    await stand.seats.notification()
    leaving = await stand.fanout("leaving")
    await leaving.claim_due(MOST)
    await leaving.release_locks()
    await (await stand.fanout("next")).claim_due(MOST)
    claims = claims_of(stand.bench.database, stand.clock)
    await claims.release(await claims.claim(1))
    assert len(await claims.claim(1)) == 1


async def test_who_leaves_between_two_tries_gets_no_mail(stand: Stand) -> None:
    number = await stand.seats.notification()
    provider = ScriptedProvider(FAULT)
    fanout = await stand.round(provider)
    await stand.seats.change("subscriptions", 1, status="unsubscribed")
    await stand.round(provider, fanout)
    row = await stand.seats.row(number)
    assert (row.fanout_status, row.fanout_attempts, len(provider.mails)) == ("skipped", 2, 1)
    assert await stand.bench.statuses() == {"CANCELLED": 1}
    assert (await audit(stand.bench.database)).ok


# Waits.


@pytest.mark.promise("notify-waits")
async def test_every_wait_has_its_reason_and_its_end(stand: Stand) -> None:
    now = stand.clock.now()
    minute = now // MINUTE % 1440
    window = {"startMinutes": (minute + 60) % 1440, "endMinutes": (minute + 120) % 1440}
    snooze = "2030-01-01T00:00:00Z"
    waiting = {
        "delivery_window": await stand.seats.notification(preferences={"deliveryWindow": window}),
        "snoozed": await stand.seats.notification(preferences={"snoozeUntil": snooze}),
        "locked": await stand.seats.notification(locked_by="theirs", locked_at=stand.seats.now),
    }
    provider = ScriptedProvider()
    fanout = await stand.round(provider)
    desk = desk_of(stand, fanout)
    for reason, number in waiting.items():
        standing = await desk.find(number)
        assert standing.wait is not None
        assert (standing.row.status, standing.wait.reason) == ("pending", reason)
        assert standing.wait.until > now
        assert standing.wait.detail
    assert provider.mails == []
    stand.advance(60 * MINUTE)
    await stand.round(provider, fanout)
    assert (await stand.seats.row(waiting["delivery_window"])).fanout_status == "sent"


async def test_of_two_rows_that_say_the_same_within_the_window_one_is_sent(stand: Stand) -> None:
    first = await stand.seats.notification(dedupe_key="same", preferences={})
    second = await stand.seats.notification(dedupe_key="same", subscription_id=1)
    fanout = await stand.fanout()
    provider = ScriptedProvider(FAULT, SENT)
    await stand.round(provider, fanout)
    standing = await desk_of(stand, fanout).find(second)
    assert standing.wait is not None
    assert standing.wait.reason == "dedupe"
    await stand.round(provider, fanout)
    await stand.round(provider, fanout)
    assert (await stand.seats.row(first)).fanout_status == "sent"
    assert (await stand.seats.row(second)).fanout_status == "skipped"
    assert (await stand.seats.error(second))["code"] == "DUPLICATE"
    stand.advance(180 * SECOND)
    later = await stand.seats.notification(dedupe_key="same", subscription_id=1)
    await stand.round(provider, fanout)
    assert (await stand.seats.row(later)).fanout_status == "sent"


async def test_a_row_that_comes_to_light_while_a_later_one_that_says_the_same_is_sent_waits_for_it(
    stand: Stand,
) -> None:
    """Numbers are given out before a row can be seen: of two programs that write at once the first may be seen last."""
    first = await stand.seats.notification(dedupe_key="same", preferences={})
    second = await stand.seats.notification(dedupe_key="same", subscription_id=1)
    await stand.seats.change("open_event_notifications", first, fanout_status="failed")  # not to be seen yet
    fanout = await stand.fanout()
    assert await fanout.claim_due(MOST) == 1
    await stand.seats.change("open_event_notifications", first, fanout_status="pending")
    provider = ScriptedProvider()
    for _ in range(2):
        await stand.round(provider, fanout)
    assert [(await stand.seats.row(each)).fanout_status for each in (first, second)] == ["skipped", "sent"]
    assert len(provider.mails) == 1


async def test_nobody_gets_more_than_they_asked_for_however_many_come_at_once(stand: Stand) -> None:
    await stand.seats.notification(preferences={"maxNotifications": 2})
    for _ in range(3):
        await stand.seats.notification(subscription_id=1)
    provider = ScriptedProvider(FAULT)
    fanout = await stand.fanout()
    await fanout.claim_due(MOST)
    [_, _, third, _] = await stand.seats.rows()
    wait = (await desk_of(stand, fanout).find(third.notification_id)).wait
    assert wait is not None
    assert wait.reason == "maximum"
    for _ in range(4):
        await stand.round(provider, fanout)
    assert await stand.seats.statuses() == {"sent": 2, "skipped": 2}
    assert len(await stand.seats.timeline()) == 2


async def test_workers_that_serve_a_subscriber_at_once_send_no_more_than_they_asked_for(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has locked the first row and not handed it over yet when another one takes the second."""
    await stand.seats.notification(preferences={"maxNotifications": 1})
    await stand.seats.notification(subscription_id=1)
    one, other = await stand.fanout("one"), await stand.fanout("other")
    database = stand.bench.database

    class Meanwhile:
        def read(self) -> Any:
            return database.read()

        async def transact(self, work: Any) -> Any:
            monkeypatch.setattr(one, "_database", database)
            assert await other.claim_due(MOST) == 1
            return await database.transact(work)

    monkeypatch.setattr(one, "_database", Meanwhile())
    assert await one.claim_due(MOST) == 0
    rows = [(row.locked_by, row.fanout_attempts) for row in await stand.seats.rows()]
    assert rows == [(None, 0), ("other", 0)]
    provider = ScriptedProvider()
    for fanout in (other, one, other):
        await stand.round(provider, fanout)
    assert (await stand.seats.statuses(), len(provider.mails)) == ({"sent": 1, "skipped": 1}, 1)


# What is refused at the start.


async def test_a_queue_that_lacks_something_is_refused_with_it_all(tmp_path: Path, empty_sqlite: bytes) -> None:
    ours, theirs = tmp_path / "mailwright.db", f"sqlite:///{tmp_path}/queue.db"
    ours.write_bytes(empty_sqlite)
    await make_tables(theirs, without=("last_attempt_at", "locked_by", "TABLE subscription_events"))
    with pytest.raises(ConfigurationInvalid) as refused:
        async with a_stand(f"sqlite:///{ours}", theirs, None, ManualClock()):
            pass
    told = "\n".join(refused.value.problems)
    assert len(refused.value.problems) == 3
    for name in ("notifications.last_attempt_at", "notifications.locked_by", "subscription_events"):
        assert name in told


@pytest.mark.promise("notify-foreign")
async def test_a_file_of_others_keeps_its_form(tmp_path: Path, empty_sqlite: bytes) -> None:
    ours, file = tmp_path / "mailwright.db", tmp_path / "queue.db"
    ours.write_bytes(empty_sqlite)
    await make_tables(f"sqlite:///{file}")
    before = form_of(file)
    async with a_stand(f"sqlite:///{ours}", f"sqlite:///{file}", None, ManualClock()) as stand:
        await stand.seats.notification()
        await stand.round(ScriptedProvider())
        assert await stand.seats.statuses() == {"sent": 1}
    assert form_of(file) == before


def form_of(file: Path) -> Any:
    with closing(sqlite3.connect(file)) as connection:
        journal = connection.execute("PRAGMA journal_mode").fetchall()
        return journal, connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
