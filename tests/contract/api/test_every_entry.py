"""The rules about recipients, senders, send times and files hold wherever email is accepted.

That is each API, raw email, SMTP, the outbox table and agents. Commands and the dashboard accept no single messages.
"""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest

from mailwright.access.roles import ALL_SCOPES
from mailwright.audience import suppressions
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import DAY, MINUTE, Instant, ManualClock, SystemClock, isoformat
from mailwright.outbox import tenants
from mailwright.sources.api.messages import MAX_SCHEDULE_AHEAD
from mailwright.storage.database import Database
from tests.builders import Bench
from tests.contract.api.test_allowed_senders import Sending
from tests.contract.api.test_named_lists import (
    ENTRIES,
    SENDER,
    TO,
    Entry,
    basic,
    raw,
    sending,  # noqa: F401 - a fixture
)
from tests.dropin import a_drop_in
from tests.standins.provider import ScriptedProvider
from tests.submission import a_submission

NEWS = {"List-Id": "<news.example.com>"}


async def sent_to(at: Sending) -> set[str]:
    """Deliver everything that is due, and return the recipients."""
    provider = ScriptedProvider()
    await Bench(at.drop_in.engine, _later(at)).drain(provider)
    return {address for message in provider.messages for address in message.recipients}


def _later(at: Sending) -> ManualClock:
    return ManualClock(at.drop_in.engine.clock.now() + MINUTE)


@pytest.mark.both_engines
@pytest.mark.parametrize("entry", ENTRIES)
async def test_email_reaches_an_active_recipient(sending: Sending, entry: Entry) -> None:  # noqa: F811
    assert 200 <= await entry(sending, {}, ()) < 300
    assert TO in await sent_to(sending)


@pytest.mark.both_engines
@pytest.mark.parametrize("entry", ENTRIES)
async def test_suppressed_recipient_gets_nothing(sending: Sending, entry: Entry) -> None:  # noqa: F811
    engine = sending.drop_in.engine
    await suppressions.add(engine.database, engine.clock, 1, TO, reason="manual", source="test")
    assert 200 <= await entry(sending, {}, ()) < 300
    assert TO not in await sent_to(sending)


@pytest.mark.both_engines
@pytest.mark.parametrize("entry", ENTRIES)
async def test_unsubscribed_recipient_gets_no_bulk_email(sending: Sending, entry: Entry) -> None:  # noqa: F811
    engine = sending.drop_in.engine
    contact_status = ContactStatusService(engine.database, engine.clock)
    await contact_status.unsubscribe_by_link(1, TO, "news", source="link", message_id=None)
    await entry(sending, NEWS, ())
    assert TO not in await sent_to(sending)


@pytest.fixture
async def second_tenant(database: Database) -> AsyncIterator[Sending]:
    """A tenant without a sender domain, beside the tenant of the installation."""
    clock = SystemClock()
    acme = await tenants.create(database, clock, "acme")
    async with (
        a_drop_in(database, clock, require_sender_domains="auto") as drop_in,
        a_submission(drop_in.engine) as submission,
    ):
        pair = await drop_in.engine.keys.issue(acme.id, "shop", ALL_SCOPES, signs=True)
        yield Sending(drop_in, submission, pair, explanation="sender", outbox_tenant="acme")


@pytest.mark.both_engines
@pytest.mark.parametrize("entry", ENTRIES)
async def test_tenant_without_a_domain_sends_nothing(second_tenant: Sending, entry: Entry) -> None:
    assert await entry(second_tenant, {}, ()) >= 400
    assert await sent_to(second_tenant) == set()


