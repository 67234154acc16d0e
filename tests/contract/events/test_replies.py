"""Replies to our messages, on both engines: matching, recording, forwarding and loops."""

from collections.abc import AsyncIterator
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.access.api_keys import Caller
from mailwright.app.inbound import make_recorder
from mailwright.audience import erasure, personal_data
from mailwright.audience.erasure_state import find_erasure
from mailwright.content.headers import Mailbox
from mailwright.content.raw import MAX_RAW_BYTES
from mailwright.domain.clock import HOUR, ManualClock
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import ACCOUNT_EMAIL, Accepted
from mailwright.domain.states import EventType
from mailwright.events.bounce_mail import BounceMailboxReader, BounceMailRecorder, RecordedBounceMail
from mailwright.events.bounces import open_mailbox
from mailwright.events.outbound.deliveries import WebhookDeliveries
from mailwright.events.outbound.derive import derive_deliveries
from mailwright.events.outbound.endpoints import WebhookEndpointInput, WebhookEndpoints
from mailwright.events.replies import MAX_FORWARDED_PER_HOUR, ReplyRecorder, ReplySettings
from mailwright.outbox import tenants
from mailwright.outbox.tallies import EventTallier
from mailwright.sources.api.emails import AddressedEmail
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.campaigns.numbers import load_numbers
from mailwright.storage.tables import contacts, events, messages, raw_contents, suppressions
from tests.builders import DEFAULT_TENANT, Bench, a_bench, a_message, a_newsletter, a_tenant, steps, the_event
from tests.campaigns import CampaignHarness
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider
from tests.unit.events.bounce_emails import a_feedback, a_group, a_report, a_text

ANN = "ann@reader.example"
SUPPORT = "support@shop.example"
BODY = "Thank you!\n"
AUTOMATIC = ("Auto-Submitted: auto-replied",)


@pytest.fixture
async def shop(engine: DatabaseAddress, clock: ManualClock) -> AsyncIterator[Bench]:
    """An installation that forwards replies."""
    async with a_bench(engine.url, clock, reply_forward_to=SUPPORT, reply_address="replies@shop.example") as bench:
        yield bench


def a_recorder(bench: Bench) -> BounceMailRecorder:
    engine = bench.engine
    return make_recorder(engine.settings, engine.database, engine.clock, engine.reports, engine.acceptor)


def a_reply(outbox_id: str | None, *headers: str, sender: str = f"Ann Reader <{ANN}>", body: str = BODY) -> bytes:
    answers = [f"In-Reply-To: <{outbox_id}@example.com>"] if outbox_id else []
    named = {line.partition(":")[0].lower() for line in headers}
    defaults = {"subject": "Subject: Re: Hello", "message-id": "Message-ID: <r1@reader.example>"}
    lines = [
        *(f"From: {sender}", "To: replies@shop.example", *answers, *headers),
        *(line for name, line in defaults.items() if name not in named),
    ]
    return "\n".join([*lines, "", body]).encode()


async def a_sent_message(bench: Bench, message: Any = None) -> str:
    [outbox_id] = await bench.accept(message or a_message(to=ANN))
    await bench.drain(ScriptedProvider(name="smtp"))
    return outbox_id


async def record(bench: Bench, content: bytes) -> RecordedBounceMail:
    return await a_recorder(bench).record(content)


async def forwarded(bench: Bench) -> list[Any]:
    """Send what waits, and return the emails that were sent."""
    provider = ScriptedProvider(name="smtp")
    await bench.drain(provider)
    return [(sent.recipients, message_from_bytes(sent.content, policy=policy.default)) for sent in provider.messages]


async def suppressed(bench: Bench) -> list[tuple[str, str]]:
    async with bench.database.read() as tx:
        rows = await tx.execute(select(suppressions.c.email, suppressions.c.list_key))
    return [(row.email, row.list_key) for row in rows]


# Matching.


