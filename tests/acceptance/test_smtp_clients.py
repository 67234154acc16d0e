"""Real SMTP clients submit email to a real server process. Clients that are not installed are skipped."""

import asyncio
import os
import shutil
import signal
import smtplib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.acceptance.commands import Commands
from tests.submission import a_certificate, client_tls

NODEMAILER = """
const [port, tlsPort, pass] = process.argv.slice(1);
const tls = {rejectUnauthorized: false};
const modes = [{port, ignoreTLS: true}, {port, requireTLS: true, tls}, {port: tlsPort, secure: true, tls}];
(async () => {
  for (const mode of modes) {
    const transport = require('nodemailer').createTransport({host: '127.0.0.1', ...mode, auth: {user: 'apikey', pass}});
    const email = {from: 'Shop <shop@example.com>', to: 'ada@example.com', subject: 'Grüße', text: '.dot\\n..'};
    const sent = await transport.sendMail(email);
    if (!sent.response.includes('Accepted')) process.exit(1);
  }
})();
"""


@dataclass(frozen=True)
class Served:
    commands: Commands
    folder: Path
    port: str
    tls_port: str
    key: str

    async def count(self) -> int:
        return len((await self.commands.ok("message", "list", "--json")).json)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    certificate, key_file = a_certificate(tmp_path)
    settings = {
        "MAILWRIGHT_SMTP_LISTEN": "127.0.0.1:0",
        "MAILWRIGHT_SMTP_LISTEN_TLS": "127.0.0.1:0",
        "MAILWRIGHT_SMTP_CERTIFICATE_FILE": str(certificate),
        "MAILWRIGHT_SMTP_KEY_FILE": str(key_file),
    }
    commands = Commands(tmp_path, settings)
    key = (await commands.ok("key", "create", "--scope", "send")).out.strip()
    async with commands.service("smtp") as service:
        addresses = (await service.logged("smtp_started"))["addresses"]
        ports = [address.rpartition(":")[2] for address in addresses]
        yield Served(commands, tmp_path, ports[0], ports[1], key)
        service.signal(signal.SIGTERM)
        assert await service.ended() == 0


async def run(*words: str, stdin: bytes = b"", **environment: str) -> str:
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment},
    )
    out, _ = await asyncio.wait_for(process.communicate(stdin), 60)
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_smtplib_sends_with_and_without_tls(served: Served) -> None:
    email = EmailMessage()
    email["From"], email["To"], email["Subject"] = "shop@example.com", "ada@example.com", "Hello"
    email.set_content("Hello")

    def send() -> None:
        trusting = client_tls(served.folder)
        with smtplib.SMTP("localhost", int(served.port)) as client:
            client.login("apikey", served.key)
            client.send_message(email)
        with smtplib.SMTP("localhost", int(served.port)) as client:
            client.starttls(context=trusting)
            client.login("apikey", served.key)
            client.send_message(email)
        with smtplib.SMTP_SSL("localhost", int(served.tls_port), context=trusting) as client:
            client.login("apikey", served.key)
            client.send_message(email)

    await asyncio.to_thread(send)
    assert await served.count() == 3


async def test_swaks_sends(served: Served) -> None:
    words = ["swaks", "--server", f"127.0.0.1:{served.port}", "--auth", "LOGIN", "--auth-user", "apikey"]
    out = await run(*words, "--auth-password", served.key, "--from", "shop@example.com", "--to", "ada@example.com")
    assert "250 2.0.0 Accepted" in out
    assert await served.count() == 1


async def test_msmtp_sends(served: Served) -> None:
    (served.folder / "password").write_text(served.key)
    words = ["msmtp", "--host=127.0.0.1", f"--port={served.tls_port}", "--tls=on", "--tls-starttls=off"]
    words += ["--tls-certcheck=off", "--auth=plain", "--user=apikey", f"--passwordeval=cat {served.folder}/password"]
    email = b"From: shop@example.com\nTo: ada@example.com\nSubject: Hello\n\n.dot\n"
    await run(*words, "--from=shop@example.com", "ada@example.com", stdin=email)
    assert await served.count() == 1


async def test_nodemailer_sends_with_and_without_tls(served: Served) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    try:
        await run("node", "-e", "require('nodemailer')")
    except AssertionError:
        pytest.skip("nodemailer is not installed (set NODE_PATH)")
    await run("node", "-e", NODEMAILER, served.port, served.tls_port, served.key)
    assert await served.count() == 3
