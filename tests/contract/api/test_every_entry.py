"""The rules about recipients and files hold wherever email is accepted: each API, raw email and SMTP."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mailwright.audience import suppressions
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import MINUTE, ManualClock
from tests.builders import Bench
from tests.contract.api.test_allowed_senders import Sending
from tests.contract.api.test_named_lists import (
    ENTRIES,
    SENDER,
    TO,
    Entry,
    basic,
    sending,  # noqa: F401 - a fixture
)
from tests.standins.provider import ScriptedProvider

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


@pytest.mark.parametrize("entry", [_send, _batch, _sendgrid, _ses, _postmark, _mailgun, _resend])
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