@pytest.mark.promise("reply-recorded")
@pytest.mark.parametrize(
    "headers",
    [
        ["In-Reply-To: <{id}@example.com>"],
        ["References: <a@b.example> <{id}@example.com>"],
        ["In-Reply-To: <other@reader.example>", "References: <{id}@example.com> <other@reader.example>"],
        ["Delivered-To: replies+{id}@shop.example"],
        ["Cc: replies+{id}@shop.example", "X-Original-To: replies+{id}@shop.example"],
    ],
)
async def test_reply_is_recorded_once_on_its_message(shop: Bench, headers: list[str]) -> None:
    outbox_id = await a_sent_message(shop)
    reply = a_reply(None, *(line.format(id=outbox_id) for line in headers))
    counts = [(await record(shop, reply)).counts for _ in range(2)]
    assert [(each.new, each.repeated) for each in counts] == [(1, 0), (0, 1)]
    found = await shop.record(outbox_id)
    assert steps(found)[-1] == EventType.REPLIED
    metadata = the_event(found, EventType.REPLIED).metadata
    assert (metadata["isAutomatic"], metadata["isFromRecipient"], metadata["subject"]) == (False, True, "Re: Hello")
    assert ANN not in str(metadata)


async def test_reply_to_tagged_reply_address_is_matched(shop: Bench) -> None:
    await shop.accept(a_message(to=ANN), a_newsletter(to="bob@reader.example"))
    for _, sent in await forwarded(shop):
        outbox_id = str(sent["X-Mailwright-Message"])
        assert sent["Reply-To"] == f"Shop <replies+{outbox_id}@shop.example>"
        reply = a_reply(None, f"To: {sent['Reply-To']}", sender=str(sent["To"]), body=outbox_id)
        assert (await record(shop, reply.replace(b"To: replies@shop.example\n", b""))).kind == "reply"


@pytest.mark.parametrize("template", [None, {"replyTo": "own@shop.example"}])
async def test_own_reply_to_is_kept(shop: Bench, template: dict[str, str] | None) -> None:
    message = a_message(to=ANN)
    message.payload = {**message.payload, **(template or {})}
    await shop.accept(message)
    [(_, sent)] = await forwarded(shop)
    assert (sent["Reply-To"] == "own@shop.example") is (template is not None)


async def test_reply_to_raw_email_is_matched_by_its_recipient(shop: Bench) -> None:
    raw = f"From: app@example.com\r\nTo: {ANN}\r\nMessage-ID: <order-1@app.example>\r\nSubject: x\r\n\r\nHello\r\n"
    accepted = await shop.engine.raw_messages.send(RequestContext(Caller(1, "default"), "r1"), raw.encode())
    await shop.drain(ScriptedProvider(name="smtp"))
    answers = "In-Reply-To: <order-1@app.example>"
    stranger = await record(shop, a_reply(None, answers, sender="eve@evil.example", body="other"))
    assert (stranger.kind, stranger.reports) == ("unrelated", ())
    assert (await record(shop, a_reply(None, answers))).kind == "reply"
    assert steps(await shop.record(accepted.messages[0].outbox_id))[-1] == EventType.REPLIED


async def test_reply_is_matched_by_any_message_id_of_its_recipient(shop: Bench) -> None:
    """The Message-ID is neither the message's id nor its idempotency key."""
    caller, boxes = Caller(1, "default"), (Mailbox(ANN, None), Mailbox("bob@reader.example", None))
    raw = f"From: app@example.com\r\nTo: {ANN}, bob@reader.example\r\nSubject: x\r\n\r\nHello\r\n"
    identified = f"Message-ID: <order-1@app.example>\r\n{raw}"
    await shop.engine.raw_messages.send(RequestContext(caller, "r1"), raw.encode())
    await shop.engine.raw_messages.send(RequestContext(caller, "r2", "key"), identified.encode())
    fields = {"from": "app@example.com", "subject": "x", "text": "Hello"}
    await shop.engine.api_emails.send(RequestContext(caller, "r3"), [AddressedEmail(fields, boxes)])
    sent = await forwarded(shop)
    assert len(sent) == 6
    for (recipient,), email in sent:
        answers = f"In-Reply-To: {email['Message-ID']}"
        recorded = await record(shop, a_reply(None, answers, sender=recipient, body=recipient + answers))
        assert [each.outbox_id for each in recorded.reports] == [email["X-Mailwright-Message"]]
        assert (await record(shop, a_reply(None, answers, sender="eve@evil.example"))).kind == "unrelated"


