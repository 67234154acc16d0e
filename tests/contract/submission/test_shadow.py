"""Shadow mode passes email on unchanged, returns the relay's replies, and reports what Mailwright would have done."""

import asyncio
import hashlib
import re
import smtplib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP as AiosmtpdServer  # noqa: N811
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mailwright.app.retention import make_retention
from mailwright.app.submission import make_shadow
from mailwright.app.wiring import Engine
from mailwright.domain.allowed_senders import parse_allowed_senders
from mailwright.domain.clock import DAY, ManualClock
from mailwright.domain.retention import NOTHING, RetentionKind, RetentionRule
from mailwright.domain.shadow import ShadowFinding
from mailwright.outbox import tenants
from mailwright.outbox.retention_rules import set_rule
from mailwright.outbox.shadow import ShadowReport, load_report
from mailwright.storage.database import Database
from tests.api import an_api, an_engine
from tests.builders import suppress
from tests.standins.relay import RecordingRelay, a_relay
from tests.submission import (
    EMAIL,
    Dialogue,
    Submission,
    a_certificate,
    a_dialogue,
    a_submission,
    server_tls,
)

pytestmark = pytest.mark.promise("shadow-unchanged")

CORPORA = Path(__file__).resolve().parents[4] / "shared" / "fixtures"


@asynccontextmanager
async def a_shadow(
    database: Database, clock: ManualClock, relay: RecordingRelay, options: str = "", **changes: Any
) -> AsyncIterator[Submission]:
    url = f"smtp://{options}127.0.0.1:{relay.port}{changes.pop('query', '')}"
    engine = an_engine(database, clock, smtp_mode="shadow", smtp_relay_url=url, **changes)
    async with a_submission(engine, shadow=make_shadow(engine)) as submission:
        yield submission


@pytest.fixture
async def relay() -> AsyncIterator[RecordingRelay]:
    async with a_relay() as relay:
        yield relay


@pytest.fixture
async def shadow(database: Database, clock: ManualClock, relay: RecordingRelay) -> AsyncIterator[Submission]:
    async with a_shadow(database, clock, relay) as submission:
        yield submission


async def report(shadow: Submission) -> ShadowReport:
    """Wait until everything is recorded, and load the report."""
    await shadow.server.stop(1)
    engine: Engine = shadow.engine
    return await load_report(engine.database, 1, engine.clock.now(), 30)


async def pass_on(client: Dialogue, content: bytes = EMAIL, *recipients: str, sender: str = "shop@example.com") -> str:
    wanted = recipients or ("ada@example.com",)
    replies = await client.say(f"MAIL FROM:<{sender}>", *[f"RCPT TO:<{one}>" for one in wanted], "DATA")
    assert replies[-1] == "354 Go on\r\n", replies
    return await client.ask(content + b".\r\n")


async def test_relay_gets_every_byte_and_client_its_reply(shadow: Submission, relay: RecordingRelay) -> None:
    content = EMAIL + b"..dot\r\n\xff\x80 8 bit, lone \n and \r and \0 NUL\r\n" + b"x" * 5_000 + b"\r\n"
    async with a_dialogue(shadow) as client:
        replies = await client.say(
            "MAIL from:<Shop@Example.com>  BODY=8BITMIME SMTPUTF8", "RCPT TO:<jörg@example.com> NOTIFY=NEVER"
        )
        assert replies == ["250 2.1.0 Relay says ok\r\n"] * 2
        await client.say("DATA")
        assert await client.ask(content + b".\r\n") == "250 2.0.0 queued as 4XyZ\r\n"
    [email] = relay.emails
    assert email.data == content + b".\r\n"
    assert email.commands == [
        "MAIL from:<Shop@Example.com>  BODY=8BITMIME SMTPUTF8",
        "RCPT TO:<jörg@example.com> NOTIFY=NEVER",
    ]
    assert set(relay.greetings) == {"EHLO app.example.com"}
    assert await shadow.stored() == []


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=st.binary(max_size=3_000), size=st.integers(1, 900))
async def test_any_bytes_pass_as_data_and_as_chunks(
    shadow: Submission, relay: RecordingRelay, content: bytes, size: int
) -> None:
    relay.emails.clear()
    stuffed = (content.replace(b"\r\n.", b"\r\n..") if not content.startswith(b".") else b"." + content) + b"\r\n"
    stuffed = stuffed.replace(b"\r\n.\r\n", b"\r\n..\r\n")
    chunks = [content[start : start + size] for start in range(0, len(content), size)] or [b""]
    lasts = [b""] * (len(chunks) - 1) + [b" LAST"]
    commands = [b"BDAT %d%b\r\n%b" % (len(chunk), last, chunk) for chunk, last in zip(chunks, lasts, strict=True)]
    async with a_dialogue(shadow) as client:
        await pass_on(client, stuffed)
        await client.say("MAIL FROM:<shop@example.com>", "RCPT TO:<ada@example.com>")
        for command in commands:
            assert (await client.ask(command)).startswith("250")
    assert relay.emails[0].data == stuffed + b".\r\n"
    assert relay.emails[1].data == b"".join(commands)


