"""Applications submit email over SMTP: a 250 means stored, and everything else stores nothing."""

import asyncio
import base64
import contextlib
import re
import smtplib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from pathlib import Path

import pytest

from mailwright.access.roles import Scope
from mailwright.content.raw import MAX_RAW_BYTES
from mailwright.domain.clock import MINUTE, SECOND, ManualClock
from mailwright.domain.errors import NotDurable
from mailwright.domain.states import Status
from mailwright.sources.smtp import connection
from mailwright.sources.smtp.session import MAX_ERRORS
from mailwright.storage.database import Database
from tests.api import an_engine
from tests.builders import Bench
from tests.standins.provider import ScriptedProvider
from tests.standins.smtp_sink import SmtpSink
from tests.submission import (
    EMAIL,
    Submission,
    a_dialogue,
    a_submission,
    client_tls,
    count_contents,
    credentials,
    server_tls,
)
from tests.unit.providers.smtp_builders import smtp_to


@pytest.fixture
async def submission(database: Database, clock: ManualClock) -> AsyncIterator[Submission]:
    async with a_submission(an_engine(database, clock)) as submission:
        yield submission


def an_email(number: int = 1, **headers: str) -> EmailMessage:
    email = EmailMessage()
    email["From"], email["To"], email["Subject"] = "Shop <shop@example.com>", "Ada <ada@example.com>", f"Größe {number}"
    for name, value in headers.items():
        email[name.replace("_", "-")] = value
    email.set_content(".starts with a dot\n..two\n\nÜmläut\n")
    email.add_alternative("<p>Hello</p>", subtype="html")
    return email


@pytest.mark.promise("smtp-unchanged")
async def test_email_of_smtplib_leaves_with_its_bytes(bench: Bench) -> None:
    email = an_email(Message_ID="<a@b.example.com>", Date="Mon, 16 Nov 2026 10:00:00 +0000", X_Mailwright_Tags="x")
    email.as_bytes()  # Chooses the boundary, which would differ in every copy.
    async with a_submission(bench.engine) as submission:

        def send() -> None:
            with smtplib.SMTP("127.0.0.1", submission.port) as client:
                client.login("shop", submission.key)
                client.send_message(email, to_addrs=["ada@example.com", "hidden@example.com"])

        await asyncio.to_thread(send)
    provider = ScriptedProvider()
    await bench.drain(provider)
    del email["X-Mailwright-Tags"]
    expected = email.as_bytes(policy=email.policy.clone(linesep="\r\n"))
    assert [message.content for message in provider.messages] == [
        f"X-Mailwright-Message: {message.outbox_id}\r\n".encode() + expected for message in provider.messages
    ]
    assert [message.recipients for message in provider.messages] == [("ada@example.com",), ("hidden@example.com",)]


@pytest.mark.promise("smtp-unchanged")
async def test_damaged_encoded_words_are_accepted(submission: Submission) -> None:
    damaged = b"=?UTF-8?B?SGVsb?="
    email = b"From: %b <shop@example.com>\r\nSubject: %b\r\nTo: %b <ada@example.com>\r\n\r\nHello\r\n"
    async with a_dialogue(submission) as client:
        await client.begin("ada@example.com")
        assert (await client.ask(email % (damaged, damaged, damaged) + b".\r\n")).startswith("250")
    assert await submission.stored() == ["ada@example.com"]


@pytest.mark.promise("smtp-durable")
async def test_reply_names_each_stored_message(submission: Submission) -> None:
    async with a_dialogue(submission) as client:
        assert (await client.begin("ada@example.com", "bob@example.com")).startswith("354")
        accepted = await client.ask(EMAIL + b".\r\n")
        ids = re.findall(r"^250[- ]2\.0\.0 Accepted: (\S+)", accepted, re.MULTILINE)
        assert len(ids) == 2
        assert await submission.stored() == ["ada@example.com", "bob@example.com"]


@pytest.mark.promise("smtp-durable")
async def test_outage_of_the_database_is_temporary(submission: Submission, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_arguments: object) -> None:
        raise NotDurable

    async with a_dialogue(submission) as client:
        with monkeypatch.context() as patch:
            patch.setattr(submission.engine.acceptor, "accept", refuse)
            await client.begin()
            assert (await client.ask(EMAIL + b".\r\n")).startswith("451 4.3.0")
        await client.begin()
        assert (await client.ask(EMAIL + b".\r\n")).startswith("250")
    assert await submission.stored() == ["ada@example.com"]