async def test_reply_to_same_message_id_of_two_tenants_is_unmatched(shop: Bench) -> None:
    acme = await a_tenant(shop.database, "acme")
    raw = f"From: app@example.com\r\nTo: {ANN}\r\nMessage-ID: <order-1@app.example>\r\nSubject: x\r\n\r\nHello\r\n"
    for tenant_id, name in ((1, "default"), (acme, "acme")):
        await shop.engine.raw_messages.send(RequestContext(Caller(tenant_id, name), name), raw.encode())
    await shop.drain(ScriptedProvider(name="smtp"))
    assert (await record(shop, a_reply(None, "In-Reply-To: <order-1@app.example>"))).kind == "unrelated"


@pytest.mark.parametrize(
    "header",
    [
        "Auto-Submitted: auto-replied",
        "Auto-Submitted: auto-generated (vacation)",
        "Auto-Submitted: (vacation) auto-replied",
        "Precedence: bulk (robot)",
        "Auto-Submitted: auto-notified; owner-email=x",
        "X-Autoreply: yes",
        "X-Autorespond: Hello",
        "Precedence: auto_reply",
        "Precedence: bulk",
        "Return-Path: < >",
        "Subject: Out of Office: Re: Hello",
        "Subject: Abwesend:",
        "Subject: Out of Office Reply: Hello",
        "Subject: Automatic reply: Hello",
        "Subject: =?utf-8?b?0JDQstGC0L7QvtGC0LLQtdGCOiBIZWxsbw==?=",
        "Subject: =?utf-8?b?0JDQstGC0L7QvNCw0YLQuNGH0LXRgdC60LjQuSDQvtGC0LLQtdGCOiBIZWxsbw==?=",
        "Subject: Automatische Antwort: Hello",
        "X-Mail-Autoreply: yes",
        "Content-Type: multipart/report; report-type=disposition-notification; boundary=b",
    ],
)
@pytest.mark.promise("reply-recorded")
async def test_automatic_reply_is_recognized(shop: Bench, header: str) -> None:
    outbox_id = await a_sent_message(shop)
    recorded = await record(shop, a_reply(outbox_id, header))
    assert recorded.kind == "auto_reply"
    assert the_event(await shop.record(outbox_id), EventType.REPLIED).is_automatic
    assert await forwarded(shop) == []


@pytest.mark.promise("reply-forwarded")
@pytest.mark.parametrize(
    "header",
    [
        "Auto-Submitted: no",
        "Feedback-ID: 12345678:user:proton",
        "List-Id: <staff.reader.example>",
        "X-Auto-Response-Suppress: OOF",
        "Subject: Auto: which colours are there?",
        "Subject: Out of office space, can we meet at yours?",
        "Subject: Auto reply settings for my account",
        "Subject: Automated response is wrong, please call me",
        "Subject: Automatic replying is broken",
        "Subject: Automatic reply",
        "Subject: Vacation",
        "Subject: Vacation: which dates are free?",
        "Subject: Out of office",
        "Subject: Out of office: please hold my delivery",
        "Subject: Abwesend: Bitte erst im Mai liefern",
        "Subject: Respuesta automatizada de ustedes: es un error",
        "Subject: =?UTF-8?B?SGVsb?=",
    ],
)
async def test_reply_with_headers_of_mail_services_is_forwarded(shop: Bench, header: str) -> None:
    outbox_id = await a_sent_message(shop)
    assert (await record(shop, a_reply(outbox_id, header))).kind == "reply"
    assert [recipients for recipients, _ in await forwarded(shop)] == [(SUPPORT,)]


