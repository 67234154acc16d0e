"""A bounce about a raw email reaches the message of its own recipient, whatever Message-ID the email has."""

import pytest
from sqlalchemy import select

from mailwright.access.api_keys import Caller
from mailwright.domain.states import EventType
from mailwright.events.bounce_mail import BounceMailRecorder
from mailwright.events.reports import Reports
from mailwright.sources.api.messages import RequestContext
from mailwright.storage.tables import events, messages, suppressions
from tests.builders import Bench
from tests.standins.provider import ScriptedProvider

EMAIL = b"From: shop@example.com\r\nTo: a@reader.example, b@reader.example\r\nSubject: x\r\n\r\nHello\r\n"
FOREIGN = b"01a1e46a-e85e-7b52-ae57-a3e14dd32899"
HEADS = {
    "no Message-ID": b"",
    "own Message-ID": b"Message-ID: <abc@app.example>\r\n",
    "Message-ID like ours": b"Message-ID: <" + FOREIGN + b"@app.example>\r\n",
    "forged header": b"X-Mailwright-Message: " + FOREIGN + b"\r\nMessage-ID: <abc@app.example>\r\n",
}


def a_text_bounce(head: str) -> str:
    return (
        "From: MAILER-DAEMON@mx.example\nTo: shop@example.com\nSubject: failure notice\n\n"
        "Your message could not be delivered:\n550 5.1.1 user unknown\n\n"
        f"--- Below this line is a copy of the message.\n\n{head}\n\nHello\n"
    )


def a_report(head: str) -> str:
    return (
        "From: MAILER-DAEMON@mx.example\nTo: shop@example.com\nSubject: failure\nMIME-Version: 1.0\n"
        "Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n\nfailed\n"
        "--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\n"
        "Final-Recipient: rfc822; b@reader.example\nAction: failed\nStatus: 5.1.1\n"
        "Diagnostic-Code: smtp; 550 5.1.1 user unknown\n\n"
        f"--b\nContent-Type: text/rfc822-headers\n\n{head}\n\n--b--\n"
    )


@pytest.mark.promise("raw-unchanged")
@pytest.mark.parametrize("bounce", [a_text_bounce, a_report])
@pytest.mark.parametrize("head", HEADS)
async def test_bounce_reaches_the_message_of_its_recipient(bench: Bench, head: str, bounce: object) -> None:
    assert callable(bounce)
    context = RequestContext(Caller(1, "default"), "r1")
    await bench.engine.raw_messages.send(context, HEADS[head] + EMAIL)
    provider = ScriptedProvider(name="smtp")
    await bench.drain(provider)
    [sent] = [message for message in provider.messages if message.recipients == ("b@reader.example",)]
    returned = sent.content.partition(b"\r\n\r\n")[0].decode().replace("\r\n", "\n")
    recorder = BounceMailRecorder(Reports(bench.database, bench.clock), bench.clock)
    await recorder.record(bounce(returned).encode())
    bounced = select(messages.c.to_email).join_from(events, messages, events.c.message_key == messages.c.id)
    async with bench.database.read() as tx:
        suppressed = [row.email for row in await tx.execute(select(suppressions.c.email))]
        reported = [row.to_email for row in await tx.execute(bounced.where(events.c.type == EventType.BOUNCED))]
    assert (suppressed, reported) == (["b@reader.example"], ["b@reader.example"])


@pytest.mark.promise("raw-unchanged")
@pytest.mark.parametrize("bounce", [a_text_bounce, a_report])
async def test_forged_header_changes_no_other_message(bench: Bench, bounce: object) -> None:
    assert callable(bounce)
    provider = ScriptedProvider(name="smtp")
    context = RequestContext(Caller(1, "default"), "r1")
    victim = await bench.engine.raw_messages.send(context, EMAIL.replace(b"a@reader.example, b@", b"victim@"))
    forged = f"X-Mailwright-Message: {victim.messages[0].outbox_id}\r\n".encode() + EMAIL
    await bench.engine.raw_messages.send(context, forged.replace(b"a@reader.example, ", b""))
    await bench.drain(provider)
    [sent] = [message for message in provider.messages if message.recipients == ("b@reader.example",)]
    assert victim.messages[0].outbox_id.encode() not in sent.content
    returned = sent.content.partition(b"\r\n\r\n")[0].decode().replace("\r\n", "\n")
    await BounceMailRecorder(Reports(bench.database, bench.clock), bench.clock).record(bounce(returned).encode())
    async with bench.database.read() as tx:
        assert [row.email for row in await tx.execute(select(suppressions.c.email))] == ["b@reader.example"]