async def test_commands_can_be_pipelined(submission: Submission) -> None:
    one = b"MAIL FROM:<shop@example.com>\r\nRCPT TO:<%d@example.com>\r\nDATA\r\n" + EMAIL + b".\r\n"
    async with a_dialogue(submission) as client:
        client.writer.write(b"".join([one % number for number in range(50)]) + b"QUIT\r\n")
        replies = (await client.reader.read()).decode().splitlines()
    assert [line[:3] for line in replies] == ["250", "250", "354", "250"] * 50 + ["221"]
    assert await submission.stored() == [f"{number}@example.com" for number in range(50)]


ENVELOPES = (
    *[("MAIL FROM:<shop@example.com>", f"RCPT TO:<{to}>") for to in ("ada@example.com", "Ada+1@Example.COM", "a@b")],
    *[(f"MAIL from:<{sender}>", "RCPT to:<ada@example.com>") for sender in ("a..b@example.com", "a@-b.example", "")],
    *[(f"MAIL FROM:<a@b.example> {size}", "RCPT TO:<ada@b.example>") for size in ("SIZE=9", "SIZE=999999999", "SIZE=")],
    ("MAIL FROM:<a@b.example> SIZE=9 BODY=8BITMIME", "RCPT TO:<a@b.example>", "RCPT TO:<ada@b.example>"),
    ("MAIL FROM:<a@b.example>", "MAIL FROM:<a@b.example>", "RCPT TO:<ada@b.example>"),
    ("RSET", "MAIL FROM:<a@b.example>", "RCPT TO:<ada@b.example> NOTIFY=NEVER"),
)


@pytest.mark.parametrize("is_signed_in", [True, False])
async def test_pipelined_commands_get_the_replies_of_single_ones(submission: Submission, is_signed_in: bool) -> None:
    for lines in ENVELOPES:
        heard, stored = [], []
        for is_pipelined in (False, True):
            before = len(await submission.stored())
            async with a_dialogue(submission, is_signed_in=is_signed_in) as client:
                commands = (*lines, "DATA")
                if is_pipelined:
                    client.writer.write("".join([f"{line}\r\n" for line in commands]).encode())
                    heard.append([await client.reply() for _ in commands])
                else:
                    heard.append(await client.say(*commands))
                if heard[-1][-1].startswith("354"):
                    assert (await client.ask(EMAIL + b".\r\n")).startswith("250")
            stored.append((await submission.stored())[before:])
        assert heard[0] == heard[1], lines
        assert stored[0] == stored[1], lines


async def test_email_arrives_in_any_pieces(submission: Submission) -> None:
    data = b"MAIL FROM:<>\r\nRCPT TO:<ada@example.com>\r\nDATA\r\n" + EMAIL + b"..\r\n.\r\nNOOP\r\n"
    async with a_dialogue(submission) as client:
        for byte in data:
            client.writer.write(bytes([byte]))
            await client.writer.drain()
        assert [(await client.reply())[:3] for _ in range(5)] == ["250", "250", "354", "250", "250"]
    assert await submission.stored() == ["ada@example.com"]


async def test_chunks_are_joined(submission: Submission) -> None:
    first, last = EMAIL[:30], EMAIL[30:]
    async with a_dialogue(submission) as client:
        await client.say("MAIL FROM:<shop@example.com>", "RCPT TO:<ada@example.com>")
        assert (await client.ask(b"BDAT %d\r\n%b" % (len(first), first))).startswith("250")
        assert [reply[:3] for reply in await client.say("RCPT TO:<bob@example.com>", "DATA")] == ["503", "503"]
        assert (await client.ask(b"BDAT %d LAST\r\n%b" % (len(last), last))).startswith("250")
        refused = await client.ask(b"BDAT 6 LAST\r\nQUIT\r\n")
        assert refused.startswith("503")
        assert (await client.ask("NOOP\r\n")).startswith("250")
    assert await submission.stored() == ["ada@example.com"]