@pytest.mark.promise("reply-forwarded")
@pytest.mark.parametrize(
    ("sender", "reply_to", "shown"),
    [
        (f"{ANN} (Ann Reader)", f"Ann Reader <{ANN}>", "Ann Reader"),
        (f"Ann Reader <{ANN}>, Bob <bob@reader.example>", f"Ann Reader <{ANN}>", "Ann Reader"),
        (f"{ANN}, bob@reader.example", ANN, "ann at reader.example"),
        (f"Reader, Ann <{ANN}>", f'"Reader, Ann" <{ANN}>', "Reader, Ann"),
        (f"Ann @ Home: [private] <{ANN}>", f'"Ann @ Home: [private]" <{ANN}>', "Ann @ Home: [private]"),
        (f"Ann Reader {ANN}", f"Ann Reader <{ANN}>", "Ann Reader"),
        (f"=?UTF-8?B?SGVsb?= <{ANN}>", f"=?UTF-8?B?SGVsb?= <{ANN}>", "=?UTF-8?B?SGVsb?="),
        ("änn@reader.example", None, "änn at reader.example"),
        ("Ann Reader", None, "Unknown sender"),
    ],
)
async def test_reply_with_unusual_author_is_forwarded(
    shop: Bench, sender: str, reply_to: str | None, shown: str
) -> None:
    outbox_id = await a_sent_message(shop)
    recorded = await record(shop, a_reply(outbox_id, sender=sender))
    assert recorded.kind == "reply"
    assert the_event(await shop.record(outbox_id), EventType.REPLIED).metadata["isFromRecipient"] is (
        reply_to is not None
    )
    [(_, sent)] = await forwarded(shop)
    boxes = [str(each) for each in sent["Reply-To"].addresses] if reply_to else sent["Reply-To"]
    assert boxes in ([reply_to], None)
    assert sent["From"].addresses[0].display_name == f"{shown} via Shop"


@pytest.mark.promise("reply-forwarded")
@pytest.mark.parametrize("subject", ["Parcel not delivered", "Res: Delivery status", "Vacation plans"])
async def test_reply_about_a_missing_delivery_is_forwarded(shop: Bench, subject: str) -> None:
    outbox_id = await a_sent_message(shop)
    body = f"My parcel was not delivered, order 550.\n\nAnn\n{ANN}\n"
    recorded = await record(shop, a_reply(outbox_id, f"Subject: {subject}", body=body))
    assert (recorded.kind, [each.type for each in recorded.reports]) == ("reply", [EventType.REPLIED])
    assert [sent["Subject"] for _, sent in await forwarded(shop)] == [subject]
    assert await suppressed(shop) == []


BOUNCE = a_report(a_group("colleague@shop.example"), original="Message-ID: <own@reader.example>\n\nHello\n").decode()
MIXED = "Content-Type: multipart/mixed; boundary=out"
NOTE = "--out\nContent-Type: text/plain\n\nWhat is the right address?\n--out\n"
STATUS_PART = BOUNCE[BOUNCE.index("Content-Type: message/delivery-status") :].partition("--edge")[0]


@pytest.mark.promise("reply-forwarded")
@pytest.mark.parametrize("answers", ["In-Reply-To: <{id}@example.com>", "Delivered-To: replies+{id}@shop.example"])
@pytest.mark.parametrize(
    ("header", "body"),
    [
        (MIXED, f"{NOTE}Content-Type: message/rfc822\n\n{BOUNCE}\n--out--\n"),
        (MIXED, f"{NOTE}{STATUS_PART}\n--out--\n"),
        (MIXED, f"{NOTE}Content-Type: message/rfc822\n\n{a_feedback(original='').decode()}\n--out--\n"),
        ("Subject: Reporting-MTA", f"Reporting-MTA: dns; mx.example\n\n{a_group('info@shop.example')}\nWhy? Ann\n"),
        ("Subject: It was not delivered", "It was not delivered:\n\nbob@reader.example\n550 5.1.1 unknown\n"),
        (
            "Subject: Notice",
            '{"notificationType": "Bounce", "bounce": {"bounceType": "Permanent", "bouncedRecipients":'
            ' [{"emailAddress": "bob@reader.example", "status": "5.1.1", "action": "failed"}]}}',
        ),
    ],
)
async def test_reply_with_another_report_is_forwarded(shop: Bench, answers: str, header: str, body: str) -> None:
    outbox_id = await a_sent_message(shop)
    recorded = await record(shop, a_reply(None, answers.format(id=outbox_id), header, body=body))
    assert (recorded.kind, [each.type for each in recorded.reports]) == ("reply", [EventType.REPLIED])
    assert [recipients for recipients, _ in await forwarded(shop)] == [(SUPPORT,)]
    assert await suppressed(shop) == []


# Forged replies, and replies that ask to unsubscribe.


@pytest.mark.promise("reply-recorded")
@pytest.mark.parametrize("subject", ["unsubscribe", "Re: Hello"])
async def test_reply_without_our_id_changes_nothing(shop: Bench, subject: str) -> None:
    outbox_id = await a_sent_message(shop, a_newsletter(to=ANN))
    before = steps(await shop.record(outbox_id))
    forged = "0190a000-0000-7000-8000-000000000000"
    for number, claimed in enumerate((None, forged)):
        recorded = await record(shop, a_reply(claimed, f"Subject: {subject}", body=str(number)))
        assert (recorded.kind, recorded.reports) == ("unrelated", ())
    assert steps(await shop.record(outbox_id)) == before
    assert await suppressed(shop) == []


