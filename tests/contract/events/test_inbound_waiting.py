"""Events in an SQS queue or a bounce mailbox: they are removed only after they are recorded."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from mailwright.app.inbound import poll, verify_inbound
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import ConfigurationInvalid, NotDurable
from mailwright.domain.guard_rails import Incident
from mailwright.events.bounce_mail import MAX_ATTEMPTS, BounceMailboxReader, BounceMailRecorder, reports_of
from mailwright.events.bounces import parse_bounce_mail
from mailwright.events.bounces.imap import ImapMailbox, ImapSettings
from mailwright.events.bounces.mailbox_url import open_mailbox
from mailwright.events.inbound_webhooks import record_events
from mailwright.events.reports import Reports
from mailwright.outbox.claim import Claims
from mailwright.outbox.incidents import count_incidents
from mailwright.outbox.tallies import EventTallier
from mailwright.providers.aws import AwsKeyChain, AwsKeys
from mailwright.providers.http import HttpClient
from mailwright.providers.ses.queue import SqsEventSource, SqsQueue
from mailwright.sources.campaigns.breakdown import load_breakdown
from mailwright.sources.campaigns.numbers import load_numbers
from mailwright.sources.campaigns.reasons import load_reasons
from mailwright.sources.campaigns.report import RecipientResponse, report_rows
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, messages, suppressions
from tests.acceptance.commands import Commands
from tests.builders import (
    LOCK_TTL,
    SENT,
    Bench,
    a_message,
    a_result,
    a_settler,
    an_acceptor,
    record_of,
    settings_for,
    steps,
)
from tests.campaigns import CampaignHarness
from tests.conftest import DatabaseAddress
from tests.standins.imap import PASSWORD, USER, ImapServer
from tests.standins.provider import ScriptedProvider
from tests.standins.sns import FOREIGN_TOPIC, TOPIC, Signer, ses_event
from tests.standins.sqs import ACCESS_KEY, REGION, SECRET_KEY, SqsStandIn
from tests.warm import warm_command

ADA = "ada@example.com"
POISON = "poison@example.com"
SIGNER = Signer(ManualClock().now())


async def a_sent_mail(database: Database, clock: ManualClock, provider: str = "smtp", email: str = ADA) -> str:
    message = a_message(to=email)
    await an_acceptor(database, clock).accept([message])
    [claimed] = await Claims(database, clock, "worker-1", LOCK_TTL).claim(1)
    await a_settler(database, clock).exchange([], [claimed])
    result = replace(SENT, provider=provider, provider_message_id="0100-1")
    await a_settler(database, clock).exchange([a_result(claimed, result, clock.now())], [])
    return message.outbox_id


async def contact_state(database: Database, email: str = ADA) -> tuple[str | None, list[str]]:
    async with database.read() as tx:
        people = await tx.execute(select(contacts.c.status).where(contacts.c.email == email))
        rows = await tx.execute(select(suppressions.c.list_key).where(suppressions.c.email == email))
    return people[0].status if people else None, [row.list_key for row in rows]


class NoDatabase(Reports):
    """Reports without an available database."""

    async def receive(self, reports: Any, *, by_address: bool = False) -> Any:
        raise NotDurable


# SQS queue.


@dataclass
class Polled:
    sqs: SqsStandIn
    queue: SqsQueue
    database: Database
    clock: ManualClock

    def events(self, reports: Reports | None = None, topics: tuple[str, ...] = (TOPIC,)) -> SqsEventSource:
        record = partial(record_events, reports or Reports(self.database, self.clock), "ses")
        return SqsEventSource(self.queue, record, self.clock, topics)


@pytest.fixture
async def polled(database: Database, clock: ManualClock) -> AsyncIterator[Polled]:
    http = HttpClient()
    async with SqsStandIn(clock) as sqs:
        keys = AwsKeyChain(clock, lambda: lambda: AwsKeys(ACCESS_KEY, SECRET_KEY))
        yield Polled(sqs, SqsQueue(sqs.queue_url, REGION, http, clock, keys), database, clock)
        await http.close()


@pytest.mark.parametrize("wrapped", [True, False], ids=["in an envelope", "raw"])
async def test_queued_event_is_recorded_and_deleted(polled: Polled, wrapped: bool) -> None:
    outbox_id = await a_sent_mail(polled.database, polled.clock, "ses")
    event = ses_event("Bounce", ADA, at=SIGNER.now, outbox_id=outbox_id)
    polled.sqs.put(SIGNER.notification(event).decode() if wrapped else json.dumps(event))
    assert await polled.events().poll() == 1
    assert polled.sqs.bodies == []
    assert await contact_state(polled.database) == ("bounced", ["*"])
    assert steps(await record_of(polled.database, outbox_id))[-1] == "bounce"


async def test_unavailable_database_leaves_messages_in_queue(polled: Polled) -> None:
    await a_sent_mail(polled.database, polled.clock, "ses")
    polled.sqs.put(json.dumps(ses_event("Bounce", ADA, message_id="0100-1")))
    with pytest.raises(NotDurable):
        await polled.events(NoDatabase(polled.database, polled.clock)).poll()
    assert len(polled.sqs.bodies) == 1
    polled.sqs.show_again()
    await polled.events().poll()
    assert polled.sqs.bodies == []
    assert await contact_state(polled.database) == ("bounced", ["*"])


async def test_unreadable_message_stays_and_blocks_no_other(polled: Polled) -> None:
    await a_sent_mail(polled.database, polled.clock, "ses")
    poison = [
        "not JSON",
        '{"Type": "Notification", "TopicArn": "' + TOPIC + '"}',
        SIGNER.notification(ses_event("Bounce", ADA), TopicArn=FOREIGN_TOPIC).decode(),
        '{"eventType": "Bounce"}',
    ]
    for body in (*poison, json.dumps(ses_event("Bounce", ADA, message_id="0100-1"))):
        polled.sqs.put(body)
    with capture_logs() as lines:
        while await polled.events().poll():
            pass
    assert polled.sqs.bodies == poison
    assert [line["event"] for line in lines] == ["sqs_message_rejected"] * len(poison)
    assert ADA not in str(lines)
    assert await contact_state(polled.database) == ("bounced", ["*"])


async def test_message_received_again_changes_nothing(polled: Polled) -> None:
    outbox_id = await a_sent_mail(polled.database, polled.clock, "ses")
    body = json.dumps(ses_event("Delivery", ADA, outbox_id=outbox_id))
    for _ in range(3):
        polled.sqs.put(body)
    assert await polled.events(topics=()).poll() == 3
    assert polled.sqs.bodies == []
    assert steps(await record_of(polled.database, outbox_id)).count("delivered") == 1


async def test_many_large_events_are_processed_together(polled: Polled) -> None:
    outbox_id = await a_sent_mail(polled.database, polled.clock, "ses")
    for number in range(10):
        event = ses_event("Open", ADA, outbox_id=outbox_id)
        event["open"].update(timestamp=f"2027-01-15T07:00:{number:02}Z", headers="x" * 85_000)
        polled.sqs.put(json.dumps(event))
    assert await polled.events().poll() == 10
    assert polled.sqs.bodies == []
    assert steps(await record_of(polled.database, outbox_id)).count("open") == 10


@pytest.mark.parametrize(("topics", "scopes"), [((), []), ((TOPIC,), ["*"])], ids=["no topics", "named topics"])
async def test_address_alone_counts_only_with_configured_topics(
    polled: Polled, topics: tuple[str, ...], scopes: list[str]
) -> None:
    await a_sent_mail(polled.database, polled.clock, "ses")
    polled.clock.advance(1_000)
    event = ses_event("Bounce", ADA, at=SIGNER.now, message_id="of somebody else")
    polled.sqs.put(json.dumps(event))
    await polled.events(topics=topics).poll()
    assert polled.sqs.bodies == []
    assert (await contact_state(polled.database))[1] == scopes


# Bounce mailbox.


REPLIES = {"4.2.2": "452 4.2.2 mailbox full", "2.0.0": "250 2.0.0 accepted"}


def a_bounce_mail(outbox_id: str | None, status: str = "5.1.1", action: str = "failed", email: str = ADA) -> bytes:
    """A bounce email of a mail server, with the headers of our message at its end."""
    ours = f"X-Mailwright-Message: {outbox_id}\r\nMessage-ID: <{outbox_id}@shop.example>\r\n" if outbox_id else ""
    return (
        "From: MAILER-DAEMON@mx.example.net\r\n"
        "To: bounces@shop.example\r\n"
        "Subject: Undelivered\r\n"
        f"Message-ID: <{status}.{action}.{email}@mx.example.net>\r\n"
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"\r\n'
        "MIME-Version: 1.0\r\n\r\n"
        "--b\r\nContent-Type: text/plain\r\n\r\nIt did not work.\r\n"
        "--b\r\nContent-Type: message/delivery-status\r\n\r\n"
        "Reporting-MTA: dns; mx.example.net\r\n\r\n"
        f"Final-Recipient: rfc822; {email}\r\nAction: {action}\r\nStatus: {status}\r\n"
        f"Diagnostic-Code: smtp; {REPLIES.get(status, f'550 {status} no such user')}\r\n\r\n"
        f"--b\r\nContent-Type: text/rfc822-headers\r\n\r\nSubject: Hello\r\n{ours}To: {email}\r\n\r\n--b--\r\n"
    ).encode()


def a_complaint_mail(outbox_id: str | None, kind: str = "abuse") -> bytes:
    ours = f"X-Mailwright-Message: {outbox_id}\r\n" if outbox_id else ""
    return (
        "From: fbl@mailbox.example.net\r\nTo: abuse@shop.example\r\nSubject: Complaint\r\n"
        f"Message-ID: <{kind}.{outbox_id}@mailbox.example.net>\r\n"
        'Content-Type: multipart/report; report-type=feedback-report; boundary="b"\r\nMIME-Version: 1.0\r\n\r\n'
        "--b\r\nContent-Type: text/plain\r\n\r\nA reader complains.\r\n"
        "--b\r\nContent-Type: message/feedback-report\r\n\r\n"
        f"Feedback-Type: {kind}\r\nUser-Agent: Loop/1.0\r\nVersion: 1\r\nOriginal-Rcpt-To: {ADA}\r\n\r\n"
        f"--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: Hello\r\n{ours}To: {ADA}\r\n"
        f"Message-ID: <{outbox_id or 'other'}@shop.example>\r\n\r\nHello\r\n--b--\r\n"
    ).encode()


@pytest.mark.parametrize(
    ("status", "action", "expected"),
    [
        ("5.1.1", "failed", ("bounced", ["*"])),
        ("4.2.2", "failed", ("active", [])),
        ("4.4.1", "delayed", ("active", [])),
        ("2.0.0", "delivered", ("active", [])),
    ],
)
async def test_bounce_email_updates_the_message(
    database: Database, clock: ManualClock, status: str, action: str, expected: tuple[str, list[str]]
) -> None:
    outbox_id = await a_sent_mail(database, clock)
    recorder = BounceMailRecorder(Reports(database, clock), clock)
    message = a_bounce_mail(outbox_id, status, action)
    assert (await recorder.record(message)).counts.new == 1
    assert (await recorder.record(message)).counts.repeated == 1
    found, scopes = await contact_state(database)
    assert (found or "active", scopes) == expected
    assert len(steps(await record_of(database, outbox_id))) == 5


@pytest.mark.promise("bounce-attributed")
@pytest.mark.parametrize(
    ("fields", "returned"),
    [
        ("", "Return-Path: <bounces+{}@shop.example>"),
        ("", "Reply-To: Shop <replies+{}@shop.example>"),
        ("", "List-Unsubscribe: <https://shop.example/unsubscribe?token=e30.c2ln&message={}>"),
        ("Original-Mail-From: <bounces+{}@shop.example>\r\n", "Subject: Hello"),
        ("Original-Envelope-Id: {}\r\n", "Subject: Hello"),
    ],
)
async def test_complaint_with_any_trace_of_our_id_counts(
    database: Database, clock: ManualClock, fields: str, returned: str
) -> None:
    outbox_id = await a_sent_mail(database, clock)
    email = (
        "From: fbl@mailbox.example.net\r\nSubject: Complaint\r\nMessage-ID: <c1@mailbox.example.net>\r\n"
        'Content-Type: multipart/report; report-type=feedback-report; boundary="b"\r\nMIME-Version: 1.0\r\n\r\n'
        f"--b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\n{fields}\r\n"
        f"--b\r\nContent-Type: message/rfc822\r\n\r\n{returned}\r\n\r\nHello\r\n--b--\r\n"
    ).format(outbox_id)
    recorded = await BounceMailRecorder(Reports(database, clock), clock).record(email.encode())
    assert (recorded.counts.new, recorded.counts.unknown) == (1, 0)
    assert await contact_state(database) == ("unsubscribed", ["*"])


@pytest.mark.parametrize(
    ("kind", "expected", "event"),
    [
        ("abuse", ("unsubscribed", ["*"]), "complaint"),
        ("not-spam", ("active", []), "not_spam"),
        ("auth-failure", ("active", []), None),
        ("opt-out", ("unsubscribed", ["general"]), "unsubscribe"),
    ],
)
async def test_feedback_email_counts_only_as_complaint_type(
    database: Database, clock: ManualClock, kind: str, expected: tuple[str, list[str]], event: str | None
) -> None:
    outbox_id = await a_sent_mail(database, clock)
    await BounceMailRecorder(Reports(database, clock), clock).record(a_complaint_mail(outbox_id, kind))
    found, scopes = await contact_state(database)
    assert (found or "active", scopes) == expected
    assert steps(await record_of(database, outbox_id))[4:] == ([event] if event else [])


@pytest.mark.parametrize("is_tallied", [False, True])
async def test_not_spam_takes_a_complaint_back(bench: Bench, *, is_tallied: bool) -> None:
    """The figures of the campaign and its guard rails are corrected, but the contact stays suppressed."""
    harness = CampaignHarness(bench)
    campaign = await harness.campaign(await harness.start(recipients=4))
    await harness.run_scheduler()
    await bench.drain(ScriptedProvider(name="smtp"))
    async with bench.database.read() as tx:
        rows = await tx.execute(select(messages.c.outbox_id).order_by(messages.c.id))
    recorder, tallier = BounceMailRecorder(bench.engine.reports, bench.clock), EventTallier(bench.database, bench.clock)
    # The first recipient complains, the second one takes it back, the third one never complained, and the fourth one
    # complains again.
    for kinds in (("abuse",), ("abuse", "not-spam", "not-spam"), ("not-spam",), ("abuse", "not-spam", "abuse")):
        outbox_id = rows.pop(0).outbox_id
        for number, kind in enumerate(kinds):
            email = a_complaint_mail(outbox_id, kind).replace(b"Message-ID: <", f"Message-ID: <{number}.".encode(), 1)
            await recorder.record(email)
            if is_tallied:
                await tallier.add_existing()
    numbers = await load_numbers(bench.database, campaign)
    assert numbers is not None
    assert numbers.results.complained == 2
    async with bench.database.read() as tx:
        assert await count_incidents(tx, campaign.key, 0) == {Incident.COMPLAINT: 2}
        assert [each.recipients for each in (await load_reasons(tx, campaign.key, 0)).complaints] == [2]
        breakdown = await load_breakdown(tx, campaign.key)
        suppressed = await tx.execute(select(suppressions.c.email))
    assert sum(each.complained for each in breakdown.domains) == 2
    shown = [row async for row in report_rows(bench.database, campaign.key, RecipientResponse.COMPLAINED)]
    assert len(shown) == 2
    assert len(suppressed) == 3


@pytest.mark.parametrize("named", ["forwarded@elsewhere.example", "redacted", "<>"])
async def test_forwarded_or_redacted_complaint_counts_by_its_id(
    database: Database, clock: ManualClock, named: str
) -> None:
    outbox_id = await a_sent_mail(database, clock)
    message = a_complaint_mail(outbox_id).replace(ADA.encode(), named.encode())
    assert (await BounceMailRecorder(Reports(database, clock), clock).record(message)).counts.new == 1
    assert await contact_state(database) == ("unsubscribed", ["*"])


async def test_forwarded_bounce_counts_by_its_id(database: Database, clock: ManualClock) -> None:
    outbox_id = await a_sent_mail(database, clock)
    message = a_bounce_mail(outbox_id, "5.1.1", "failed").replace(ADA.encode(), b"forwarded@elsewhere.example")
    await BounceMailRecorder(Reports(database, clock), clock).record(message)
    assert await contact_state(database) == ("bounced", ["*"])


async def test_bounce_email_without_our_id_changes_no_contact(database: Database, clock: ManualClock) -> None:
    """Anyone can write to the bounce address, but only a server that had the message knows its id."""
    outbox_ids = [await a_sent_mail(database, clock) for _ in range(4)]
    recorder = BounceMailRecorder(Reports(database, clock), clock)
    forged = [a_bounce_mail(None, status) for status in ("5.1.1", "5.2.2", "4.2.2", "4.2.1")]
    forged += [a_complaint_mail(None, kind) for kind in ("abuse", "opt-out")]
    with capture_logs() as lines:
        for message in forged:
            recorded = await recorder.record(message)
            assert [report.verdict for report in recorded.reports] == ["nothing"]
            assert (recorded.counts.new, recorded.counts.unknown) == (0, 1)
    assert [line["event"] for line in lines] == ["report_without_message"] * len(forged)
    assert await contact_state(database) == ("active", [])
    assert [len(steps(await record_of(database, each))) for each in outbox_ids] == [4] * 4


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Fri, 15 Jan 2027 07:59:00 +0000", -60),
        ("Fri, 15 Jan 2027 09:59:00 +0200", -60),
        ("Sat, 16 Jan 2027 08:00:00 +0000", 0),
        ("yesterday", 0),
        ("Fri, 15 Jan 99999 08:00:00 +0000", 0),
        (None, 0),
    ],
)
async def test_bounce_time_is_its_date_header(date: str | None, seconds: int) -> None:
    now = ManualClock(1_800_000_000_000).now()
    message = a_bounce_mail("0190a000-0000-7000-8000-000000000000")
    message = message if date is None else f"Date: {date}\r\n".encode() + message
    [report] = reports_of(parse_bounce_mail(message), now)
    assert report.at == now + seconds * 1000


async def test_maildir_is_emptied_after_recording(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    outbox_id = await a_sent_mail(database, clock)
    for name in ("new", "cur", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "new" / "1.bounce").write_bytes(a_bounce_mail(outbox_id))
    (tmp_path / "new" / "2.hello").write_bytes(b"Subject: hello\r\n\r\nhello\r\n")
    away = BounceMailboxReader(
        open_mailbox(f"maildir:{tmp_path}"), BounceMailRecorder(NoDatabase(database, clock), clock)
    )
    with pytest.raises(NotDurable):
        await away.poll()
    assert len(list((tmp_path / "new").iterdir())) == 2
    box = BounceMailboxReader(open_mailbox(f"maildir:{tmp_path}"), BounceMailRecorder(Reports(database, clock), clock))
    assert await box.poll() == 2
    assert list((tmp_path / "new").iterdir()) == []
    assert await contact_state(database) == ("bounced", ["*"])
    assert await box.poll() == 0


class Picky(Reports):
    """Reports that fail to record one recipient with an unexpected error."""

    async def receive(self, reports: Any, *, by_address: bool = False) -> Any:
        if any(report.recipient == POISON for report in reports):
            raise RuntimeError("a bug")
        return await super().receive(reports, by_address=by_address)


async def test_unrecordable_email_does_not_block_others(polled: Polled, tmp_path: Path) -> None:
    database, clock = polled.database, polled.clock
    outbox_id = await a_sent_mail(database, clock)
    reports = Picky(database, clock)
    for name in ("new", "cur", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "new" / "1.poison").write_bytes(a_bounce_mail(outbox_id, email=POISON))
    (tmp_path / "new" / "2.good").write_bytes(a_bounce_mail(outbox_id))
    polled.sqs.put(json.dumps(ses_event("Bounce", POISON, message_id="0100-1")))
    polled.sqs.put(json.dumps(ses_event("Delivery", ADA, outbox_id=outbox_id)))
    with capture_logs() as lines:
        assert (
            await BounceMailboxReader(open_mailbox(f"maildir:{tmp_path}"), BounceMailRecorder(reports, clock)).poll()
            == 1
        )
        assert await polled.events(reports).poll() == 2
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["1.poison"]
    assert len(polled.sqs.bodies) == 1
    assert [line["event"] for line in lines] == ["bounce_mail_failed", "sqs_message_failed"]


async def test_repeatedly_failing_email_is_flagged(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise such emails would fill every pass, and those behind them would never be read."""
    outbox_id = await a_sent_mail(database, clock)
    monkeypatch.setattr("mailwright.events.bounces.imap.MAX_EMAILS", 1)
    async with ImapServer(is_encrypted=False) as server:
        poison = server.put(a_bounce_mail(outbox_id, email=POISON))
        good = server.put(a_bounce_mail(outbox_id))
        settings = ImapSettings("127.0.0.1", server.port, USER, PASSWORD, is_encrypted=False)
        box = BounceMailboxReader(ImapMailbox(settings), BounceMailRecorder(Picky(database, clock), clock))
        with capture_logs() as lines:
            counts = [await box.poll() for _ in range(MAX_ATTEMPTS + 2)]
        assert counts == [0] * MAX_ATTEMPTS + [1, 0]
        assert [server.flags(uid) for uid in (poison, good)] == [{"\\Flagged"}, {"\\Seen"}]
    names = [line["event"] for line in lines]
    assert names == ["bounce_mail_failed"] * MAX_ATTEMPTS + ["bounce_mail_flagged"]
    assert await contact_state(database) == ("bounced", ["*"])