async def test_real_emails_pass_byte_for_byte(shadow: Submission, relay: RecordingRelay) -> None:
    files = sorted([*(CORPORA / "dsn").rglob("*.eml"), *(CORPORA / "arf").rglob("*.eml")])
    if not files:
        pytest.skip("the corpora are not part of the repository")
    wanted = []
    async with a_dialogue(shadow) as client:
        for file in files:
            content = re.sub(rb"(?m)^\.", b"..", file.read_bytes()) + b"\r\n"
            wanted.append(hashlib.sha256(content + b".\r\n").hexdigest())
            assert (await pass_on(client, content)).startswith("250")
    assert [hashlib.sha256(email.data).hexdigest() for email in relay.emails] == wanted
    assert (await report(shadow)).passed == len(files)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("MAIL", "550 5.7.1 Not you"),
        ("MAIL", "451-4.3.0 Wait\r\n451 4.3.0 a moment"),
        ("DATA", "554 5.5.1 No valid recipients"),
        (".", "552 5.3.4 Too big for us"),
        (".", "450 4.2.0 Greylisted"),
    ],
)
async def test_rejections_of_the_relay_reach_the_client(
    shadow: Submission, relay: RecordingRelay, command: str, answer: str
) -> None:
    relay.replies[command] = answer
    async with a_dialogue(shadow) as client:
        replies = [await client.ask("MAIL FROM:<shop@example.com>\r\n")]
        if command != "MAIL":
            replies.append(await client.ask("RCPT TO:<ada@example.com>\r\n"))
            replies.append(await client.ask("DATA\r\n"))
        if command == ".":
            replies.append(await client.ask(EMAIL + b".\r\n"))
        assert replies[-1] == f"{answer}\r\n"
        relay.replies.clear()
        await client.say("RSET")
        assert (await pass_on(client)).startswith("250")
    found = await report(shadow)
    assert (found.accepted, found.rejected) == (1, int(command == "."))


async def test_email_after_refused_data_has_its_own_recipients(shadow: Submission, relay: RecordingRelay) -> None:
    relay.replies["DATA"] = "550 5.7.1 No"
    async with a_dialogue(shadow) as client:
        await client.say("MAIL FROM:<shop@example.com>", "RCPT TO:<ada@example.com>", "DATA")
        relay.replies.clear()
        assert (await pass_on(client, EMAIL, "bob@example.com")).startswith("250")
    assert (await report(shadow)).passed == 1


async def test_each_recipient_gets_the_answer_of_the_relay(shadow: Submission, relay: RecordingRelay) -> None:
    relay.replies |= {"RCPT TO:<bad@": "550 5.1.1 Unknown", "RCPT TO:<later@": "450 4.2.1 Later"}
    async with a_dialogue(shadow) as client:
        wanted = ("ada@example.com", "bad@example.com", "later@example.com", "bob@example.com")
        replies = await client.say("MAIL FROM:<shop@example.com>", *[f"RCPT TO:<{one}>" for one in wanted], "DATA")
        assert [each[:3] for each in replies] == ["250", "250", "550", "450", "250", "354"]
        assert (await client.ask(EMAIL + b".\r\n")).startswith("250")
    assert (await report(shadow)).passed == 2


async def test_pipelined_transactions_are_passed_on_in_order(shadow: Submission, relay: RecordingRelay) -> None:
    one = b"MAIL FROM:<shop@example.com>\r\nRCPT TO:<ada@example.com>\r\nDATA\r\n"
    async with a_dialogue(shadow) as client:
        client.writer.write(one)
        assert [(await client.reply())[:3] for _ in range(3)] == ["250", "250", "354"]
        client.writer.write(EMAIL + b".\r\n" + one)
        assert [(await client.reply())[:3] for _ in range(4)] == ["250", "250", "250", "354"]
        client.writer.write(EMAIL + b".\r\nNOOP\r\nQUIT\r\n")
        assert [(await client.reply())[:3] for _ in range(3)] == ["250", "250", "221"]
    assert len(relay.emails) == 2


