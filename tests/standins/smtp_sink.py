"""An SMTP server for tests: strict about the protocol, records messages and fails as scripted.

async with SmtpSink() as sink:
    sink.answer(Step.RCPT, "550 5.1.1 unknown", recipient="bob@example.com")
    sink.cut(Step.DOT, nth=2)
    ...
    assert sink.messages[0].content == content
    assert not sink.violations
"""

import asyncio
import contextlib
import datetime
import ipaddress
import re
import socket
import ssl
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.standins.steps import DisconnectRule, Hold


class Step(Enum):
    """The step at which a rule replaces the reply."""

    GREETING = auto()
    EHLO = auto()
    HELO = auto()
    STARTTLS = auto()
    AUTH = auto()
    MAIL = auto()
    RCPT = auto()
    DATA = auto()
    BODY = auto()  # A part of the content has come.
    DOT = auto()  # All of the content has come.
    ANSWERED = auto()  # The reply to the content was sent.
    RSET = auto()
    QUIT = auto()


class SinkTls(Enum):
    NONE = auto()
    STARTTLS = auto()
    IMPLICIT = auto()


@dataclass(frozen=True, slots=True)
class Received:
    sender: str
    recipients: tuple[str, ...]
    content: bytes  # Without dot-stuffing.
    parameters: tuple[str, ...]  # of MAIL: SIZE=…, BODY=8BITMIME
    session: "Session"
    commands_behind: int  # Commands that came with the content, before the reply.


@dataclass(slots=True, eq=False)
class Session:
    """One connection and its commands."""

    number: int
    commands: list[str] = field(default_factory=list)
    is_encrypted: bool = False
    user: str | None = None
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def verbs(self) -> list[str]:
        return [command.split(" ")[0].upper() for command in self.commands]


@dataclass(slots=True)
class _Rule:
    step: Step
    action: bytes | DisconnectRule | Hold | Callable[[], object]
    recipient: str | None
    nth: int | None
    times: int | None
    seen: int = 0
    used: int = 0

    def applies(self, step: Step, recipient: str | None) -> bool:
        if step is not self.step or (self.recipient is not None and recipient != self.recipient):
            return False
        self.seen += 1
        return self.nth in (None, self.seen) and (self.times is None or self.used < self.times)


class _Gone(Exception):
    """The connection has ended."""