def _schedule(at: Instant) -> dict[str, Callable[[Sending], Awaitable[int]]]:
    """Return an email with a send time for each entry that knows send times."""
    written, seconds, date = isoformat(at), at // 1000, formatdate(at / 1000)
    own = {"to": TO, "from": SENDER, "subject": "Hi", "text": "Hi"}
    scheduled = {**own, "scheduledAt": written}
    mailgun = {**own, "o:deliverytime": date}
    people = [{"to": [{"email": TO}]}]
    sendgrid = {
        "from": {"email": SENDER},
        "subject": "Hi",
        "personalizations": people,
        "content": [{"type": "text/plain", "value": "Hi"}],
    }
    content = raw({"X-Mailwright-Send-At": written})
    coded = base64.b64encode(content).decode()
    mime = {"Content-Type": "message/rfc822"}
    return {
        "send": lambda at: at.post("/v1/email/send", scheduled),
        "batch": lambda at: at.batch(scheduled),
        "outbox table": lambda at: at.outbox_table(scheduled),
        "agent": lambda at: at.agent(scheduled),
        "raw": lambda at: at.post("/v1/email/raw", content, mime),
        "SMTP": lambda at: at.smtp(content, SENDER),
        "SES raw": lambda at: at.ses({"Content": {"Raw": {"Data": coded}}}),
        "SendGrid": lambda at: at.post("/v3/mail/send", {**sendgrid, "send_at": seconds}),
        "SendGrid recipient": lambda at: at.post(
            "/v3/mail/send", {**sendgrid, "personalizations": [{**people[0], "send_at": seconds}]}
        ),
        "Mailgun": lambda at: at.post("/v3/example.com/messages", headers=basic(at), data=mailgun),
        "Mailgun MIME": lambda at: at.post(
            "/v3/example.com/messages.mime",
            headers=basic(at),
            data={"to": TO, "o:deliverytime": date, "message": raw({}).decode()},
        ),
        "Resend": lambda at: at.post("/emails", {**own, "scheduled_at": written}),
        "Resend batch": lambda at: at.post("/emails/batch", [{**own, "scheduled_at": written}]),
    }


SCHEDULED = tuple(_schedule(0))


@pytest.mark.parametrize("entry", SCHEDULED)
async def test_send_time_over_a_year_ahead_is_refused(sending: Sending, entry: str) -> None:  # noqa: F811
    year = replace(sending, explanation="more than a year ahead")
    now = sending.drop_in.engine.clock.now()
    assert await _schedule(now + MAX_SCHEDULE_AHEAD + DAY)[entry](year) >= 400
    assert await sending.drop_in.is_empty()
    assert 200 <= await _schedule(now + MAX_SCHEDULE_AHEAD - DAY)[entry](sending) < 300
    assert await sent_to(sending) == set()


@pytest.mark.parametrize("entry", SCHEDULED)
async def test_send_time_long_past_sends_nothing(sending: Sending, entry: str) -> None:  # noqa: F811
    past = replace(sending, explanation="in the past")
    await _schedule(sending.drop_in.engine.clock.now() - 399 * DAY)[entry](past)
    assert await sent_to(sending) == set()


@pytest.mark.parametrize("entry", ["SendGrid", "Mailgun", "Mailgun MIME"])
async def test_email_that_is_only_a_test_is_not_stored(sending: Sending, entry: str) -> None:  # noqa: F811
    form = {"from": SENDER, "to": TO, "subject": "Hi", "text": "Hi", "o:testmode": "yes"}
    email = {"personalizations": [{"to": [{"email": TO}]}], "content": [{"type": "text/plain", "value": "Hi"}]}
    switch = {"mail_settings": {"sandbox_mode": {"enable": True}}}
    parts = {"to": TO, "o:testmode": "yes", "message": raw({}).decode()}
    at = replace(sending, explanation="testmode")
    match entry:
        case "SendGrid":
            await at.post("/v3/mail/send", {**email, "from": {"email": SENDER}, "subject": "Hi", **switch})
        case "Mailgun":
            await at.post("/v3/example.com/messages", headers=basic(at), data=form)
        case _:
            await at.post("/v3/example.com/messages.mime", headers=basic(at), data=parts)
    assert await sending.drop_in.is_empty()


PDF = b"%PDF-1.7"
CODED = base64.b64encode(PDF).decode()
Attached = Callable[[Sending, str, str | None], Awaitable[int]]