@pytest.mark.promise("reply-recorded")
@pytest.mark.parametrize(
    ("subject", "sender", "extra", "is_bulk", "unsubscribes"),
    [
        ("Unsubscribe", ANN, None, True, True),
        ("  STOP! ", ANN, None, True, True),
        ("Отписаться", ANN, None, True, True),
        ("Please stop", ANN, None, True, False),
        ("Re: unsubscribe", ANN, None, True, False),
        ("unsubscribe", "eve@evil.example", None, True, False),
        ("unsubscribe", ANN, "Auto-Submitted: auto-replied", True, False),
        ("unsubscribe", ANN, None, False, False),
    ],
)
async def test_reply_unsubscribes_only_with_all_conditions(
    shop: Bench, subject: str, sender: str, extra: str | None, *, is_bulk: bool, unsubscribes: bool
) -> None:
    outbox_id = await a_sent_message(shop, a_newsletter(to=ANN) if is_bulk else a_message(to=ANN))
    await record(shop, a_reply(outbox_id, f"Subject: {subject}", *([extra] if extra else []), sender=sender))
    assert await suppressed(shop) == ([(ANN, "general")] if unsubscribes else [])
    assert (EventType.UNSUBSCRIBED in steps(await shop.record(outbox_id))) is unsubscribes


# Forwarding.


@pytest.mark.promise("account-links")
async def test_reply_to_an_account_email_is_not_forwarded(shop: Bench) -> None:
    """It may quote a link that resets a password."""
    message = a_message(to=ANN)
    message.payload = {**message.payload, ACCOUNT_EMAIL: True}
    outbox_id = await a_sent_message(shop, message)
    await record(shop, a_reply(outbox_id, body="> https://mail.example/sign-in/reset?token=abc"))
    assert await forwarded(shop) == []
    assert steps(await shop.record(outbox_id))[-1] == EventType.REPLIED


@pytest.mark.promise("reply-forwarded")
async def test_reply_is_forwarded_once(shop: Bench) -> None:
    outbox_id = await a_sent_message(shop)
    reply = a_reply(outbox_id, "Content-Type: text/plain; charset=utf-8", "X-SES-Outgoing: 1", body="Grüße\n.\n.x\n")
    ids = [(await record(shop, each)).reply for each in (reply, b"Received: by mx2\n" + reply)]
    assert ids[0] is not None
    assert ids[1] is not None
    assert ids[0].forwarded_as == ids[1].forwarded_as
    [(recipients, sent)] = await forwarded(shop)
    assert recipients == (SUPPORT,)
    assert sent["From"] == "Ann Reader via Shop <shop@example.com>"
    assert (sent["Reply-To"], sent["To"], sent["Subject"]) == (f"Ann Reader <{ANN}>", SUPPORT, "Re: Hello")
    assert sent["In-Reply-To"] == f"<{outbox_id}@example.com>"
    assert sent["X-SES-Outgoing"] is None
    assert sent.get_content().splitlines() == ["Grüße", ".", ".x"]


@pytest.mark.promise("reply-forwarded")
async def test_flood_of_replies_is_left_for_an_operator(shop: Bench) -> None:
    outbox_id = await a_sent_message(shop)
    old = "Date: Fri, 01 Jan 2021 00:00:00 +0000"  # The sender chooses the date, so it must not matter.
    replies = [a_reply(outbox_id, old, f"Message-ID: <r{n}@reader.example>") for n in range(MAX_FORWARDED_PER_HOUR + 1)]
    found = [(await record(shop, reply)).reply for reply in replies]
    assert [each is not None and each.needs_operator for each in found] == [False] * MAX_FORWARDED_PER_HOUR + [True]
    assert len(await forwarded(shop)) == MAX_FORWARDED_PER_HOUR
    shop.clock.advance(HOUR)
    await record(shop, replies[-1])
    assert len(await forwarded(shop)) == 1