class SmtpSink:
    def __init__(
        self,
        *,
        tls: SinkTls = SinkTls.NONE,
        certificate: "Certificate | None" = None,
        users: dict[str, str] | None = None,  # If set, AUTH is offered and required.
        mechanisms: tuple[str, ...] = ("PLAIN", "LOGIN"),
        pipelining: bool = True,
        eight_bit: bool = True,
        smtputf8: bool = True,
        size: int | None = 50_000_000,
        latency_seconds: float = 0.0,
        delay_seconds: float = 0.0,  # Wait this long before the reply to each content, like a slow relay.
        answers_in_single_bytes: bool = False,
        keep: bool = True,  # False: count only, for long runs
        host: str = "127.0.0.1",
        port: int = 0,  # Any free port.
    ) -> None:
        self.messages: list[Received] = []  # Accepted messages.
        self.complete: list[Received] = []  # All complete messages, whatever the reply.
        self.count = 0
        self.sessions: list[Session] = []
        self.violations: list[str] = []
        self.most_connections = 0
        self.host = host
        self.port = port
        self.tls = tls
        self._certificate = certificate or (a_certificate() if tls is not SinkTls.NONE else None)
        self.users = users or {}
        self.mechanisms = mechanisms
        self.extensions = [
            *(["PIPELINING"] if pipelining else []),
            *(["8BITMIME"] if eight_bit else []),
            *(["SMTPUTF8"] if smtputf8 else []),
            *([f"SIZE {size}"] if size is not None else []),
        ]
        self.pipelining = pipelining
        self.latency_seconds = latency_seconds
        self.delay_seconds = delay_seconds
        self.single_bytes = answers_in_single_bytes
        self._keep = keep
        self.handshake_hold: Hold | None = None
        self._rules: list[_Rule] = []
        self._arrived = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._handlers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.responds = asyncio.Event()
        self.responds.set()

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def _listen(self) -> None:
        context = self.server_context() if self.tls is SinkTls.IMPLICIT else None
        self._server = await asyncio.start_server(self._serve, self.host, self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse_connections()

    # Outages.

    async def refuse_connections(self) -> None:
        """Refuse connections from now on, and cut the open ones."""
        assert self._server is not None
        self._server.close()
        for handler in tuple(self._handlers):
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    def hang(self) -> None:
        """Accept connections and commands from now on, but never reply, like a half-open socket."""
        self.responds.clear()

    async def recover(self) -> None:
        """End every outage: accept connections on the same port, reply, and forget the rules."""
        self._rules.clear()
        self.responds.set()
        if self._server is not None and not self._server.is_serving():
            await self._listen()

    @property
    def url(self) -> str:
        return f"smtp://{self.host}:{self.port}"

    def limit_receive_buffer(self, size: int) -> None:
        """Let the kernel buffer at most about this many bytes of each later connection."""
        assert self._server is not None
        for listener in self._server.sockets:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    # Rules. `nth` counts the matching steps from now on, over all connections; `times` ends a rule.

    def answer(
        self,
        step: Step,
        reply: str | bytes,
        *,
        recipient: str | None = None,
        nth: int | None = None,
        times: int | None = None,
    ) -> None:
        """Reply with text plus CRLF, or with raw bytes (garbage, two replies, half a reply)."""
        raw = reply if isinstance(reply, bytes) else f"{reply}\r\n".encode()
        self._rules.append(_Rule(step, raw, recipient, nth, times))

    def cut(
        self, step: Step, *, recipient: str | None = None, nth: int | None = None, times: int | None = None
    ) -> None:
        self._rules.append(_Rule(step, DisconnectRule(), recipient, nth, times))

    def hold(self, step: Step, *, recipient: str | None = None, nth: int | None = None) -> Hold:
        """Wait at this step once, then continue normally."""
        hold = Hold()
        self._rules.append(_Rule(step, hold, recipient, nth, 1))
        return hold

    def hold_handshake(self) -> Hold:
        """Accept STARTTLS but never start the handshake."""
        self.handshake_hold = Hold()
        return self.handshake_hold

    def call(self, step: Step, action: Callable[[], object], *, recipient: str | None = None, nth: int = 1) -> None:
        """Call a function of the test, for example to kill a process, then reply normally."""
        self._rules.append(_Rule(step, action, recipient, nth, 1))

    @property
    def writers(self) -> list[asyncio.StreamWriter]:
        """Return the writers of open connections, oldest first, for unsolicited output."""
        return list(self._handlers.values())

    async def received(self, count: int) -> list[Received]:
        """Wait until this many messages have arrived."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.count >= count)
        return self.messages

    # One connection.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self._handlers[handler] = writer
        self.most_connections = max(self.most_connections, len(self._handlers))
        session = Session(len(self.sessions) + 1, is_encrypted=self.tls is SinkTls.IMPLICIT)
        self.sessions.append(session)
        try:
            await _Dialogue(self, session, reader, writer).run()
        except (_Gone, ConnectionError, ssl.SSLError, asyncio.CancelledError):
            pass
        except (ValueError, KeyError) as error:  # Invalid base64 or UTF-8: the client's fault.
            self.violations.append(repr(error))
        finally:
            session.has_ended.set()
            del self._handlers[handler]
            # A graceful TLS close would wait for a peer that may never respond.
            writer.transport.abort() if session.is_encrypted else writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError, asyncio.CancelledError):
                await writer.wait_closed()

    def rules_for(self, step: Step, recipient: str | None) -> list[_Rule]:
        return [rule for rule in self._rules if rule.applies(step, recipient)]

    def note(self, message: Received) -> None:
        if self._keep:
            self.complete.append(message)

    async def accept(self, message: Received) -> None:
        if self._keep:
            self.messages.append(message)
        async with self._arrived:
            self.count += 1
            self._arrived.notify_all()

    def server_context(self) -> ssl.SSLContext:
        assert self._certificate is not None
        return self._certificate.server_context()


class _Dialogue:
    def __init__(
        self, sink: SmtpSink, session: Session, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._sink = sink
        self._session = session
        self._reader = reader
        self._writer = writer
        self._buffer = bytearray()
        self._has_greeted = False
        self._sender: str | None = None
        self._parameters: tuple[str, ...] = ()
        self._recipients: list[str] = []

    async def run(self) -> None:
        await self._answer(Step.GREETING, "220 sink.test ESMTP")
        while True:
            line = await self._line()
            self._session.commands.append(line)
            verb, _, rest = line.partition(" ")
            await self._command(verb.upper(), rest)

    async def _command(self, verb: str, rest: str) -> None:
        match verb:
            case "EHLO":
                await self._ehlo()
            case "HELO":
                self._has_greeted = True
                self._reset()
                await self._answer(Step.HELO, "250 sink.test")
            case "STARTTLS":
                await self._starttls()
            case "AUTH":
                await self._auth(rest)
            case "MAIL":
                await self._mail(rest)
            case "RCPT":
                await self._rcpt(rest)
            case "DATA":
                await self._data()
            case "RSET":
                self._reset()
                await self._answer(Step.RSET, "250 2.0.0 Ok")
            case "QUIT":
                await self._answer(Step.QUIT, "221 2.0.0 Bye")
                raise _Gone
            case _:
                await self._violation(f"unknown command {verb}", "500 5.5.2 what?")

    async def _ehlo(self) -> None:
        self._has_greeted = True
        self._reset()
        lines = ["sink.test", *self._sink.extensions]
        if self._sink.tls is SinkTls.STARTTLS and not self._session.is_encrypted:
            lines.append("STARTTLS")
        if self._sink.users:
            lines.append(f"AUTH {' '.join(self._sink.mechanisms)}")
        reply = "\r\n".join([*(f"250-{line}" for line in lines[:-1]), f"250 {lines[-1]}"])
        await self._answer(Step.EHLO, reply)

    async def _starttls(self) -> None:
        if self._sink.tls is not SinkTls.STARTTLS or self._session.is_encrypted:
            await self._violation("STARTTLS was not offered", "502 5.5.1 no TLS here")
            return
        if not await self._answer(Step.STARTTLS, "220 2.0.0 go ahead"):
            return
        if self._buffer:
            self._sink.violations.append("bytes after STARTTLS, before TLS")
            raise _Gone
        if self._sink.handshake_hold is not None:
            await self._sink.handshake_hold.wait()
        await self._writer.start_tls(self._sink.server_context())
        self._session.is_encrypted = True
        self._has_greeted = False

    async def _auth(self, rest: str) -> None:
        mechanism, _, initial = rest.partition(" ")
        if mechanism.upper() not in self._sink.mechanisms or not self._sink.users:
            await self._violation(f"AUTH {mechanism} was not offered", "504 5.5.4 not offered")
            return
        if mechanism.upper() == "PLAIN":
            _, user, password = b64decode(initial).decode().split("\0")
        else:
            user = b64decode(initial).decode() if initial else await self._challenge("Username:")
            password = await self._challenge("Password:")
        if self._sink.users.get(user) == password:
            if await self._answer(Step.AUTH, "235 2.7.0 welcome"):
                self._session.user = user
        else:
            await self._answer(Step.AUTH, "535 5.7.8 wrong user or password")

    async def _challenge(self, question: str) -> str:
        await self._write(b"334 " + b64encode(question.encode()) + b"\r\n")
        return b64decode(await self._line()).decode()

    async def _mail(self, rest: str) -> None:
        address, parameters = _path("FROM:", rest)
        if not self._has_greeted or self._sender is not None:
            await self._violation("MAIL out of sequence", "503 5.5.1 not now")
        elif address is None:
            await self._violation(f"malformed MAIL {rest}", "501 5.5.4 malformed")
        elif self._sink.users and self._session.user is None:
            await self._answer(Step.MAIL, "530 5.7.0 authentication required")
        elif await self._answer(Step.MAIL, "250 2.1.0 Ok"):
            self._sender, self._parameters = address, tuple(parameters)

    async def _rcpt(self, rest: str) -> None:
        address, _ = _path("TO:", rest)
        if address is None or not address:
            await self._violation(f"malformed RCPT {rest}", "501 5.5.4 malformed")
        elif self._sender is None:
            await self._write(b"503 5.5.1 MAIL first\r\n")
        elif await self._answer(Step.RCPT, "250 2.1.5 Ok", address):
            self._recipients.append(address)

    async def _data(self) -> None:
        if not self._recipients:
            if await self._answer(Step.DATA, "503 5.5.1 no valid recipients"):
                await self._content()  # A rule replied 354 nevertheless.
                await self._write(b"554 5.5.1 no valid recipients\r\n")
                self._reset()
        elif await self._answer(Step.DATA, "354 go on"):
            await self._take_message()

    async def _take_message(self) -> None:
        assert self._sender is not None
        content = await self._content()
        message = Received(
            self._sender,
            tuple(self._recipients),
            content,
            self._parameters,
            self._session,
            commands_behind=self._buffer.count(b"\r\n"),
        )
        self._reset()
        self._sink.note(message)
        if self._sink.delay_seconds:
            await asyncio.sleep(self._sink.delay_seconds)
        said = await self._decide(Step.DOT, f"250 2.0.0 Ok: queued as SINK{self._sink.count + 1}")
        if said.startswith(b"2"):
            await self._sink.accept(message)
        await self._write(said)
        await self._act(Step.ANSWERED, None)

    async def _content(self) -> bytes:
        """Read to the lone dot, remove the stuffing and record violations."""
        raw = bytearray(b"\r\n")
        if not self._buffer:
            await self._read()
        await self._act(Step.BODY, None)
        while True:
            start = max(0, len(raw) - 4)
            raw += self._buffer
            self._buffer.clear()
            end = raw.find(b"\r\n.\r\n", start)
            if end >= 0:
                break
            await self._read()
        self._buffer += raw[end + 5 :]
        stuffed = bytes(raw[: end + 2])
        unpaired = stuffed.replace(b"\r\n", b"")
        if b"\r" in unpaired or b"\n" in unpaired:
            self._sink.violations.append("a bare CR or LF in the content")
        if re.search(rb"\r\n\.(?!\.)", stuffed):
            self._sink.violations.append("a line that begins with a dot and is not dot-stuffed")
        return stuffed.replace(b"\r\n.", b"\r\n")[2:]

    def _reset(self) -> None:
        self._sender = None
        self._parameters = ()
        self._recipients = []

    # Reading and writing.

    async def _line(self) -> str:
        while (end := self._buffer.find(b"\n")) < 0:
            await self._read()
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        if self._buffer and not self._sink.pipelining:
            self._sink.violations.append("pipelined commands, and PIPELINING was not offered")
        if not line.endswith(b"\r\n") or b"\r" in line[:-2] or len(line) > 2_000:
            self._sink.violations.append(f"a malformed command line: {line[:80]!r}")
            await self._write(b"500 5.5.2 malformed line\r\n")
            raise _Gone
        return line[:-2].decode()

    async def _read(self) -> None:
        data = await self._reader.read(256 * 1024)
        if not data:
            raise _Gone
        self._buffer += data

    async def _answer(self, step: Step, reply: str, recipient: str | None = None) -> bool:
        """Reply by rule or protocol; return True for a success (or a go-ahead for DATA)."""
        said = await self._decide(step, reply, recipient)
        await self._write(said)
        return _is_success(said)

    async def _decide(self, step: Step, reply: str, recipient: str | None = None) -> bytes:
        if self._sink.latency_seconds:
            await asyncio.sleep(self._sink.latency_seconds)
        said = await self._act(step, recipient)
        return f"{reply}\r\n".encode() if said is None else said

    async def _act(self, step: Step, recipient: str | None) -> bytes | None:
        for rule in self._sink.rules_for(step, recipient):
            rule.used += 1
            match rule.action:
                case bytes() as raw:
                    return raw
                case DisconnectRule():
                    raise _Gone
                case Hold() as hold:
                    await hold.wait()
                case action:
                    assert callable(action)
                    action()
        return None

    async def _violation(self, what: str, reply: str) -> None:
        self._sink.violations.append(what)
        await self._write(f"{reply}\r\n".encode())

    async def _write(self, data: bytes) -> None:
        await self._sink.responds.wait()
        if self._sink.single_bytes:
            for byte in data:
                self._writer.write(bytes([byte]))
                await self._writer.drain()
                await asyncio.sleep(0)
        else:
            self._writer.write(data)
            await self._writer.drain()


def _is_success(reply: bytes) -> bool:
    return reply[:1] in (b"2", b"3")


def _path(keyword: str, rest: str) -> tuple[str | None, list[str]]:
    """`FROM:<a@example.com> SIZE=1` → the address and the parameters."""
    path, *parameters = rest.split(" ")
    if not path.upper().startswith(f"{keyword}<") or not path.endswith(">") or "<" in path[len(keyword) + 1 :]:
        return None, []
    return path[len(keyword) + 1 : -1], parameters


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed certificate; a client trusts it only through `file`."""

    file: Path
    key_file: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self.key_file)
        return context


@cache
def a_certificate(*names: str, days: int = 30) -> Certificate:
    """Create a certificate for localhost and 127.0.0.1, or for the given names."""
    directory = Path(tempfile.mkdtemp(prefix="smtp-sink-"))
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "smtp sink")])
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names or ("localhost",)]
    if not names:
        alternatives.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, key_file = directory / "certificate.pem", directory / "key.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Certificate(file, key_file)
