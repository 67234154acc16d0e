"""HTTP client for provider APIs. A request is sent at most once, and an error states how much of it was sent."""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import NamedTuple

from aiohappyeyeballs import AddrInfoType, start_connection
from yarl import URL

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.callbacks import OVER, run_with_callback
from mailwright.providers.http_connection import PIECE_BYTES, HttpConnection, HttpExchange, HttpPhase
from mailwright.providers.http_response import HttpResponse, IncompleteResponse, MalformedResponse, NoResponse
from mailwright.providers.protocol import SendHandle

__all__ = [
    "MAX_RESPONSE_BYTES",
    "PIECE_BYTES",
    "Disconnect",
    "HostNotAllowed",
    "HttpClient",
    "HttpPhase",
    "HttpResponse",
    "addresses_of",
]

# Resolves a host and a port to addresses; it may refuse by raising `HostNotAllowed`.
Resolve = Callable[[str, int], Awaitable[Sequence[AddrInfoType]]]

# Provider responses have a few hundred bytes. Anything beyond this limit is not read and the connection is closed;
# callers that download files set a higher limit.
MAX_RESPONSE_BYTES = 64 * 1024
CONNECT_SECONDS = 10.0
HEAD_START_SECONDS = 0.25
CLOSE_SECONDS = 1.0
# Servers keep an idle connection for a minute, some for only 5 seconds. A request on a connection that the server is
# closing would be in doubt although the server never read it, so we close idle connections first.
IDLE_SECONDS = 4.0

# Request uncompressed responses: they are small, and a compressed one could inflate without limit.
HEADERS = "Accept-Encoding: identity\r\nUser-Agent: Mailwright\r\n"
# Methods that are safe to repeat.
REPEATABLE_METHODS = frozenset({"GET", "HEAD"})
_BREAK = re.compile(r"[\r\n\0]")


@dataclass(frozen=True, slots=True)
class Disconnect:
    """A request that got no complete response."""

    phase: HttpPhase
    cause: str
    is_timeout: bool = False

    @property
    def is_in_doubt(self) -> bool:
        return self.phase is HttpPhase.AFTER

    @property
    def is_unconnected(self) -> bool:
        """Whether the server refused the connection or could not be found, so that it got no request."""
        return self.phase is HttpPhase.BEFORE and not self.is_timeout


class HttpAddress(NamedTuple):
    """The host and port to connect to, and whether to use TLS."""

    host: str
    port: int
    is_tls: bool


class HostNotAllowed(Exception):
    """The resolver refuses to connect to this host. The error text is the reason."""


async def addresses_of(host: str, port: int) -> Sequence[AddrInfoType]:
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