async def test_same_message_id_with_another_body_is_forwarded(shop: Bench) -> None:
    outbox_id = await a_sent_message(shop)
    for body in ("one\n", "two\n"):
        await record(shop, a_reply(outbox_id, body=body))
    assert sorted(sent.get_content().strip() for _, sent in await forwarded(shop)) == ["one", "two"]


@pytest.mark.promise("reply-forwarded")
async def test_tenant_address_comes_before_the_setting(shop: Bench) -> None:
    acme = await a_tenant(shop.database, "acme")
    await tenants.change(shop.database, "acme", reply_forward_to="help@acme.example")
    outbox_id = await a_sent_message(shop, a_message(to=ANN, tenant_id=acme))
    await record(shop, a_reply(outbox_id))
    assert [recipients for recipients, _ in await forwarded(shop)] == [("help@acme.example",)]
    async with shop.database.read() as tx:
        rows = await tx.execute(select(messages.c.tenant_id).where(messages.c.to_email == "help@acme.example"))
    assert [row.tenant_id for row in rows] == [acme]


@pytest.mark.promise("reply-forwarded")
async def test_forwarded_reply_is_never_forwarded_again(shop: Bench) -> None:
    outbox_id = await a_sent_message(shop)
    await record(shop, a_reply(outbox_id))
    provider = ScriptedProvider(name="smtp")
    await shop.drain(provider)
    [sent] = provider.messages
    returned = [
        sent.content,  # the address for replies forwards to the bounce mailbox
        a_reply(sent.outbox_id, sender=SUPPORT, body="1"),
        a_reply(sent.outbox_id, sender="colleague@shop.example", body="2"),
        a_reply(outbox_id, sender=SUPPORT, body="3"),
        a_reply(sent.outbox_id, "Auto-Submitted: auto-replied", sender=SUPPORT, body="4"),
    ]
    for each in returned:
        await record(shop, each)
    assert await forwarded(shop) == []


@pytest.mark.promise("reply-forwarded")
async def test_bounce_of_forwarded_reply_is_not_forwarded(shop: Bench) -> None:
    outbox_id = await a_sent_message(shop)
    await record(shop, a_reply(outbox_id))
    [(_, sent)] = await forwarded(shop)
    bounce = (
        f"From: MAILER-DAEMON@mx.example\nTo: bounces+{sent['X-Mailwright-Message']}@example.com\n"
        "Subject: failure notice\n\nYour message could not be delivered:\n550 5.1.1 user unknown\n"
    )
    assert (await record(shop, bounce.encode())).kind == "bounce"
    assert await forwarded(shop) == []


# The mailbox.