async def test_maildir_keeps_flagged_email(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "1.poison").write_bytes(a_bounce_mail("0190a000-0000-7000-8000-000000000000", email=POISON))
    box = BounceMailboxReader(open_mailbox(f"maildir:{tmp_path}"), BounceMailRecorder(Picky(database, clock), clock))
    for _ in range(MAX_ATTEMPTS):
        assert await box.poll() == 0
    assert [file.name for file in (tmp_path / "cur").iterdir()] == ["1.poison:2,F"]


# Polling.


class Scripted:
    name = "scripted"
    pause_seconds = 0.0

    def __init__(self, *results: int | Exception) -> None:
        self._results = list(results)
        self.asked = 0

    async def poll(self) -> int:
        self.asked += 1
        if not self._results:
            raise asyncio.CancelledError
        result = self._results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


async def test_failed_poll_is_logged_and_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def no_pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("mailwright.app.inbound.asyncio.sleep", no_pause)
    inlet = Scripted(3, 0, NotDurable("away"), RuntimeError("a bug"), 1)
    with capture_logs() as lines, pytest.raises(asyncio.CancelledError):
        await poll(inlet)
    assert inlet.asked == 6
    assert [line["event"] for line in lines] == ["periodic_work_postponed", "periodic_work_failed"]
    assert pauses == [0.0, 1.0, 15.0, 15.0, 0.0]


