"""Short runs of killed SMTP servers."""

import asyncio
import contextlib
import signal
from pathlib import Path

import pytest

from tests.faults import submissions
from tests.faults.books import standing
from tests.faults.stage import Stage
from tests.standins.relay import a_relay
from tests.submission import EMAIL, Dialogue


@pytest.mark.promise("smtp-durable")
async def test_killed_smtp_server_keeps_exactly_the_accepted_emails(stage: Stage) -> None:
    figures = await submissions.run(stage, kills=2, emails=150)
    assert figures.misses == []


@pytest.mark.promise("shadow-unchanged")
async def test_shadow_mode_killed_before_its_reply_never_repeats(stage: Stage) -> None:
    """The relay has the email and the client has no reply: only the client's retry passes it on again."""
    recipients = [f"reader{number}@example.com" for number in range(3)]
    key, server, has_email = await stage.credential(), submissions.Server(stage), asyncio.Event()

    async def begin() -> Dialogue:
        client = Dialogue(*await asyncio.open_connection("127.0.0.1", server.port))
        await client.reply()
        assert (await client.sign_in(key)).startswith("235")
        assert (await client.begin(*recipients)).startswith("354")
        return client

    def freeze() -> None:
        """Stop the server before the relay replies, so that it cannot pass the reply on."""
        assert server.process is not None
        server.process.signal(signal.SIGSTOP)
        while Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            pass
        has_email.set()

    async with a_relay(accepted=freeze) as relay:
        stage.settings |= {
            "MAILWRIGHT_SMTP_MODE": "shadow",
            "MAILWRIGHT_SMTP_RELAY_URL": f"smtp://127.0.0.1:{relay.port}?tls=none",
        }
        await server.start()
        client = await begin()
        client.writer.write(EMAIL + b".\r\n")
        await has_email.wait()
        server.kill()
        with contextlib.suppress(ConnectionError):
            assert await client.reader.read() == b""
        client.writer.close()
        relay.accepted = lambda: None
        await server.start()
        assert len(relay.emails) == 1
        client = await begin()
        assert await client.ask(EMAIL + b".\r\n") == "250 2.0.0 queued as 4XyZ\r\n"
        client.writer.close()
        server.kill()
    assert [email.data for email in relay.emails] == [EMAIL + b".\r\n"] * 2
    assert relay.emails[0].commands == relay.emails[1].commands
    assert len(relay.emails[0].commands) == 4
    assert await standing(stage) == {}
