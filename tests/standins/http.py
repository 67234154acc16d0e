"""An HTTP server for tests: strict about the protocol, records requests and misbehaves as scripted.

async with HttpStandIn() as server:
    server.answer(Answer(503))  # from now on; `times=1` for one request, `nth=2` for the second
    server.cut(Step.ANSWER, nth=1)
    hold = server.hold(Step.ANSWER)
    ...
    assert server.requests[0].body == body
    assert not server.violations

Stand-ins for providers inherit from it and define their normal response in `usual`.
"""

import asyncio
import json
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import TracebackType
from typing import Any, Self

from multidict import CIMultiDict

from tests.standins.smtp_sink import Certificate
from tests.standins.steps import DisconnectRule, Hold

MOST_HEAD_BYTES = 64 * 1024
PIECE_BYTES = 16 * 1024
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
REQUEST_LINE = re.compile(r"([A-Z]+) (/[!-~]*) HTTP/1\.1")
REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 429: "Too Many Requests", 503: "Service Unavailable"}


class Step(Enum):
    """The step at which a rule acts."""

    CONNECTED = auto()  # Connected; nothing has been read.
    HEAD = auto()  # The head of a request has come.
    BODY = auto()  # Half of the body has come.
    ANSWER = auto()  # The whole request has come.
    MIDDLE = auto()  # Half of the response was sent.
    ANSWERED = auto()  # All of the response was sent.


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str  # Without the query.
    query: str
    headers: CIMultiDict[str]
    body: bytes
    connection: int

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def wire(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {REASONS.get(self.status, 'Answer')}"]
        headers = {"Content-Length": str(len(self.body)), **self.headers}
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


def json_answer(status: int, content: Any, **headers: str) -> Answer:
    """Create a response; header names are written with underscores: `x_amzn_errortype`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps(content).encode(), {"Content-Type": "application/json", **named})


# Invalid responses of real servers in place of JSON.
HTML = Answer(200, b"<!doctype html><title>Welcome</title>", {"Content-Type": "text/html"})
EMPTY = Answer(200)
WRONG_JSON = Answer(200, b'["not", "what", "was", "asked"]', {"Content-Type": "application/json"})
BROKEN_JSON = Answer(200, b'{"MessageId": "01', {"Content-Type": "application/json"})
GARBAGE = b"\x16\x03\x01\x00\xffwhat?\r\n\r\n"


def a_large_answer(status: int = 200, size: int = 10 * 1024 * 1024) -> Answer:
    return Answer(status, b" " * size, {"Content-Type": "application/json"})


@dataclass(slots=True)
class _Rule:
    step: Step
    action: "Answer | bytes | DisconnectRule | Hold | Callable[[], object]"
    nth: int | None
    times: int | None
    path: str | None = None
    seen: int = 0
    used: int = 0

    def applies(self, step: Step, path: str | None) -> bool:
        if step is not self.step or (self.path is not None and path != self.path):
            return False
        self.seen += 1
        return self.nth in (None, self.seen) and (self.times is None or self.used < self.times)


class _Gone(Exception):
    """The connection has ended."""


class _Violation(Exception):
    """The client violated HTTP."""


class HttpStandIn:
    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        certificate: Certificate | None = None,
        requests_per_connection: int | None = None,  # Then it closes without notice, as servers do.
    ) -> None:
        self.host = host
        self.port = port
        self.begun: list[str] = []  # Method and path of every request whose head came.
        self.requests: list[Request] = []  # Complete requests.
        self.violations: list[str] = []
        self.connections = 0
        self.most_connections = 0
        self._certificate = certificate
        self._requests_per_connection = requests_per_connection
        self._rules: list[_Rule] = []
        self._arrived = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._handlers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def usual(self, request: Request) -> Answer:
        """Return the normal response."""
        return json_answer(200, {"path": request.path, "bytes": len(request.body)})

    async def __aenter__(self) -> Self:
        context = None
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate.file, self._certificate.key_file)
        listening = socket.create_server((self.host, self.port))
        # Small buffers, so that a peer that does not read is noticed soon.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE_BYTES)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server = await asyncio.start_server(self._serve, sock=listening, ssl=context, limit=MOST_HEAD_BYTES)
        self.port = listening.getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for handler in tuple(self._handlers):
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"{'https' if self._certificate else 'http'}://{self.host}:{self.port}"

    # Rules. `nth` counts the matching steps from now on, over all connections; `times` ends a rule;
    # `path` limits it to requests of that path. Rules act in the order in which they were made,
    # until one of them responds or disconnects.

    def answer(
        self,
        answer: Answer | bytes,
        *,
        step: Step = Step.ANSWER,
        nth: int | None = None,
        times: int | None = None,
        path: str | None = None,
    ) -> None:
        """Send raw bytes (garbage, half a response) and close the connection."""
        self._rules.append(_Rule(step, answer, nth, times, path))

    def cut(self, step: Step, *, nth: int | None = None, times: int | None = None, path: str | None = None) -> None:
        self._rules.append(_Rule(step, DisconnectRule(), nth, times, path))

    def hold(self, step: Step, *, nth: int | None = None, path: str | None = None) -> Hold:
        """Wait at this step once, then continue normally."""
        hold = Hold()
        self._rules.append(_Rule(step, hold, nth, 1, path))
        return hold

    def call(self, step: Step, action: Callable[[], object], *, nth: int = 1, path: str | None = None) -> None:
        """Call a function of the test, for example to kill a process, then continue normally."""
        self._rules.append(_Rule(step, action, nth, 1, path))

    def forget_rules(self) -> None:
        self._rules.clear()

    @property
    def open_connections(self) -> int:
        return len(self._handlers)

    @property
    def writers(self) -> list[asyncio.StreamWriter]:
        """Return the writers of open connections, oldest first, for unsolicited output."""
        return list(self._handlers.values())

    async def close_connections(self) -> None:
        """Close idle connections, as servers do."""
        handlers = tuple(self._handlers)
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)

    async def received(self, count: int) -> list[Request]:
        """Wait until this many complete requests have arrived."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests

    # One connection.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self._handlers[handler] = writer
        self.connections += 1
        self.most_connections = max(self.most_connections, len(self._handlers))
        try:
            await self._converse(self.connections, reader, writer)
        except (_Gone, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # Either side closed the connection.
        finally:
            del self._handlers[handler]
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _converse(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._at(Step.CONNECTED, writer)
        served = 0
        while served != self._requests_per_connection:
            try:
                request = await self._read(number, reader, writer)
            except _Violation as violation:
                self.violations.append(str(violation))
                writer.write(Answer(400, str(violation).encode(), {"Connection": "close"}).wire())
                return
            self.requests.append(request)
            async with self._arrived:
                self._arrived.notify_all()
            await self.respond(request, writer)
            served += 1
            if request.headers.get("Connection", "").lower() == "close":
                return

    async def _read(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, headers = _parsed(head)
        path, _, query = target.partition("?")
        self.begun.append(f"{method} {path}")
        length = _length(method, headers)
        await self._at(Step.HEAD, writer, path)
        if headers.get("Expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        beginning = await reader.readexactly(length // 2)
        await self._at(Step.BODY, writer, path)
        rest = await reader.readexactly(length - length // 2)
        return Request(method, path, query, headers, beginning + rest, number)

    async def respond(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """Write the scripted or usual response. Subclasses override this."""
        answer = await self._at(Step.ANSWER, writer, request.path) or self.usual(request)
        wire = answer.wire()
        middle = len(wire) // 2
        writer.write(wire[:middle])
        await writer.drain()
        await self._at(Step.MIDDLE, writer, request.path)
        writer.write(wire[middle:])
        await writer.drain()
        await self._at(Step.ANSWERED, writer, request.path)

    async def _at(self, step: Step, writer: asyncio.StreamWriter, path: str | None = None) -> Answer | None:
        """Apply the rules of this step; return a response that is due later."""
        for rule in self._rules:
            if not rule.applies(step, path):
                continue
            rule.used += 1
            match rule.action:
                case Hold() as hold:
                    await hold.wait()
                case Answer() as answer if step is Step.ANSWER:
                    return answer
                case Answer() as answer:
                    writer.write(answer.wire())
                    await writer.drain()
                    raise _Gone
                case bytes() as raw:
                    writer.write(raw)
                    await writer.drain()
                    raise _Gone
                case DisconnectRule():
                    await writer.drain()
                    raise _Gone
                case action:
                    action()
        return None


def _parsed(head: bytes) -> tuple[str, str, CIMultiDict[str]]:
    try:
        text = head.decode("ascii")
    except UnicodeDecodeError as error:
        raise _Violation("the head of a request is not ASCII") from error
    first, *lines = text.removesuffix("\r\n\r\n").split("\r\n")
    if not (matched := REQUEST_LINE.fullmatch(first)):
        raise _Violation(f"not a request line: {first!r}")
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not TOKEN.fullmatch(name) or "\r" in value or "\n" in value or "\x00" in value:
            raise _Violation(f"not a header: {line!r}")
        headers.add(name, value.strip(" \t"))
    if len(headers.getall("Host", [])) != 1:
        raise _Violation("there must be one Host")
    return matched[1], matched[2], headers


def _length(method: str, headers: CIMultiDict[str]) -> int:
    if "Transfer-Encoding" in headers:
        raise _Violation("a body whose length is not told before")
    lengths = headers.getall("Content-Length", ["0"] if method in {"GET", "HEAD", "DELETE"} else [])
    if len(lengths) != 1 or not re.fullmatch(r"[0-9]+", lengths[0]):
        raise _Violation(f"there must be one Content-Length: {lengths}")
    return int(lengths[0])
