"""The flows of a message end to end, with a real database, worker and SMTP connection and a manual clock."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from email import message_from_bytes
from typing import Any

import pytest
from sqlalchemy import delete, select

from mailwright.audience.suppressions import suppressed_among
from mailwright.domain.clock import DAY, SECOND, ManualClock, isoformat
from mailwright.domain.ids import uuid7
from mailwright.domain.message import NewMessage
from mailwright.domain.retry import STANDARD
from mailwright.domain.states import VALIDATIONS, EventType, Status
from mailwright.outbox.audit import audit
from mailwright.outbox.message_records import MessageRecord, dead_letters
from mailwright.storage.tables import messages
from tests.builders import (
    DEFAULT_TENANT,
    Bench,
    a_bench,
    a_contact,
    a_message,
    a_message_with,
    a_tenant,
    attempt_steps,
    deliveries_of,
    steps,
    suppress,
    the_event,
)
from tests.conftest import DatabaseAddress
from tests.standins.smtp_sink import SmtpSink, Step

E = EventType


@pytest.fixture
async def sink() -> AsyncIterator[SmtpSink]:
    async with SmtpSink() as sink:
        yield sink
        assert sink.violations == []


@pytest.fixture
async def bench(engine: DatabaseAddress, clock: ManualClock, sink: SmtpSink) -> AsyncIterator[Bench]:
    async with a_bench(engine.url, clock, provider="smtp", smtp_url=f"{sink.url}?tls=none") as bench:
        yield bench
        assert (await audit(bench.database)).ok


# The three flows.


async def test_sent_message_has_four_events(bench: Bench, clock: ManualClock, sink: SmtpSink) -> None:
    start = clock.now()
    message = a_message()
    await bench.accept(message)
    sink.call(Step.DOT, lambda: clock.advance(1_200))
    await bench.drain()

    record = await bench.record(message.outbox_id)
    assert [(event.type, event.at, event.metadata) for event in record.events] == [
        (E.RECEIVED, start, {"attempt": 1}),
        (E.VALIDATED, start, {"attempt": 1, "validations": list(VALIDATIONS)}),
        (E.SENT_ATTEMPT, start, {"attempt": 1, "provider": "smtp"}),
        (
            E.SENT,
            start + 1_200,
            {"attempt": 1, "provider": "smtp", "providerMessageId": "SINK1", "durationMs": 1_200},
        ),
    ]
    summary = record.summary
    assert (summary.status, summary.attempts, summary.provider, summary.provider_message_id) == (
        Status.SENT,
        1,
        "smtp",
        "SINK1",
    )
    assert (summary.sent_at, summary.processed_at, summary.failed_at) == (start + 1_200, start + 1_200, None)
    assert (summary.duration_ms, summary.request_id, summary.error_code) == (1_200, message.request_id, None)
    assert [email.recipients for email in sink.messages] == [(message.to_email,)]
    assert message.outbox_id.encode() in sink.messages[0].content


async def test_retried_message_repeats_all_steps(bench: Bench, clock: ManualClock, sink: SmtpSink) -> None:
    start = clock.now()
    message = a_message()
    await bench.accept(message)
    sink.answer(Step.RCPT, "451 4.3.0 later", times=1)
    await bench.drain()

    delay = STANDARD.delay(message.outbox_id, 1)
    waiting = await bench.record(message.outbox_id)
    assert steps(waiting) == attempt_steps(E.RETRY_SCHEDULED)
    assert the_event(waiting, E.RETRY_SCHEDULED).metadata == {
        "attempt": 1,
        "provider": "smtp",
        "errorCode": "SMTP_TEMPORARY_FAILURE",
        "errorCategory": "TRANSIENT_ERROR",
        "errorMessage": "4.3.0 later",
        "originalCode": "451 4.3.0",
        "willRetry": True,
        "nextAttemptNumber": 2,
        "backoffDelay": delay,
        "retriesUntil": isoformat(start + DAY),
    }
    summary = waiting.summary
    assert (summary.status, summary.attempts, summary.next_attempt_at) == (Status.RETRY_SCHEDULED, 1, start + delay)
    assert (summary.error_code, summary.error_reason) == ("SMTP_TEMPORARY_FAILURE", "4.3.0 later")

    clock.advance(delay - 1)
    await bench.drain()
    assert sink.messages == []  # Not a millisecond early.

    clock.advance(1)
    await bench.drain()
    record = await bench.record(message.outbox_id)
    assert steps(record) == attempt_steps(E.RETRY_SCHEDULED) + attempt_steps(E.SENT)
    assert [event.metadata["attempt"] for event in record.events[4:]] == [2, 2, 2, 2]
    assert (record.summary.status, record.summary.attempts, record.summary.error_code) == (Status.SENT, 2, None)
    assert len(sink.messages) == 1


async def test_unknown_recipient_fails_before_the_provider(bench: Bench, clock: ManualClock, sink: SmtpSink) -> None:
    message = a_message(recipient_id=uuid7(0))
    await bench.accept(message)
    await bench.drain()

    record = await bench.record(message.outbox_id)
    reason = "The recipient does not exist or was deleted."
    assert [(event.type, event.metadata) for event in record.events] == [
        (E.RECEIVED, {"attempt": 1}),
        (
            E.VALIDATION_FAILED,
            {"attempt": 1, "validation": "RECIPIENT", "errorCode": "RECIPIENT_NOT_FOUND", "errorMessage": reason},
        ),
        (
            E.FAILED,
            {
                "attempt": 1,
                "errorCode": "RECIPIENT_NOT_FOUND",
                "errorCategory": "VALIDATION_ERROR",
                "errorMessage": reason,
                "originalCode": None,
                "willRetry": False,
            },
        ),
    ]
    summary = record.summary
    assert (summary.status, summary.attempts, summary.failed_at) == (Status.FAILED, 0, clock.now())
    assert (summary.error_code, summary.error_reason) == ("RECIPIENT_NOT_FOUND", reason)
    assert sink.sessions == []
    assert await dead_letters(bench.database, DEFAULT_TENANT, limit=10) == []


async def test_permanent_rejection_is_not_retried(bench: Bench, clock: ManualClock, sink: SmtpSink) -> None:
    message, other = a_message(), a_message()
    await bench.accept(message, other)
    sink.answer(Step.RCPT, "550 5.1.1 no such user", recipient=message.to_email)
    await bench.drain()
    clock.advance(600 * SECOND)
    await bench.drain()

    record = await bench.record(message.outbox_id)
    assert steps(record) == [*attempt_steps(E.FAILED), E.BOUNCED]
    assert the_event(record, E.FAILED).metadata == {
        "attempt": 1,
        "errorCode": "SMTP_RECIPIENT_REJECTED",
        "errorCategory": "PERMANENT_ERROR",
        "errorMessage": "5.1.1 no such user",
        "originalCode": "550 5.1.1",
        "willRetry": False,
    }
    assert (record.summary.status, record.summary.attempts) == (Status.FAILED, 1)
    assert (await bench.record(other.outbox_id)).summary.status == Status.SENT  # One bad address does not block others.


# Attempts.


@pytest.mark.promise("retry-delays")
@pytest.mark.promise("dead-letter")
async def test_fifth_failure_leaves_a_dead_letter(bench: Bench, clock: ManualClock, sink: SmtpSink) -> None:
    message = a_message()
    await bench.accept(message)
    sink.answer(Step.RCPT, "399 what")  # An error of a working provider.
    for attempt in range(1, 6):
        await bench.drain()
        record = await bench.record(message.outbox_id)
        assert record.summary.attempts == attempt
        clock.advance(STANDARD.delay(message.outbox_id, attempt))
    clock.advance(3_600 * SECOND)
    await bench.drain()

    record = await bench.record(message.outbox_id)
    assert steps(record) == attempt_steps(E.RETRY_SCHEDULED) * 4 + attempt_steps(E.FAILED)
    assert (record.summary.status, record.summary.error_code) == (Status.FAILED, "MAX_ATTEMPTS_EXCEEDED")
    last = the_event(record, E.FAILED).metadata
    assert (last["attempt"], last["errorCode"], last["originalCode"], last["willRetry"]) == (
        5,
        "MAX_ATTEMPTS_EXCEEDED",
        "399",
        False,
    )
    (dead_letter,) = await dead_letters(bench.database, DEFAULT_TENANT, limit=10)
    assert (dead_letter.outbox_id, dead_letter.code, dead_letter.attempts) == (
        message.outbox_id,
        "MAX_ATTEMPTS_EXCEEDED",
        5,
    )
    assert "399 what" in dead_letter.reason
    assert record.payload == message.payload  # The content is kept.


@pytest.mark.promise("deferrals-are-not-failures")
async def test_deferred_copy_is_retried_alone(bench: Bench, clock: ManualClock, sink: SmtpSink) -> None:
    message = a_message_with(cc=["cleo@example.com"], bcc=["dan@example.com"])
    await bench.accept(message)
    sink.answer(Step.RCPT, "450 4.2.0 greylisted", recipient="dan@example.com", times=1)
    await bench.drain()
    clock.advance(2 * SECOND)
    await bench.drain()

    assert [email.recipients for email in sink.messages] == [
        (message.to_email, "cleo@example.com"),
        ("dan@example.com",),
    ]
    whole, copy = (message_from_bytes(email.content) for email in sink.messages)
    assert [whole[name] for name in ("To", "Cc", "Message-ID")] == [copy[name] for name in ("To", "Cc", "Message-ID")]
    record = await bench.record(message.outbox_id)
    [copy_id] = record.deferred_copies
    assert (await bench.record(copy_id)).copy_of == message.outbox_id
    assert await bench.statuses() == {Status.SENT: 2}


@pytest.mark.promise("suppression-wins")
@pytest.mark.parametrize("to_reply", ["250 ok", "550 5.1.1 unknown"], ids=["To accepted", "To rejected"])
async def test_rejected_blind_copy_is_suppressed(bench: Bench, sink: SmtpSink, to_reply: str) -> None:
    message = a_message_with(cc=["cleo@example.com"], bcc=["dan@example.com"])
    await bench.accept(message)
    sink.answer(Step.RCPT, "550 5.1.1 unknown", recipient="dan@example.com", times=1)
    sink.answer(Step.RCPT, to_reply, recipient=message.to_email, times=1)
    await bench.drain()
    async with bench.database.read() as tx:
        found = await suppressed_among(tx, 1, {"cleo@example.com", "dan@example.com"}, None)
    assert found == {"dan@example.com"}
    bounces = [event for event in (await bench.record(message.outbox_id)).events if event.type is E.BOUNCED]
    assert "d***@e***.com" in {event.metadata["recipient"] for event in bounces}


@pytest.mark.promise("deferrals-are-not-failures")
async def test_throttling_uses_up_no_attempts(bench: Bench, clock: ManualClock, sink: SmtpSink) -> None:
    message = a_message()
    await bench.accept(message)
    sink.answer(Step.RCPT, "454 4.7.0 throttling: too many mails", times=7)
    for attempt in range(1, 8):  # More often than the maximum number of attempts allows.
        await bench.drain()
        record = await bench.record(message.outbox_id)
        assert (record.summary.status, record.summary.attempts) == (Status.RETRY_SCHEDULED, attempt)
        assert record.summary.defer_reason == "provider_throttled"
        waits = [event.metadata["backoffDelay"] for event in record.events if event.type is E.RETRY_SCHEDULED]
        clock.advance(waits[-1])
    assert waits[:5] == sorted(waits[:5])  # Delays grow with the number of attempts.
    await bench.drain()
    record = await bench.record(message.outbox_id)
    assert steps(record) == attempt_steps(E.RETRY_SCHEDULED) * 7 + attempt_steps(E.SENT)
    first = next(event for event in record.events if event.type is E.RETRY_SCHEDULED)
    assert (first.metadata["errorCategory"], first.metadata["nextAttemptNumber"]) == ("QUOTA_ERROR", 2)
    assert (record.summary.status, record.summary.attempts, record.summary.defer_reason) == (Status.SENT, 8, None)


@pytest.mark.promise("deferrals-are-not-failures")
async def test_exhausted_daily_quota_waits_for_hours(bench: Bench, clock: ManualClock, sink: SmtpSink) -> None:
    message = a_message()
    await bench.accept(message)
    sink.answer(Step.RCPT, "454 4.7.0 Daily message quota exceeded", times=1)
    await bench.drain()
    clock.advance(3_600 * SECOND)
    await bench.drain()
    assert (await bench.record(message.outbox_id)).summary.attempts == 1
    clock.advance(3 * 3_600 * SECOND)
    await bench.drain()
    record = await bench.record(message.outbox_id)
    assert (record.summary.status, record.summary.attempts) == (Status.SENT, 2)


@pytest.mark.promise("outage-recovery")
async def test_wrong_password_opens_circuit_and_uses_up_no_attempts(
    engine: DatabaseAddress, clock: ManualClock
) -> None:
    async with SmtpSink(users={"shop": "right"}) as sink:
        url = f"smtp://shop:wrong@{sink.host}:{sink.port}?tls=none"
        async with a_bench(engine.url, clock, provider="smtp", smtp_url=url, concurrency=8) as bench:
            ids = await bench.accept(*(a_message() for _ in range(50)))
            await bench.drain()
            logins = sum(session.verbs.count("AUTH") for session in sink.sessions)
            assert 1 <= logins <= 8  # Only the messages in flight, not one attempt per message.
            for outbox_id in ids:
                summary = (await bench.record(outbox_id)).summary
                assert summary.attempts <= 1
                assert summary.status in (Status.PENDING, Status.RETRY_SCHEDULED)
            deferred = [row for row in await deliveries_of(bench.database) if row.status == Status.RETRY_SCHEDULED]
            assert deferred
            assert {row.attempts - row.excused_attempts for row in deferred} == {0}
            assert {row.defer_reason for row in deferred} == {"provider_unavailable"}
            assert {row.error_code for row in deferred} == {"SMTP_AUTH_FAILED"}

            sink.users["shop"] = "wrong"  # The operator corrects the password.
            clock.advance(10 * SECOND)
            await bench.drain()
            assert await bench.statuses() == {Status.SENT: 50}


@pytest.mark.promise("doubt-resend-once")
async def test_interrupted_response_is_in_doubt_and_resent_once(
    bench: Bench, clock: ManualClock, sink: SmtpSink
) -> None:
    message = a_message()
    await bench.accept(message)
    sink.cut(Step.DOT, times=1)
    await bench.drain()
    record = await bench.record(message.outbox_id)
    assert steps(record) == [*attempt_steps(E.IN_DOUBT), E.RETRY_SCHEDULED, *attempt_steps(E.SENT)]
    assert the_event(record, E.IN_DOUBT).metadata["errorCode"] == "SMTP_NO_ANSWER"
    first, second = sink.complete
    assert _message_id(first.content) == _message_id(second.content)
    assert (await audit(bench.database)).resent_in_doubt == 1


def _message_id(content: bytes) -> bytes:
    (line,) = [line for line in content.split(b"\r\n") if line.lower().startswith(b"message-id:")]
    return line


# Validation: four checks in this order; the first failure ends the message.


async def outcome(bench: Bench, message: NewMessage, sink: SmtpSink) -> MessageRecord:
    [record] = await outcomes(bench, [message], sink)
    return record


async def outcomes(bench: Bench, cases: Sequence[NewMessage], sink: SmtpSink) -> list[MessageRecord]:
    await bench.accept(*cases)
    await bench.drain()
    records = [await bench.record(message.outbox_id) for message in cases]
    for record, message in zip(records, cases, strict=True):
        assert steps(record) == [E.RECEIVED, E.VALIDATION_FAILED, E.FAILED], message.payload
        assert (record.summary.status, record.summary.attempts) == (Status.FAILED, 0)
    assert sink.sessions == []
    return records


def code_and_kind(record: MessageRecord) -> tuple[str | None, Any]:
    return record.summary.error_code, the_event(record, E.VALIDATION_FAILED).metadata["validation"]


async def test_incomplete_payload_fails_validation(bench: Bench, sink: SmtpSink) -> None:
    cases: tuple[dict[str, Any], ...] = (
        {"to": None},
        {"to": 7},
        {"to": "someone.else@example.com"},
        {"subject": 7},
        {"html": None},
        {"html": 7},
        {"text": ["a"]},
        {"attachments": "not a list"},
        {"headers": "not a mapping"},
    )
    records = await outcomes(bench, [a_message_with(**content) for content in cases], sink)
    assert [code_and_kind(record) for record in records] == [("INVALID_PAYLOAD", "INTEGRITY")] * len(cases)


async def test_delivery_without_its_message_fails_validation(bench: Bench, sink: SmtpSink) -> None:
    message = a_message()
    await bench.accept(message)
    async with bench.database.write() as tx:
        key = (await tx.execute(select(messages.c.id)))[0].id
        await tx.execute(delete(messages))
    await bench.drain()
    (row,) = await deliveries_of(bench.database)
    assert (row.message_key, row.status, row.error_code, row.attempts) == (key, Status.FAILED, "OUTBOX_NOT_FOUND", 0)
    assert sink.sessions == []


async def test_recipient_must_be_an_existing_contact_of_the_tenant(bench: Bench, sink: SmtpSink) -> None:
    deleted, foreign, other = a_message(), a_message(), a_message()
    tenant_id = await a_tenant(bench.database, "other")
    cases = [
        replace(a_message(), recipient_id=uuid7(0)),
        replace(deleted, recipient_id=await a_contact(bench.database, deleted.to_email, deleted_at=1)),
        replace(foreign, recipient_id=await a_contact(bench.database, foreign.to_email, tenant_id=tenant_id)),
        replace(other, recipient_id=await a_contact(bench.database, "someone.else@example.com")),
    ]
    records = await outcomes(bench, cases, sink)
    assert [code_and_kind(record) for record in records] == [("RECIPIENT_NOT_FOUND", "RECIPIENT")] * len(cases)


async def test_known_recipient_receives_the_message(bench: Bench, sink: SmtpSink) -> None:
    contact = await a_contact(bench.database, "known@example.com")
    (outbox_id,) = await bench.accept(a_message(to="known@example.com", recipient_id=contact))
    await bench.drain()
    assert (await bench.record(outbox_id)).summary.recipient_id == contact
    assert len(sink.messages) == 1


async def test_invalid_address_fails_validation(bench: Bench, sink: SmtpSink) -> None:
    cases = ("no-at-sign", "a@b@", "a@-b.example", "a b@example.com", "a@example", ".a@example.com")
    records = await outcomes(bench, [a_message(to=to) for to in cases], sink)
    assert [code_and_kind(record) for record in records] == [("INVALID_EMAIL", "RECIPIENT")] * len(cases)


@pytest.mark.promise("suppression-wins")
async def test_suppressed_recipient_is_skipped(bench: Bench, sink: SmtpSink) -> None:
    await suppress(bench.database, "left@example.com")
    record = await outcome(bench, a_message(to="left@example.com"), sink)
    assert code_and_kind(record) == ("RECIPIENT_SUPPRESSED", "RECIPIENT")
    counted = await audit(bench.database)
    assert (counted.suppressed, counted.failed) == (1, 0)


@pytest.mark.promise("suppression-wins")
async def test_suppression_of_another_tenant_is_ignored(bench: Bench, sink: SmtpSink) -> None:
    await suppress(bench.database, "reader@example.com", await a_tenant(bench.database, "other"))
    await bench.accept(a_message(to="reader@example.com"))
    await bench.drain()
    assert len(sink.messages) == 1


async def test_unsafe_content_fails_validation(bench: Bench, sink: SmtpSink) -> None:
    cases: tuple[dict[str, Any], ...] = (
        {"html": "  <p> </p> "},
        {"html": "<p>a</p>" + "x" * 512 * 1024},
        {"html": "<p>a</p><script>alert(1)</script>"},
        {"html": '<a href="javascript:alert(1)">a</a>'},
        {"html": '<p onclick="alert(1)">a</p>'},
        {"subject": ""},
        {"subject": "x" * 151},
        {"subject": "a\r\nBcc: b@example.com"},
        {"headers": {"X-A": "a\r\nBcc: b@example.com"}},
        {"attachments": [{"filename": "a", "contentType": "text/plain", "content": "!"}]},
    )
    records = await outcomes(bench, [a_message_with(**content) for content in cases], sink)
    assert [code_and_kind(record) for record in records] == [("INVALID_TEMPLATE", "TEMPLATE")] * len(cases)


async def test_first_validation_failure_is_reported(bench: Bench, sink: SmtpSink) -> None:
    """Each message breaks one more rule than the next, and fails with the first rule that it breaks."""
    await suppress(bench.database, "left@example.com")
    unknown = uuid7(0)
    bad = {"subject": "x" * 151, "html": "<script>a</script>"}
    cases = [
        (a_message(to="left@example.com", recipient_id=unknown, payload={**bad, "to": 7}), "INVALID_PAYLOAD"),
        (a_message(to="bad", recipient_id=unknown, payload={**bad, "to": "bad"}), "RECIPIENT_NOT_FOUND"),
        (a_message(to="bad", payload={**bad, "to": "bad"}), "INVALID_EMAIL"),
        (a_message(to="left@example.com", payload={**bad, "to": "left@example.com"}), "RECIPIENT_SUPPRESSED"),
        (a_message(to="here@example.com", payload={**bad, "to": "here@example.com"}), "INVALID_TEMPLATE"),
    ]
    for message, code in cases:
        assert (await outcome(bench, message, sink)).summary.error_code == code


@pytest.mark.promise("outage-recovery")
@pytest.mark.parametrize(
    ("step", "reply", "code", "status"),
    [
        (Step.MAIL, "553 5.7.1 this sender is not yours", "SMTP_SENDER_REFUSED", Status.FAILED),
        (Step.DOT, "554 Email address is not verified: me@evil.example", "SMTP_SENDER_NOT_VERIFIED", Status.FAILED),
        (Step.DOT, "554 Email address is not verified: bob@example.com", "SMTP_MESSAGE_REJECTED", Status.FAILED),
        (Step.DOT, "554 not authorized to perform this", "SMTP_SENDER_NOT_ALLOWED", Status.RETRY_SCHEDULED),
    ],
)
async def test_rejected_custom_sender_affects_only_its_message(
    bench: Bench, sink: SmtpSink, step: Step, reply: str, code: str, status: Status
) -> None:
    content = {"to": "bob@example.com", "from": "me@evil.example", "subject": "Hi", "html": "<p>Hi</p>"}
    theirs = [replace(a_message(payload=content), to_email="bob@example.com") for _ in range(8)]
    await bench.accept(*theirs)
    sink.answer(step, reply, times=8)  # More than enough to open the circuit breaker.
    await bench.drain()
    for message in theirs:
        found = (await bench.record(message.outbox_id)).summary
        assert (found.error_code, found.status) == (code, status)
    ours = a_message()
    await bench.accept(ours)
    await bench.drain()
    assert (await bench.record(ours.outbox_id)).summary.status == Status.SENT


# The server accepts the recipient and rejects it later.


async def test_rejection_after_the_acceptance_is_a_bounce(bench: Bench, sink: SmtpSink) -> None:
    message = a_message()
    await bench.accept(message)
    sink.answer(Step.QUIT, b"554 5.7.1 rejected as spam\r\n221 bye\r\n")
    await bench.drain()
    record = await bench.record(message.outbox_id)
    assert record.summary.status == Status.SENT
    assert record.summary.bounced_at is not None
    event = the_event(record, E.BOUNCED)
    assert "Accepted, then rejected: 554 5.7.1 rejected as spam" in event.metadata["errorMessage"]