@pytest.mark.parametrize("ends_at", ["MAIL", "RCPT", "DATA", "."])
async def test_lost_relay_is_a_temporary_error(shadow: Submission, relay: RecordingRelay, ends_at: str) -> None:
    relay.replies[ends_at] = None
    async with a_dialogue(shadow) as client:
        replies = [await client.ask("MAIL FROM:<shop@example.com>\r\n")]
        for command in ("RCPT TO:<ada@example.com>", "DATA"):
            if replies[-1].startswith("2"):
                replies.append(await client.ask(f"{command}\r\n"))
        if replies[-1].startswith("354"):
            replies.append(await client.ask(EMAIL + b".\r\n"))
        assert replies[-1].startswith("421 4.4.2")
        assert await client.is_closed()
    assert (await report(shadow)).accepted == 0


async def test_unreachable_relay_refuses_for_now(database: Database, clock: ManualClock) -> None:
    async with a_relay() as gone:
        pass
    async with a_shadow(database, clock, gone) as shadow:
        reader, writer = await asyncio.open_connection("127.0.0.1", shadow.port)
        client = Dialogue(reader, writer)
        await client.reply()
        assert (await client.ask("EHLO app.example.com\r\n")).startswith("451 4.4.1")
        writer.close()


async def test_idle_connection_that_the_relay_closed_is_opened_again(shadow: Submission, relay: RecordingRelay) -> None:
    async with a_dialogue(shadow) as client:
        assert (await pass_on(client)).startswith("250")
        before = relay.connections
        relay.replies["RSET"] = None
        await client.ask("RSET\r\n")
    async with a_dialogue(shadow) as client:
        assert (await pass_on(client)).startswith("250")
    assert relay.connections > before
    assert len(relay.emails) == 2


async def test_client_that_vanishes_leaves_no_email(shadow: Submission, relay: RecordingRelay) -> None:
    script = b"MAIL FROM:<shop@example.com>\r\nRCPT TO:<ada@example.com>\r\nDATA\r\n" + EMAIL + b".\r\n"
    head = script.index(b"DATA\r\n") + 6
    for end in range(0, len(script) - 1, 7):
        reader, writer = await asyncio.open_connection("127.0.0.1", shadow.port)
        client = Dialogue(reader, writer)
        await client.reply()
        await client.sign_in(shadow.key)
        writer.write(script[: min(end, head)])
        for _ in range(script[: min(end, head)].count(b"\r\n")):
            await client.reply()
        writer.write(script[head:end] if end > head else b"")
        writer.close()
        await writer.wait_closed()
    async with a_dialogue(shadow) as client:
        assert (await pass_on(client)).startswith("250")
    assert len(relay.emails) == 1


async def test_crash_before_the_reply_repeats_like_a_lost_connection(shadow: Submission, relay: RecordingRelay) -> None:
    """The relay has the email, and the client cannot know: it sends the email again, as it would without Mailwright."""
    async with a_dialogue(shadow) as client:
        await client.begin()
        relay.accepted = client.writer.transport.abort
        client.writer.write(EMAIL + b".\r\n")
        with pytest.raises((AssertionError, ConnectionError, IndexError)):
            assert (await client.reply()).startswith("250")
    relay.accepted = lambda: None
    async with a_dialogue(shadow) as client:
        assert (await pass_on(client)).startswith("250")
    assert [email.data for email in relay.emails] == [EMAIL + b".\r\n"] * 2