@pytest.fixture
def box(tmp_path: Path) -> Path:
    for name in ("new", "cur", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path


async def poll(bench: Bench, box: Path) -> list[str]:
    """Read the mailbox, and return the names of the read emails with their flags."""
    await BounceMailboxReader(open_mailbox(f"maildir:{box}"), a_recorder(bench)).poll()
    return sorted(file.name for file in (box / "cur").iterdir())


@pytest.mark.promise("reply-forwarded")
async def test_unmatched_email_is_left_for_an_operator(shop: Bench, box: Path) -> None:
    outbox_id = await a_sent_message(shop)
    large = a_reply(outbox_id, body="x\n" * (MAX_RAW_BYTES // 2))
    emails = {
        "1.reply": a_reply(outbox_id),
        "2.unmatched": a_reply(None, body="2"),
        "3.automatic": a_reply(None, "Auto-Submitted: auto-replied"),
        "4.large": large,
        "5.binary": a_reply(outbox_id, body="a\0b"),
    }
    for name, content in emails.items():
        (box / "new" / name).write_bytes(content)
    names = await poll(shop, box)
    assert names == ["1.reply:2,S", "2.unmatched:2,F", "3.automatic:2,S", "4.large:2,F", "5.binary:2,F"]
    assert steps(await shop.record(outbox_id)).count(EventType.REPLIED) == 3
    assert len(await forwarded(shop)) == 1


UNREADABLE = a_text("It was not delivered.", sender="Postmaster <postmaster@school.example>", subject="Newsletter")


@pytest.mark.promise("reply-forwarded")
async def test_bounce_without_effect_is_left_for_an_operator(shop: Bench, box: Path) -> None:
    emails = {
        "1.unreadable": UNREADABLE,
        "2.empty": a_report(content_type="multipart/report; report-type=delivery-status; boundary=other"),
        "3.unknown": a_text("<bob@reader.example>:\n550 5.1.1 unknown"),
        "4.unknown": a_report(original="Message-ID: <other@sender.example>\n\nHello\n"),
    }
    for name, content in emails.items():
        (box / "new" / name).write_bytes(content)
    assert await poll(shop, box) == [f"{name}:2,F" for name in emails]


async def test_unreadable_bounce_of_a_person_is_forwarded(
    engine: DatabaseAddress, clock: ManualClock, box: Path
) -> None:
    async with a_bench(engine.url, clock, reply_forward_to=SUPPORT, reply_forward_unmatched=True) as bench:
        (box / "new" / "1.unreadable").write_bytes(UNREADABLE)
        assert await poll(bench, box) == ["1.unreadable:2,S"]
        assert [recipients for recipients, _ in await forwarded(bench)] == [(SUPPORT,)]


@pytest.mark.parametrize(
    ("sender", "subject", "body"),
    [
        ("ivo@mail-delivery.example", "Delivery failed", "It failed again. Please write to my wife:\neva@home.example"),
        (
            "olga@reader.example",
            "Order not delivered",
            "The order was not delivered.\nolga2@reader.example: my address",
        ),
        (
            "Luc <luc@reader.example>",
            "Colis non distribué",
            "Le colis n'a pas été livré. Contactez\nmarie@reader.example",
        ),
    ],
)
async def test_person_who_writes_like_a_bounce_is_forwarded(
    engine: DatabaseAddress, clock: ManualClock, box: Path, sender: str, subject: str, body: str
) -> None:
    async with a_bench(engine.url, clock, reply_forward_to=SUPPORT, reply_forward_unmatched=True) as bench:
        (box / "new" / "1.person").write_bytes(a_text(body, sender=sender, subject=subject))
        assert await poll(bench, box) == ["1.person:2,S"]
        assert [recipients for recipients, _ in await forwarded(bench)] == [(SUPPORT,)]


async def test_unmatched_email_is_forwarded_if_set(engine: DatabaseAddress, clock: ManualClock, box: Path) -> None:
    async with a_bench(engine.url, clock, reply_forward_to=SUPPORT, reply_forward_unmatched=True) as bench:
        (box / "new" / "1.hello").write_bytes(a_reply(None))
        (box / "new" / "2.notice").write_bytes(a_reply(None, "Auto-Submitted: auto-generated", body="2"))
        assert await poll(bench, box) == ["1.hello:2,S", "2.notice:2,S"]
        assert [recipients for recipients, _ in await forwarded(bench)] == [(SUPPORT,)]


async def test_flood_of_unmatched_email_is_left_for_an_operator(
    engine: DatabaseAddress, clock: ManualClock, box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailwright.events.replies.MAX_UNMATCHED_PER_HOUR", 2)
    async with a_bench(engine.url, clock, reply_forward_to=SUPPORT, reply_forward_unmatched=True) as bench:
        for number in range(3):
            (box / "new" / f"{number}.hello").write_bytes(a_reply(None, body=str(number)))
        assert await poll(bench, box) == ["0.hello:2,S", "1.hello:2,S", "2.hello:2,F"]
        clock.advance(HOUR + 1)
        (box / "new" / "3.hello").write_bytes(a_reply(None, body="3"))
        assert (await poll(bench, box))[-1] == "3.hello:2,S"


@pytest.mark.promise("reply-forwarded")
async def test_interrupted_email_is_read_again_and_forwarded_once(shop: Bench, box: Path) -> None:
    """A process that is killed after any of its commits leaves the email in the mailbox."""
    outbox_id = await a_sent_message(shop)
    reply = a_reply(outbox_id)
    (box / "new" / "1.reply").write_bytes(reply)
    await record(shop, reply)  # committed, and not marked as done
    await poll(shop, box)
    assert len(await forwarded(shop)) == 1
    assert steps(await shop.record(outbox_id)).count(EventType.REPLIED) == 1


@pytest.mark.promise("reply-forwarded")
async def test_reply_that_was_only_recorded_is_forwarded_later(shop: Bench, box: Path) -> None:
    """A process that is killed between its two commits has recorded the reply, and not forwarded it."""
    outbox_id = await a_sent_message(shop)
    (box / "new" / "1.reply").write_bytes(a_reply(outbox_id))
    engine = shop.engine

    async def killed(_messages: object) -> list[Accepted]:
        raise NotDurable("killed")

    settings = ReplySettings(Mailbox("shop@example.com"), SUPPORT)
    replies = ReplyRecorder(shop.database, shop.clock, engine.reports, killed, settings)
    recorder = BounceMailRecorder(engine.reports, shop.clock, replies)
    with pytest.raises(NotDurable):
        await BounceMailboxReader(open_mailbox(f"maildir:{box}"), recorder).poll()
    assert [file.name for file in (box / "new").iterdir()] == ["1.reply"]
    assert await poll(shop, box) == ["1.reply:2,S"]
    assert len(await forwarded(shop)) == 1
    assert steps(await shop.record(outbox_id)).count(EventType.REPLIED) == 1


# Figures and personal data.


@pytest.mark.promise("reply-recorded")
@pytest.mark.parametrize("is_tallied", [False, True])
async def test_campaign_counts_people_and_machines_apart(bench: Bench, *, is_tallied: bool) -> None:
    harness = CampaignHarness(bench)
    campaign = await harness.campaign(await harness.start(recipients=3))
    await harness.run_scheduler()
    await bench.drain(ScriptedProvider(name="smtp"))
    async with bench.database.read() as tx:
        rows = await tx.execute(select(messages.c.outbox_id, messages.c.to_email).order_by(messages.c.id))
    recorder = a_recorder(bench)
    for number, (outbox_id, email) in enumerate(rows):
        # The first recipient writes twice, the second one has an auto-responder, the third one both.
        headers: list[tuple[str, ...]] = [[(), ()], [AUTOMATIC], [AUTOMATIC, ()]][number]
        for index, each in enumerate(headers):
            await recorder.record(a_reply(outbox_id, *each, sender=email, body=f"{outbox_id} {index}"))
    if is_tallied:
        await EventTallier(bench.database, bench.clock).add_existing()
    numbers = await load_numbers(bench.database, campaign)
    assert numbers is not None
    assert (numbers.results.replied, numbers.results.auto_replied) == (2, 2)


async def test_reply_is_posted_to_webhooks(shop: Bench) -> None:
    endpoints = WebhookEndpoints(shop.database, shop.clock, allows_private=True)
    wanted = WebhookEndpointInput("http://127.0.0.1/hook", (EventType.REPLIED,))
    endpoint, _ = await endpoints.create(DEFAULT_TENANT, wanted, actor="test")
    outbox_id = await a_sent_message(shop)
    await record(shop, a_reply(outbox_id))
    await derive_deliveries(shop.database, shop.clock)
    deliveries = await WebhookDeliveries(shop.database, shop.clock).list_deliveries(endpoint, limit=10)
    assert [each.type for each in deliveries] == [EventType.REPLIED]


async def test_contact_history_shows_replies(shop: Bench) -> None:
    outbox_id = await a_sent_message(shop)
    await record(shop, a_reply(outbox_id))
    await record(shop, a_reply(outbox_id, "Auto-Submitted: auto-replied", body="2"))
    history = await personal_data.load_history(shop.database, 1, ANN)
    answers = [(entry.what, entry.is_machine) for entry in history if entry.event_type == EventType.REPLIED]
    assert sorted(answers) == [("email answered", False), ("email answered by a machine", True)]


@pytest.mark.promise("person-data")
async def test_export_and_erasure_cover_replies(shop: Bench) -> None:
    outbox_id = await a_sent_message(shop)
    alias = "ann.private@reader.example"
    await record(shop, a_reply(outbox_id, "Subject: My secret", sender=alias, body="My secret\n"))
    exported = await personal_data.export_personal_data(shop.database, 1, ANN)
    [reply] = exported["forwardedReplies"]
    assert "My secret" in reply["content"]
    assert "My secret" in str(exported["messages"])
    assert not (await erasure.erase(shop.database, shop.clock, 1, ANN, actor="test")).is_finished
    await forwarded(shop)
    assert (await find_erasure(shop.database, 1, ANN)).is_finished  # The worker has deleted the data.
    async with shop.database.read() as tx:
        stored = [await tx.execute(select(table)) for table in (messages, events, contacts, raw_contents)]
    assert "secret" not in str(stored)
    assert alias not in str(stored)