def _stated(field: str, stated: str | None) -> dict[str, str]:
    return {} if stated is None else {field: stated}


def _own(name: str, stated: str | None) -> dict[str, Any]:
    files = [_file(name, "contentType", stated)]
    return {"to": TO, "from": SENDER, "subject": "Hi", "text": "Hi", "attachments": files}


def _file(name: str, field: str, stated: str | None) -> dict[str, str]:
    return {"filename": name, "content": CODED, **_stated(field, stated)}


async def _send(at: Sending, name: str, stated: str | None) -> int:
    return await at.post("/v1/email/send", _own(name, stated))


async def _batch(at: Sending, name: str, stated: str | None) -> int:
    return await at.post("/v1/email/batch", {"messages": [_own(name, stated)]})


async def _sendgrid(at: Sending, name: str, stated: str | None) -> int:
    email = {"personalizations": [{"to": [{"email": TO}]}], "content": [{"type": "text/plain", "value": "Hi"}]}
    return await at.post(
        "/v3/mail/send",
        {**email, "from": {"email": SENDER}, "subject": "Hi", "attachments": [_file(name, "type", stated)]},
    )


async def _ses(at: Sending, name: str, stated: str | None) -> int:
    content = {
        "Subject": {"Data": "Hi"},
        "Body": {"Text": {"Data": "Hi"}},
        "Attachments": [{"FileName": name, "RawContent": CODED, **_stated("ContentType", stated)}],
    }
    return await at.ses(
        {"FromEmailAddress": SENDER, "Destination": {"ToAddresses": [TO]}, "Content": {"Simple": content}}
    )


async def _postmark(at: Sending, name: str, stated: str | None) -> int:
    email = {"From": SENDER, "To": TO, "Subject": "Hi", "TextBody": "Hi"}
    files = [{"Name": name, "Content": CODED, **_stated("ContentType", stated)}]
    return await at.post("/email", {**email, "Attachments": files}, {"X-Postmark-Server-Token": at.pair.key})


async def _mailgun(at: Sending, name: str, stated: str | None) -> int:
    form = {"from": SENDER, "to": TO, "subject": "Hi", "text": "Hi"}
    return await at.post(
        "/v3/example.com/messages", headers=basic(at), data=form, files={"attachment": (name, PDF, stated)}
    )


async def _resend(at: Sending, name: str, stated: str | None) -> int:
    return await at.post(
        "/emails",
        {"from": SENDER, "to": TO, "subject": "Hi", "text": "Hi", "attachments": [_file(name, "content_type", stated)]},
    )


async def _outbox_table(at: Sending, name: str, stated: str | None) -> int:
    return await at.outbox_table(_own(name, stated))


async def _agent(at: Sending, name: str, stated: str | None) -> int:
    return await at.agent(_own(name, stated))


@pytest.mark.parametrize("entry", [_send, _batch, _outbox_table, _agent, _sendgrid, _ses, _postmark, _mailgun, _resend])
@pytest.mark.parametrize(
    ("name", "stated", "expected"),
    [
        ("Invoice.PDF", None, "application/pdf"),
        ("Invoice.pdf", "Application/Octet-Stream", "application/pdf"),
        ("Invoice.pdf", "binary/octet-stream", "application/pdf"),
        ("Invoice.pdf", "text/plain", "text/plain"),
        ("Plan.docx", None, "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("Meeting.ICS", "application/octet-stream", "text/calendar"),
        ("Plan", "application/octet-stream", "application/octet-stream"),
    ],
)
async def test_type_of_an_attachment_follows_from_its_name(
    sending: Sending,  # noqa: F811
    entry: Attached,
    name: str,
    stated: str | None,
    expected: str,
) -> None:
    assert 200 <= await entry(sending, name, stated) < 300
    [email] = await sending.drop_in.deliver(_later(sending))
    [file] = email.iter_attachments()
    found = (file.get_filename(), file.get_content_type(), file.get_payload(decode=True))
    assert found == (name, expected, PDF)