SMUGGLED = b"MAIL FROM:<evil@example.com>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\n" + EMAIL + b".\r\n"
ENDS = [
    b"\n.\n",
    b"\n.\r\n",
    b"\r\n.\n",
    b"\r.\r",
    b"\r.\r\n",
    b"\r\n.\r",
    b"\r\n\0.\r\n",
    b"\n\r.\n\r",
    b"\r\n.\0\r\n",
    b"\r\r\n.\r\n",
]


@pytest.mark.promise("smtp-no-relay")
@pytest.mark.parametrize("end", ENDS)
async def test_false_end_of_data_smuggles_nothing(submission: Submission, end: bytes) -> None:
    async with a_dialogue(submission) as client:
        await client.begin()
        reply = await client.ask(EMAIL[:-2] + end + SMUGGLED)
        assert reply.startswith("554 5.6.0")
        assert await client.is_closed()
    assert await submission.stored() == []
    assert await count_contents(submission.engine.database) == 0


@pytest.mark.promise("smtp-no-relay")
@pytest.mark.parametrize("line", [b"NOOP\n", b"NO\0OP\r\n", b"NOOP\rMAIL FROM:<a@b.example>\r\n", b"A" * 4000])
async def test_bad_command_line_ends_the_connection(submission: Submission, line: bytes) -> None:
    async with a_dialogue(submission) as client:
        reply = await client.ask(line + b"\n" + SMUGGLED)
        assert reply.startswith("500 5.5.2")
        assert await client.is_closed()
    assert await submission.stored() == []


@pytest.mark.promise("smtp-no-relay")
async def test_nothing_is_accepted_without_a_key(submission: Submission) -> None:
    async with a_dialogue(submission, is_signed_in=False) as client:
        assert (await client.ask("MAIL FROM:<a@example.com>\r\n")).startswith("503")
        replies = await client.say("EHLO me", "MAIL FROM:<a@example.com>", "RCPT TO:<b@example.com>", "DATA")
        assert [reply[:3] for reply in replies] == ["250", "530", "503", "503"]
    assert await submission.stored() == []


@pytest.mark.promise("smtp-no-relay")
async def test_wrong_credentials_are_refused_and_throttled(submission: Submission) -> None:
    reader = await submission.engine.keys.create(1, "reader", frozenset({Scope.READ}))
    async with a_dialogue(submission, is_signed_in=False) as client:
        assert (await client.sign_in(submission.key, user="other")).startswith("535 5.7.8")
        assert "lacks the `send` scope" in await client.sign_in(reader)
        assert (await client.sign_in("mw_" + "x" * 43)).startswith("535 5.7.8")
        assert (await client.reply()).startswith("421 4.7.0")
        assert await client.is_closed()
    for _ in range(4):
        async with a_dialogue(submission, is_signed_in=False) as client:
            for _ in range(3):
                reply = await client.sign_in("mw_" + "x" * 43)
    assert reply.startswith("454 4.7.0")
    async with a_dialogue(submission) as client:  # A valid key is no guess.
        assert (await client.begin()).startswith("354")


async def test_login_dialogue_signs_in(submission: Submission) -> None:
    user, key = (base64.b64encode(text.encode()).decode() for text in ("APIKEY", submission.key))
    async with a_dialogue(submission, is_signed_in=False) as client:
        replies = await client.say("EHLO me", "AUTH LOGIN", user, key, "AUTH LOGIN")
        assert [reply[:3] for reply in replies] == ["250", "334", "334", "235", "503"]
    async with a_dialogue(submission, is_signed_in=False) as client:
        replies = await client.say("EHLO me", "AUTH PLAIN", "*", "AUTH PLAIN", "%%", "AUTH CRAM-MD5")
        assert [reply[:3] for reply in replies] == ["250", "334", "501", "334", "501", "504"]


async def test_revoked_key_stops_an_open_connection(submission: Submission, clock: ManualClock) -> None:
    async with a_dialogue(submission) as client:
        [key] = [key for key in await submission.engine.keys.list_all(1) if key.name == "shop"]
        await submission.engine.keys.revoke(1, key.id)
        await client.begin()
        assert (await client.ask(EMAIL + b".\r\n")).startswith("535")
        assert await client.is_closed()
    assert await submission.stored() == []