# Settings.


def test_all_invalid_inbound_settings_are_reported(tmp_path: Path) -> None:
    settings = settings_for(
        "sqlite:///x.db",
        sendgrid_webhook_public_key="no key",
        sns_certs=tmp_path / "nowhere",
        sqs_queue_url="http://sqs.eu-west-1.amazonaws.com/1/q",
        bounce_mailbox="pop3://user:s3cret@mail.example.com",
    )
    with pytest.raises(ConfigurationInvalid) as raised:
        verify_inbound(settings)
    names = [problem.partition(":")[0] for problem in raised.value.problems]
    assert names == [
        "SENDGRID_WEBHOOK_PUBLIC_KEY",
        "MAILWRIGHT_SNS_CERTS",
        "MAILWRIGHT_SQS_QUEUE_URL",
        "MAILWRIGHT_BOUNCE_MAILBOX",
    ]
    assert "s3cret" not in str(raised.value)


# The bounce command.


async def bounce(url: str, folder: Path, message: bytes, *options: str) -> tuple[int, str, str]:
    """Run `mailwright bounce` as a mail server does."""
    process = await asyncio.create_subprocess_exec(
        *(*warm_command(), "bounce", *options),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "MAILWRIGHT_DATABASE_URL": url},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, errors = await process.communicate(message)
    return process.returncode or 0, out.decode(), errors.decode()