async def test_relay_is_used_with_tls_and_sign_in(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    async with a_relay(tls=server_tls(tmp_path)) as relay:
        query = f"?tls=starttls&ca={tmp_path / 'cert.pem'}"
        url = f"smtp://app:s3cret@localhost:{relay.port}{query}"
        engine = an_engine(database, clock, smtp_mode="shadow", smtp_relay_url=url)
        async with a_submission(engine, shadow=make_shadow(engine)) as shadow, a_dialogue(shadow) as client:
            assert (await pass_on(client)).startswith("250")
    assert relay.sign_ins[0].startswith("AUTH PLAIN ")
    assert len(relay.emails) == 1


async def test_relay_with_an_unknown_certificate_gets_nothing(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    a_certificate(tmp_path / "other")
    async with a_relay(tls=server_tls(tmp_path)) as relay:
        url = f"smtp://app:s3cret@localhost:{relay.port}?tls=starttls&ca={tmp_path / 'other' / 'cert.pem'}"
        engine = an_engine(database, clock, smtp_mode="shadow", smtp_relay_url=url)
        async with a_submission(engine, shadow=make_shadow(engine)) as shadow:
            reader, writer = await asyncio.open_connection("127.0.0.1", shadow.port)
            client = Dialogue(reader, writer)
            await client.reply()
            assert (await client.ask("EHLO a.example.com\r\n")).startswith("451")
            writer.close()
    assert relay.sign_ins == []


async def test_extensions_are_those_of_the_relay(database: Database, clock: ManualClock) -> None:
    async with (
        a_relay(extensions=["8BITMIME", "SIZE 1000", "XFANCY"]) as relay,
        a_shadow(database, clock, relay) as shadow,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", shadow.port)
        client = Dialogue(reader, writer)
        await client.reply()
        offered = {line[4:] for line in (await client.ask("EHLO a.example.com\r\n")).splitlines()[1:]}
        writer.close()
        async with a_dialogue(shadow) as client:
            await client.say("MAIL FROM:<shop@example.com>", "RCPT TO:<ada@example.com>")
            # The relay would read the content as commands.
            assert (await client.ask(b"BDAT 12 LAST\r\nNOOP\r\nNOOP\r\n")).startswith("502 5.5.1")
            assert (await pass_on(client)).startswith("250")
    assert [email.data for email in relay.emails] == [EMAIL + b".\r\n"]
    assert offered == {"8BITMIME", "SIZE 1000", "PIPELINING", "AUTH PLAIN LOGIN"}


async def test_shadow_mode_is_no_open_relay(shadow: Submission, relay: RecordingRelay) -> None:
    async with a_dialogue(shadow, is_signed_in=False) as client:
        await client.ask("EHLO a.example.com\r\n")
        assert (await client.say("MAIL FROM:<shop@example.com>"))[0].startswith("530")
        assert (await client.say("RCPT TO:<ada@example.com>"))[0].startswith("503")
        assert (await client.say("DATA"))[0].startswith("503")
    assert relay.emails == []


async def test_real_client_and_server_with_shadow_mode_between(database: Database, clock: ManualClock) -> None:
    contents: list[bytes] = []

    class Collector:
        async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
            contents.append(envelope.original_content)
            return "250 OK id=abc-123"

    server = await asyncio.get_running_loop().create_server(
        lambda: AiosmtpdServer(Collector(), enable_SMTPUTF8=True), "127.0.0.1", 0
    )
    email = EmailMessage()
    email["From"], email["To"], email["Subject"] = "Shop <shop@example.com>", "Ada <ada@example.com>", "Größe"
    email.set_content(".dot\nÜmläut\n")
    target = RecordingRelay(port=server.sockets[0].getsockname()[1])
    async with server, a_shadow(database, clock, target) as shadow:

        def send() -> None:
            with smtplib.SMTP("127.0.0.1", shadow.port) as client:
                client.login("apikey", shadow.key)
                for _ in range(3):
                    client.send_message(email, to_addrs=["ada@example.com", "bob@example.com"])

        await asyncio.to_thread(send)
        assert len(contents) == 3
        found = await report(shadow)
    assert (found.passed, found.findings[ShadowFinding.DUPLICATE]) == (6, 0)  # The email has no Message-ID.


@pytest.mark.promise("shadow-unchanged")
@pytest.mark.both_engines
async def test_report_says_what_mailwright_would_have_done(
    database: Database, clock: ManualClock, relay: RecordingRelay
) -> None:
    await suppress(database, "eve@example.com")
    await tenants.change(database, "default", daily_limit=4)
    domains = {"sender": "shop@example.com", "sender_domains": ("example.com",)}
    async with a_shadow(database, clock, relay, **domains) as shadow, a_dialogue(shadow) as client:
        known = b"Message-ID: <1@example.com>\r\n" + EMAIL
        await pass_on(client, known, "ada@example.com", "eve@example.com")
        await pass_on(client, b"Received: from a\r\n" + known, "ada@example.com")  # The same email again.
        await pass_on(client, known + b"changed\r\n", "ada@example.com")  # another with this Message-ID
        await pass_on(client, EMAIL.replace(b"shop@example.com", b"x@other.example"), sender="x@other.example")
        await pass_on(client, EMAIL, sender="bounce@esp.example")
        await pass_on(client, b"DKIM-Signature: v=1; d=mail.example.com; s=x\r\n" + EMAIL, sender="b@esp.example")
        await pass_on(client, b"From: shop@example.com\r\n\r\nbare\nline\r\n")
        await pass_on(client, EMAIL, "late@example.com")
        found = await report(shadow)
    assert found.findings == {
        ShadowFinding.SUPPRESSED: 1,
        ShadowFinding.DUPLICATE: 1,
        ShadowFinding.DEFERRED: 1,
        ShadowFinding.MISALIGNED: 2,
        ShadowFinding.REFUSED: 2,
    }
    assert (found.passed, found.accepted) == (9, 9)
    assert "daily_limit of 4" in found.examples[0].detail
    assert "eve@example.com" not in str(found)


async def test_report_names_senders_that_the_key_may_not_use(shadow: Submission) -> None:
    allowed = parse_allowed_senders(["news@example.com"])
    key = await shadow.engine.keys.create(1, senders=allowed)
    async with a_dialogue(shadow, is_signed_in=False) as client:
        await client.sign_in(key)
        assert (await pass_on(client)).startswith("250")
    assert (await report(shadow)).findings[ShadowFinding.REFUSED] == 1


async def test_unavailable_database_loses_rows_but_no_email(
    shadow: Submission, relay: RecordingRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise OSError("no database")

    monkeypatch.setattr("mailwright.sources.smtp.shadow.add_rows", fail)
    async with a_dialogue(shadow) as client:
        assert (await pass_on(client)).startswith("250")
        monkeypatch.undo()
        assert (await pass_on(client)).startswith("250")
    assert len(relay.emails) == 2
    assert (await report(shadow)).passed <= 2


async def test_switching_to_deliver_stores_and_passes_nothing_on(
    database: Database, clock: ManualClock, relay: RecordingRelay
) -> None:
    async with a_shadow(database, clock, relay) as shadow, a_dialogue(shadow) as client:
        assert (await pass_on(client)).startswith("250")
        assert await shadow.stored() == []
    engine = an_engine(database, clock, smtp_relay_url=f"smtp://127.0.0.1:{relay.port}")
    async with a_submission(engine, shadow=make_shadow(engine)) as deliver, a_dialogue(deliver) as client:
        await client.begin()
        assert "Accepted" in await client.ask(EMAIL + b".\r\n")
        assert await deliver.stored() == ["ada@example.com"]
    assert len(relay.emails) == 1


@pytest.mark.promise("shadow-unchanged")
async def test_report_is_in_the_api_and_belongs_to_the_tenant(
    database: Database, clock: ManualClock, relay: RecordingRelay
) -> None:
    await suppress(database, "ada@example.com")
    async with a_shadow(database, clock, relay) as shadow, a_dialogue(shadow) as client:
        await pass_on(client)
        await report(shadow)
    async with an_api(database, clock, smtp_mode="shadow", smtp_relay_url="smtp://127.0.0.1:25") as api:
        own = (await api.client.get("/v1/shadow")).json()
        other = (await api.stranger.get("/v1/shadow", params={"days": 30})).json()
        assert (await api.client.get("/v1/shadow", params={"days": 0})).status_code == 422
    assert (own["mode"], own["passed"], own["findings"]["suppressed"]) == ("shadow", 1, 1)
    assert own["examples"][0]["recipient"] == "a***@e***.com"
    assert (other["passed"], other["examples"]) == (0, [])


async def test_retention_deletes_old_rows(database: Database, clock: ManualClock, relay: RecordingRelay) -> None:
    async with a_shadow(database, clock, relay) as shadow, a_dialogue(shadow) as client:
        await pass_on(client)
        await report(shadow)
        rule = RetentionRule(1, RetentionKind.SHADOW, 2, exports=False)
        await set_rule(database, clock, 1, rule.kind, days=2, exports=False, actor="ada")
        retention = make_retention(shadow.engine.settings, database, clock)
        assert await retention.preview(1, RetentionKind.SHADOW, 2) == NOTHING
        clock.advance(3 * DAY)
        assert (await retention.run_batch(rule, 100)).rows == 1
        assert (await load_report(database, 1, clock.now(), 30)).passed == 0
