"""Addresses that an SMTP server rejects during the send."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from mailwright.audience import contacts, suppressions
from mailwright.domain.clock import ManualClock
from mailwright.domain.states import EventType, Status
from tests.builders import Bench, a_bench, a_message, attempt_steps, steps, the_event
from tests.conftest import DatabaseAddress
from tests.standins.smtp_sink import SmtpSink, Step

ADA = "ada@example.com"


@pytest.fixture
async def sink() -> AsyncIterator[SmtpSink]:
    async with SmtpSink() as sink:
        yield sink
        assert sink.violations == []


@pytest.fixture
async def bench(engine: DatabaseAddress, clock: ManualClock, sink: SmtpSink) -> AsyncIterator[Bench]:
    async with a_bench(engine.url, clock, provider="smtp", smtp_url=f"{sink.url}?tls=none") as bench:
        yield bench


async def test_dead_address_is_suppressed(bench: Bench, clock: ManualClock, sink: SmtpSink) -> None:
    first, second = a_message(to=ADA), a_message(to=ADA)
    await bench.accept(first)
    sink.answer(Step.RCPT, "550 5.1.1 no such user", times=1)
    await bench.drain()
    record = await bench.record(first.outbox_id)
    assert steps(record) == [*attempt_steps(EventType.FAILED), "bounce"]
    assert the_event(record, EventType.BOUNCED).metadata == {
        "attempt": 1,
        "errorMessage": "5.1.1 no such user",
        "source": "smtp",
        "recipient": "a***@e***.com",
        "bounceType": "hard",
        "bounceSubtype": "SMTP_RECIPIENT_REJECTED",
    }
    person = await contacts.load_details(bench.database, 1, ADA)
    assert (person.contact.status, person.contact.status_updated_at) == ("bounced", clock.now())
    assert [(entry.list_key, entry.reason, entry.source) for entry in person.suppressions] == [("*", "bounce", "smtp")]
    await bench.accept(second)
    await bench.drain()
    assert (await bench.record(second.outbox_id)).summary.error_code == "RECIPIENT_SUPPRESSED"
    assert sink.messages == []


@pytest.mark.parametrize("reply", ["550 5.7.1 your mail looks like spam", "550 5.7.26 not authenticated"])
async def test_rejection_not_about_address_keeps_contact(bench: Bench, sink: SmtpSink, reply: str) -> None:
    message = a_message(to=ADA)
    await bench.accept(message)
    sink.answer(Step.RCPT, reply, times=1)
    await bench.drain()
    record = await bench.record(message.outbox_id)
    assert (record.summary.status, steps(record)) == (Status.FAILED, attempt_steps(EventType.FAILED))
    assert not await suppressions.is_suppressed(bench.database, 1, ADA)


@pytest.mark.promise("bounce-hard-or-soft")
async def test_repeatedly_full_mailbox_is_suppressed(bench: Bench, sink: SmtpSink) -> None:
    sink.answer(Step.RCPT, "552 5.2.2 mailbox full")
    for number in range(3):
        assert await suppressions.is_suppressed(bench.database, 1, ADA) is False, number
        await bench.accept(a_message(to=ADA))
        await bench.drain()
    assert (await contacts.find_by_email(bench.database, 1, ADA)).status == "bounced"
    assert await suppressions.is_suppressed(bench.database, 1, ADA)


@pytest.mark.both_engines
@pytest.mark.parametrize("field", ["cc", "bcc"])
@pytest.mark.parametrize(
    ("reply", "is_suppressed"),
    [
        ("550 5.1.1 no such user", True),
        ("550 5.7.1 your mail looks like spam", False),
        ("552 5.2.2 mailbox full", False),
    ],
)
async def test_rejected_copy_does_not_affect_recipient(
    bench: Bench, sink: SmtpSink, field: str, reply: str, is_suppressed: bool
) -> None:
    message = a_message(to=ADA)
    await bench.accept(replace(message, payload={**message.payload, field: ["bob@example.com"]}))
    sink.answer(Step.RCPT, reply, recipient="bob@example.com")
    await bench.drain()
    assert (await bench.record(message.outbox_id)).summary.status == Status.SENT
    assert not await suppressions.is_suppressed(bench.database, 1, ADA)
    assert await suppressions.is_suppressed(bench.database, 1, "bob@example.com") is is_suppressed