async def test_bounce_command_records_a_bounce(engine: DatabaseAddress, database: Database, tmp_path: Path) -> None:
    clock = ManualClock()
    outbox_id = await a_sent_mail(database, clock)
    code, out, _ = await bounce(engine.url, tmp_path, a_bounce_mail(outbox_id) + b"x" * 3_000_000, "--json")
    output = json.loads(out)
    assert (code, output["kind"], output["new"]) == (0, "bounce", 1)
    assert (output["reports"][0]["recipient"], output["reports"][0]["verdict"]) == (ADA, "hard_bounce")
    assert await contact_state(database) == ("bounced", ["*"])


async def test_bounce_command_ignores_unrelated_email(engine: DatabaseAddress, tmp_path: Path) -> None:
    code, out, errors = await bounce(engine.url, tmp_path, b"Subject: hello\r\n\r\nhello\r\n")
    assert (code, out) == (0, "Not a report about a message from this installation: unrelated.\n")
    assert "bounce_mail_ignored" in errors


@pytest.mark.parametrize(
    "url", ["sqlite:///nowhere/mailwright.db", "postgresql://u:s3cret@127.0.0.1:1/x", "mysql://localhost/x"]
)
async def test_bounce_command_asks_for_retry_without_database(url: str, tmp_path: Path) -> None:
    code, out, errors = await bounce(url, tmp_path, a_bounce_mail(None))
    assert (code, out) == (75, "")
    assert errors
    assert "s3cret" not in errors


# The whole service.


@pytest.mark.parametrize("service", ["serve", "worker"])
async def test_service_polls_its_mailbox_until_stopped(
    engine: DatabaseAddress, database: Database, tmp_path: Path, service: str
) -> None:
    outbox_id = await a_sent_mail(database, ManualClock())
    box = tmp_path / "box"
    for name in ("new", "cur", "tmp"):
        (box / name).mkdir(parents=True)
    (box / "new" / "1.bounce").write_bytes(a_bounce_mail(outbox_id))
    settings = {"MAILWRIGHT_DATABASE_URL": engine.url, "MAILWRIGHT_BOUNCE_MAILBOX": f"maildir:{box}"}
    options = ("--port", "0", "--no-worker") if service == "serve" else ()
    async with Commands(tmp_path, settings).service(service, *options) as running:
        assert (await running.logged("inbound_source_opened"))["source"] == "bounce_mailbox"
        async with asyncio.timeout(60):
            while list((box / "new").iterdir()):
                await asyncio.sleep(0.01)
        running.signal(signal.SIGTERM)
        assert await running.ended(within=60) == 0
    assert await contact_state(database) == ("bounced", ["*"])