BAD_COMMANDS = {
    "MAIL FROM:shop@example.com": "501 5.5.4",
    "MAIL FROM:<shop@example>": "553 5.1.7",
    "MAIL FROM:<shop@example.com> RET=FULL": "555 5.5.4",
    f"MAIL FROM:<shop@example.com> SIZE={MAX_RAW_BYTES + 1}": "552 5.3.4",
    "RCPT TO:<ada@example.com>": "503 5.5.1",
    "DATA": "503 5.5.1",
    "DATA now": "501 5.5.4",
    "STARTTLS": "502 5.5.1",
    "EHLO": "501 5.5.4",
    "RSET now": "501 5.5.4",
    "VRFY ada": "252 2.1.5",
    "EXPN all": "500 5.5.1",
    "GET / HTTP/1.1": "500 5.5.1",
}


async def test_bad_commands_get_a_correct_reply(submission: Submission) -> None:
    async with a_dialogue(submission) as client:
        for command, expected in BAD_COMMANDS.items():
            assert (await client.ask(f"{command}\r\n")).startswith(expected), command
        assert (await client.ask(b"NOOP \xff\r\n")).startswith("500 5.5.2")
        assert (await client.begin()).startswith("354")


async def test_bad_recipients_leave_the_others(submission: Submission) -> None:
    async with a_dialogue(submission) as client:
        bad = ["RCPT TO:<postmaster>", "RCPT TO:<jürgen@example.com>", "RCPT TO:<a@example.com> NOTIFY=NEVER"]
        replies = await client.say("MAIL FROM:<shop@example.com>", *bad, "RCPT TO:<ada@bücher.example>", "DATA")
        assert [reply[:9] for reply in replies[1:4]] == ["553 5.1.3", "553 5.6.7", "555 5.5.4"]
        assert (await client.ask(EMAIL + b".\r\n")).startswith("250")
    assert await submission.stored() == ["ada@xn--bcher-kva.example"]


async def test_international_address_is_sent_with_smtputf8(bench: Bench) -> None:
    email = an_email()
    email.replace_header("To", "Jürgen <jürgen@example.com>")

    def send() -> None:
        with smtplib.SMTP("127.0.0.1", submission.port) as client:
            client.login("shop", submission.key)
            client.send_message(email)

    async with a_submission(bench.engine) as submission:
        await asyncio.to_thread(send)
        assert await submission.stored() == ["jürgen@example.com"]
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        await bench.drain(smtp)
        [received] = await sink.received(1)
    assert received.recipients == ("jürgen@example.com",)
    assert "To: Jürgen <jürgen@example.com>".encode() in received.content


async def test_international_address_fails_where_the_provider_refuses_it(bench: Bench) -> None:
    async with a_submission(bench.engine) as submission, a_dialogue(submission) as client:
        await client.say("MAIL FROM:<shop@example.com> SMTPUTF8", "RCPT TO:<jürgen@example.com>", "DATA")
        accepted = await client.ask(EMAIL + b".\r\n")
    async with SmtpSink(smtputf8=False) as sink, smtp_to(sink) as smtp:
        await bench.drain(smtp)
    record = await bench.record(accepted.split()[-1])
    assert (record.summary.status, record.summary.error_code) == (Status.FAILED, "SMTP_UTF8_UNSUPPORTED")


async def test_recipients_beyond_the_limit_are_deferred(submission: Submission) -> None:
    async with a_dialogue(submission) as client:
        client.writer.write(b"MAIL FROM:<shop@example.com>\r\n")
        client.writer.write(b"".join([b"RCPT TO:<%d@example.com>\r\n" % number for number in range(10_000)]))
        replies = [await client.reply() for _ in range(10_001)]
        assert {reply[:9] for reply in replies[:101]} == {"250 2.0.0"}
        assert {reply[:9] for reply in replies[101:]} == {"452 4.5.3"}


async def test_endless_errors_end_the_connection(submission: Submission) -> None:
    async with a_dialogue(submission) as client:
        client.writer.write(b"WHAT\r\n" * (MAX_ERRORS + 5))
        replies = (await client.reader.read()).decode().splitlines()
    assert [line[:3] for line in replies] == ["500"] * MAX_ERRORS + ["421"]