class HttpClient:
    """One client for the whole process: all providers share its connections. It connects on first use."""

    def __init__(
        self, *, connections: int = 100, tls: ssl.SSLContext | None = None, resolve: Resolve = addresses_of
    ) -> None:
        """Create the client. `resolve` may refuse hosts, for requests to URLs that users entered."""
        self._tls = tls
        self._resolve = resolve
        self.connections = connections  # The maximum number of requests in flight.
        self._free = asyncio.Semaphore(connections)
        self._idle: dict[HttpAddress, list[HttpConnection]] = {}
        self._connections: set[HttpConnection] = set()
        self._all_ended = asyncio.Event()
        self._sweeping: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_seconds: float = 30.0,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        may_begin: Callable[[], bool] | None = None,
    ) -> HttpResponse | Disconnect:
        """Send a request and wait for its response, at most `timeout_seconds` in total.

        `may_begin` is called once connected, before a byte is sent; if it returns False, nothing is sent.
        A POST is never repeated. A GET is repeated once if it met a connection that was being closed.
        """
        if self._is_closed:
            return Disconnect(HttpPhase.BEFORE, "the connections were closed")
        exchange: HttpExchange | None = None
        try:
            address, start = _request_start(method, url)
            head = _head(start, headers or {}, None if method in REPEATABLE_METHODS and not body else len(body))
            exchange = HttpExchange(head, body, max_response_bytes, is_head_only=method == "HEAD")
            async with asyncio.timeout(timeout_seconds), self._free:
                return await self._send(exchange, address, may_begin, is_repeatable=method in REPEATABLE_METHODS)
        except Exception as error:
            # Catch library errors too, because the caller must know how much of the request was sent.
            return _disconnect(exchange, error)

    def post(
        self,
        url: str,
        on_result: Callable[[HttpResponse | Disconnect], None],
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        may_begin: Callable[[], bool],
    ) -> SendHandle:
        """Send a POST request like `request`, but pass the result to a callback, possibly before this call returns.

        On an idle connection this needs no task, which saves half of a request's cost.
        """
        connection = self._ready_connection(url) if len(body) <= PIECE_BYTES and may_begin() else None
        if connection is None:
            request = self.request(
                "POST", url, headers=headers, body=body, timeout_seconds=timeout_seconds, may_begin=may_begin
            )
            return run_with_callback(request, on_result)
        address, start = _request_start("POST", url)
        try:
            exchange = HttpExchange(_head(start, headers, len(body)), body, MAX_RESPONSE_BYTES)
        except ValueError as error:
            self._release(connection, address)
            on_result(_disconnect(None, error))
            return OVER
        handle = _CallbackRequest(exchange, connection, partial(self._release, connection, address), on_result)
        connection.begin(exchange, handle.ended, timeout_seconds)
        return handle

    async def close(self) -> None:
        """Abort the requests in flight. Each caller gets a result that states how much of its request was sent."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in tuple(self._connections):
            connection.abort()
        if self._connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_ended.wait(), CLOSE_SECONDS)

    async def _send(
        self, exchange: HttpExchange, address: HttpAddress, may_begin: Callable[[], bool] | None, *, is_repeatable: bool
    ) -> HttpResponse:
        idle = self._idle_connection(address)
        if idle is not None:
            with suppress(*([NoResponse, ConnectionError] if is_repeatable else [])):
                return await self._exchange(idle, exchange, address, may_begin)
        return await self._exchange(await self._connect(address), exchange, address, may_begin)

    async def _exchange(
        self,
        connection: HttpConnection,
        exchange: HttpExchange,
        address: HttpAddress,
        may_begin: Callable[[], bool] | None,
    ) -> HttpResponse:
        if may_begin is not None and not may_begin():
            self._park(connection, address)
            raise _RequestWithheld
        try:
            return await connection.exchange(exchange)
        finally:
            self._park(connection, address)

    # Connections.

    def _idle_connection(self, address: HttpAddress) -> HttpConnection | None:
        """Return the most recently used connection, so that surplus connections stay idle and are closed."""
        idle = self._idle.get(address, [])
        now = asyncio.get_running_loop().time()
        while idle:
            connection = idle.pop()
            if connection.is_good and now - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    def _ready_connection(self, url: str) -> HttpConnection | None:
        """Return a connection that is ready now, and count it as in use."""
        if (
            self._free.locked()
            or self._is_closed
            or (connection := self._idle_connection(_request_start("POST", url)[0])) is None
        ):
            return None
        with suppress(StopIteration):
            self._free.acquire().send(None)  # A permit is available, so this does not wait.
        return connection

    def _release(self, connection: HttpConnection, address: HttpAddress) -> None:
        self._free.release()
        self._park(connection, address)

    def _park(self, connection: HttpConnection, address: HttpAddress) -> None:
        if not connection.is_good or self._is_closed:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(address, []).append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(IDLE_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        loop = asyncio.get_running_loop()
        for address, connections in list(self._idle.items()):
            for connection in connections:
                if not connection.is_good or loop.time() - connection.idle_since >= IDLE_SECONDS:
                    connection.abort()
            self._idle[address] = [connection for connection in connections if connection.is_good]
            if not self._idle[address]:
                del self._idle[address]
        if self._idle:
            self._sweeping = loop.call_later(IDLE_SECONDS / 2, self._sweep)

    def _forget(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)
        if self._is_closed and not self._connections:
            self._all_ended.set()

    async def _connect(self, address: HttpAddress) -> HttpConnection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await self._open(address)
        except TimeoutError as error:
            raise _NoConnection from error
        if self._is_closed:
            connection.abort()
            raise ConnectionAbortedError
        return connection

    async def _open(self, address: HttpAddress) -> HttpConnection:
        """Connect to the first address that responds. Each unreachable address delays this by a quarter of a second."""
        loop = asyncio.get_running_loop()
        if address.is_tls and self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        # Resolve numeric addresses too, because only a resolved address can be checked reliably.
        places = await self._resolve(address.host, address.port)
        connected = await start_connection(list(places), happy_eyeballs_delay=HEAD_START_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, connection = await loop.create_connection(
            lambda: HttpConnection(self._forget),
            sock=connected,
            ssl=self._tls if address.is_tls else None,
            server_hostname=address.host if address.is_tls else None,
        )
        if connection.is_good:  # An ended connection would never be removed from the set.
            self._connections.add(connection)
        return connection


class _CallbackRequest:
    """A request in flight on a reused connection, with a callback for its result."""

    __slots__ = ("_connection", "_exchange", "_on_result", "_release")

    def __init__(
        self,
        exchange: HttpExchange,
        connection: HttpConnection,
        release: Callable[[], None],
        on_result: Callable[[HttpResponse | Disconnect], None],
    ) -> None:
        self._exchange = exchange
        self._connection: HttpConnection | None = connection
        self._release = release
        self._on_result = on_result

    def ended(self, outcome: HttpResponse | Exception) -> None:
        self._connection = None
        self._release()
        self._on_result(outcome if isinstance(outcome, HttpResponse) else _disconnect(self._exchange, outcome))

    def cancel(self) -> None:
        if self._connection is not None:
            self._connection.withdraw()
            self._release()
            self._connection = None


class _RequestWithheld(Exception):
    """the request was withheld"""


class _NoConnection(TimeoutError):
    """no connection in time"""


class _InvalidUrl(ValueError):
    """the address is not a URL"""


@lru_cache(maxsize=256)
def _request_start(method: str, url: str) -> tuple[HttpAddress, str]:
    """Return the address and the header lines that all requests to this URL share."""
    try:
        parsed = URL(url)
        host, port = parsed.raw_host, parsed.port
    except ValueError as error:
        raise _InvalidUrl from error
    if parsed.scheme not in ("http", "https") or not host or port is None or parsed.user is not None:
        raise _InvalidUrl
    target = parsed.raw_path_qs or "/"
    named = f"[{host}]" if ":" in host else host
    shown = named if parsed.is_default_port() else f"{named}:{port}"
    if _BREAK.search(method + target + shown):
        raise _InvalidUrl
    return HttpAddress(
        host, port, parsed.scheme == "https"
    ), f"{method} {target} HTTP/1.1\r\nHost: {shown}\r\n{HEADERS}"


def _head(start: str, headers: Mapping[str, str], size: int | None) -> bytes:
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers) or "\0" in lines:
        raise ValueError("a header contains a line break")
    length = "" if size is None else f"Content-Length: {size}\r\n"
    return f"{start}{lines}{length}\r\n".encode()


# The first match applies. We use our own texts, because library texts may contain addresses and remote content.
CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (socket.gaierror, lazy_gettext("the host name was not found")),
    (ssl.SSLCertVerificationError, lazy_gettext("the certificate of the host is not trusted")),
    (ssl.SSLError, lazy_gettext("the TLS handshake failed")),
    (_NoConnection, lazy_gettext("no connection in time")),
    (TimeoutError, lazy_gettext("no response in time")),
    (NoResponse, lazy_gettext("the connection was closed without a response")),
    (IncompleteResponse, lazy_gettext("the response was incomplete")),
    (MalformedResponse, lazy_gettext("the response was not HTTP")),
    (_InvalidUrl, lazy_gettext("the address is not a URL")),
)


def _disconnect(exchange: HttpExchange | None, error: Exception) -> Disconnect:
    return Disconnect(exchange.phase if exchange else HttpPhase.BEFORE, _cause(error), isinstance(error, TimeoutError))


def _cause(error: Exception) -> str:
    if isinstance(error, HostNotAllowed):
        return str(error)
    for kind, words in CAUSES:
        if isinstance(error, kind):
            return words
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno else lazy_gettext("the connection was lost")
    return lazy_gettext("the request failed: {kind}", kind=type(error).__name__)