@pytest.mark.promise("smtp-durable")
async def test_too_large_email_is_refused_and_forgotten(submission: Submission) -> None:
    block = b"x" * 98 + b"\r\n"
    async with a_dialogue(submission) as client:
        await client.begin()
        client.writer.write(EMAIL)
        for _ in range(50):
            client.writer.write(block * 10_000)
            await client.writer.drain()
        assert (await client.ask(b".\r\n")).startswith("552 5.3.4")
        assert (await client.begin()).startswith("354")
        assert (await client.ask(EMAIL + b".\r\n")).startswith("250")
    assert await submission.stored() == ["ada@example.com"]


STEPS = [b"EHLO me\r\n", b"AUTH PLAIN %b\r\n", b"MAIL FROM:<a@example.com>\r\n", b"RCPT TO:<b@example.com>\r\n"]


@pytest.mark.promise("smtp-durable")
async def test_dropped_connection_stores_nothing(submission: Submission) -> None:
    steps = [*STEPS, b"DATA\r\n", EMAIL, b"."]
    script = b"".join(steps) % credentials("apikey", submission.key).encode()
    ends = [sum(map(len, steps[:number])) for number in range(len(steps))]
    for end in [*ends, *[end + 3 for end in ends], len(script) - 1, len(script)]:
        async with a_dialogue(submission, is_signed_in=False) as client:
            client.writer.write(script[:end])
            await client.writer.drain()
    await submission.server.stop(5)
    assert await submission.stored() == []


@pytest.mark.promise("smtp-durable")
async def test_unusable_email_is_refused_permanently(submission: Submission) -> None:
    nested = EMAIL.replace(b"shop@", b"\r\n ".join([b"(" * 900] * 20) + b"shop@")
    async with a_dialogue(submission) as client:
        for content in (nested, b"", b"\r\n"):
            await client.begin()
            reply = await client.ask(content + b".\r\n")
            assert reply.startswith("554 5.6.0")
    assert "The email is empty." in reply
    assert await submission.stored() == []


async def test_same_message_id_is_accepted_once(submission: Submission) -> None:
    email = b"Message-ID: <7@example.com>\r\n" + EMAIL
    async with a_dialogue(submission) as client:
        replies = []
        for content in (email, b"Received: by relay\r\n" + email, email + b"P.S.\r\n"):
            await client.begin()
            replies.append(await client.ask(content + b".\r\n"))
    assert "Accepted: " in replies[0]
    assert replies[1] == replies[0].replace("Accepted", "Already accepted")
    assert replies[2].startswith("554 5.6.0 This Message-ID")
    assert await submission.stored() == ["ada@example.com"]


async def test_connections_beyond_the_limit_are_refused(database: Database, clock: ManualClock) -> None:
    async with a_submission(an_engine(database, clock), max_connections=1) as submission, a_dialogue(submission):
        reader, writer = await asyncio.open_connection("127.0.0.1", submission.port)
        assert (await reader.read()).startswith(b"421 4.7.0")
        writer.close()


async def test_key_beyond_its_rate_is_refused_for_now(database: Database, clock: ManualClock) -> None:
    async with (
        a_submission(an_engine(database, clock), messages_per_minute=2) as submission,
        a_dialogue(submission) as client,
    ):
        replies = []
        for _ in range(3):
            await client.begin("ada@example.com", "bob@example.com")
            replies.append(await client.ask(EMAIL + b".\r\n"))
            clock.advance(SECOND)
        clock.advance(MINUTE)
        await client.begin()
        replies.append(await client.ask(EMAIL + b".\r\n"))
    assert [reply[:9] for reply in replies] == ["250-2.0.0", "451 4.7.1", "451 4.7.1", "250 2.0.0"]
    assert len(await submission.stored()) == 3


async def test_stopping_server_finishes_storing_emails(submission: Submission) -> None:
    async with a_dialogue(submission) as idle, a_dialogue(submission) as busy:
        await busy.begin()
        busy.writer.write(EMAIL + b".\r\n")
        while not await submission.stored():
            await asyncio.sleep(0)
        await submission.server.stop(5)
        assert (await busy.reply()).startswith("250")
        assert (await idle.reply()).startswith("421 4.3.2")


@pytest.mark.promise("smtp-durable")
async def test_client_that_half_closes_gets_every_reply(submission: Submission) -> None:
    one = b"MAIL FROM:<shop@example.com>\r\nRCPT TO:<%d@example.com>\r\nDATA\r\n" + EMAIL + b".\r\n"
    sign_in = f"EHLO app.example.com\r\nAUTH PLAIN {credentials('apikey', submission.key)}\r\n".encode()
    async with a_dialogue(submission, is_signed_in=False) as client:
        client.writer.write(sign_in + one % 1 + one % 2 + (one % 3)[:-3])
        client.writer.write_eof()
        replies = re.findall(r"^(\d+) ", (await client.reader.read()).decode(), re.MULTILINE)
    assert replies == ["250", "235", *["250", "250", "354", "250"] * 2, "250", "250", "354"]
    assert await submission.stored() == ["1@example.com", "2@example.com"]


async def test_half_closed_connection_cannot_begin_tls(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    async with (
        a_submission(an_engine(database, clock), server_tls(tmp_path)) as submission,
        a_dialogue(submission, is_signed_in=False) as client,
    ):
        client.writer.write(b"EHLO app.example.com\r\nSTARTTLS\r\n")
        client.writer.write_eof()
        assert b"220 2.0.0" in await asyncio.wait_for(client.reader.read(), 60)


async def test_early_close_does_not_reset_the_connection(submission: Submission) -> None:
    """A reset would drop replies that the client has not read."""
    async with a_dialogue(submission, is_signed_in=False) as client:
        client.writer.write(b"WHAT\r\n" * MAX_ERRORS)
        replies = [await client.reply() for _ in range(MAX_ERRORS + 1)]
        assert replies[-1].startswith("421")
        client.writer.write(b"NOOP\r\n" * 10_000)
        await client.writer.drain()
        assert await client.is_closed()


async def test_tls_protects_password_and_email(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    async with a_submission(an_engine(database, clock), server_tls(tmp_path)) as submission:
        trusting = client_tls(tmp_path)

        def send() -> None:
            assert submission.tls_port is not None
            with smtplib.SMTP("localhost", submission.port) as client:
                client.starttls(context=trusting)
                client.login("apikey", submission.key)
                client.send_message(an_email(1))
            with smtplib.SMTP_SSL("localhost", submission.tls_port, context=trusting) as client:
                client.login("apikey", submission.key)
                client.send_message(an_email(2))

        await asyncio.to_thread(send)
        assert await submission.stored() == ["ada@example.com"] * 2


@pytest.mark.promise("smtp-no-relay")
async def test_commands_before_the_handshake_are_refused(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    async with (
        a_submission(an_engine(database, clock), server_tls(tmp_path)) as submission,
        a_dialogue(submission, is_signed_in=False) as client,
    ):
        await client.ask("EHLO me\r\n")
        assert (await client.ask("STARTTLS\r\nNOOP\r\n")).startswith("220")
        assert (await client.reply()).startswith("500 5.5.2")
        assert await client.is_closed()


@asynccontextmanager
async def a_handshake(submission: Submission) -> AsyncIterator[socket.socket]:
    """Yield a client for which the server waits for the first bytes of the TLS handshake."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", submission.port))
        for command in (b"", b"EHLO me\r\n", b"STARTTLS\r\n"):
            await loop.sock_sendall(client, command)
            assert (await loop.sock_recv(client, 1000)).startswith(b"2")
        yield client


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


async def wait_for_a_free_connection(submission: Submission) -> None:
    async with asyncio.timeout(30):
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", submission.port)
            greeting = await reader.readline()
            writer.close()
            if greeting.startswith(b"220"):
                return


@pytest.mark.promise("smtp-durable")
async def test_reset_during_the_handshake_frees_the_connection(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    async with a_submission(an_engine(database, clock), server_tls(tmp_path), max_connections=1) as submission:
        for _ in range(5):
            async with a_handshake(submission) as client:
                reset(client)
            await wait_for_a_free_connection(submission)


@pytest.mark.promise("smtp-durable")
async def test_silent_handshake_ends_in_time(
    database: Database, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 0.01)
    engine, tls = an_engine(database, clock), server_tls(tmp_path)
    async with a_submission(engine, tls, max_connections=1) as submission, a_handshake(submission):
        await wait_for_a_free_connection(submission)


async def test_stop_aborts_connections_after_the_grace_period(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    engine, tls = an_engine(database, clock), server_tls(tmp_path)
    async with a_submission(engine, tls) as submission, a_handshake(submission) as client:
        await submission.server.stop(0.01)
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(10):
                assert await asyncio.get_running_loop().sock_recv(client, 1000) == b""
