"""A connection to an HTTP server: one request at a time, and it is always known how much of it was sent."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import NamedTuple, cast

import httptools
from multidict import CIMultiDict

# The last piece of a body is sent only after the others: until then the message cannot have arrived.
PIECE_BYTES = 64 * 1024
MAX_HEAD_BYTES = 64 * 1024


class HttpPhase(Enum):
    """How much of a request had been sent when it was interrupted."""

    BEFORE = auto()  # Nothing.
    DURING = auto()  # A part; the last byte cannot have arrived.
    AFTER = auto()  # All of it: the server may have acted on it.


class HttpResponse(NamedTuple):
    """A complete response; the body is limited in length."""

    status: int
    fields: Sequence[tuple[bytes, bytes]]  # Unparsed, because they are rarely needed.
    body: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        """Return a header; names are case-insensitive."""
        return CIMultiDict(
            [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in self.fields]
        )


class MalformedResponse(Exception):
    """the response was not HTTP"""


class NoResponse(Exception):
    """the connection was closed without a response"""


class IncompleteResponse(Exception):
    """the response was incomplete"""


class HttpExchange:
    """One request in flight. `phase` never understates how much was sent."""

    __slots__ = ("body", "head", "is_head_only", "max_response_bytes", "phase")

    def __init__(self, head: bytes, body: bytes, max_response_bytes: int, *, is_head_only: bool = False) -> None:
        self.head = head
        self.body = body
        self.max_response_bytes = max_response_bytes
        self.is_head_only = is_head_only
        self.phase = HttpPhase.BEFORE


# Receives the result of an exchange: called once, and never during another call of the connection.
Ended = Callable[["HttpResponse | Exception"], None]


class HttpConnection(asyncio.Protocol):
    """Usable for the next request only if the last one ended cleanly and no bytes came since."""

    def __init__(self, closed: Callable[["HttpConnection"], None]) -> None:
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._exchange: HttpExchange | None = None
        self._ended: Ended | None = None  # None if nobody waits for a response.
        self._outcome: HttpResponse | Exception | None = None  # Known, but not yet passed on.
        self._room: asyncio.Future[None] | None = None  # Set while the writer waits for buffer space.
        self._is_full = False
        self._deadline = self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.is_good = True
        self.idle_since = 0.0

    def begin(self, exchange: HttpExchange, ended: Ended, seconds: float) -> None:
        """Send a request in one piece. `ended` receives the result, and `trip.phase` says how far it got."""
        self._expect(exchange, ended)
        self._allow(seconds)
        try:
            self._write(exchange.head + exchange.body, is_last=True)
        except ConnectionResetError as error:
            self._fail(error)
            self._loop.call_soon(self._tell)

    async def exchange(self, exchange: HttpExchange) -> HttpResponse:
        """Send a request; raise if no complete response comes. `trip.phase` says how far it got."""
        answer: asyncio.Future[HttpResponse] = self._loop.create_future()
        self._expect(exchange, partial(_resolve, answer))
        try:
            if len(exchange.body) <= PIECE_BYTES:
                self._write(exchange.head + exchange.body, is_last=True)
            else:
                await self._write_in_pieces(exchange, answer)
            return await answer
        except BaseException:
            self.is_good = False
            raise
        finally:
            if exchange.phase is not HttpPhase.AFTER:
                self.is_good = False
            self._exchange = self._ended = None

    def withdraw(self) -> None:
        """Stop waiting for the response. What was sent stays sent, and the connection cannot be reused."""
        self._ended = None
        self.abort()

    def abort(self) -> None:
        self.is_good = False
        self._transport.abort()

    # Writing.

    async def _write_in_pieces(self, exchange: HttpExchange, answer: asyncio.Future[HttpResponse]) -> None:
        body = memoryview(exchange.body)
        last = (len(body) - 1) // PIECE_BYTES * PIECE_BYTES
        self._write(exchange.head, is_last=False)
        for start in range(0, last + 1, PIECE_BYTES):
            if self._is_full:
                self._room = self._loop.create_future()
                await asyncio.wait((self._room, answer), return_when=asyncio.FIRST_COMPLETED)
                self._room = None
            if answer.done():
                return  # It responded before the rest was sent.
            self._write(body[start : start + PIECE_BYTES], is_last=start == last)

    def _write(self, piece: bytes | memoryview, *, is_last: bool) -> None:
        assert self._exchange is not None
        if not self.is_good or self._transport.is_closing():
            raise ConnectionResetError
        # The transport may send buffered bytes at any time, even after it was closed.
        self._exchange.phase = HttpPhase.AFTER if is_last else HttpPhase.DURING
        self._transport.write(piece)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    # Reading.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._ended is None:
            # Unrequested bytes must not be taken for the response to the next request.
            self.abort()
            return
        self._has_begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, httptools.HttpParserCallbackError):
            self._fail(MalformedResponse())
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._fail(MalformedResponse())
        if self._outcome is not None:
            self._tell()

    def eof_received(self) -> bool:
        """The end of the connection ends a response without a length."""
        if self._ended is not None and self._has_head and not self._tells_length():
            self._complete()
            self._tell()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fail(error or (IncompleteResponse() if self._ended is not None and self._has_begun else NoResponse()))
        self._tell()
        self.resume_writing()
        self._closed(self)

    def _expect(self, exchange: HttpExchange, ended: Ended) -> None:
        self._exchange = exchange
        self._ended = ended
        self._outcome = None
        self._parser = httptools.HttpResponseParser(self)
        self._fields: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._wanted = exchange.max_response_bytes
        self._head_bytes = 0
        self._has_begun = self._has_head = False

    def _complete(self) -> None:
        if self._outcome is None:
            self._outcome = HttpResponse(self._parser.get_status_code(), self._fields, b"".join(self._body))

    def _fail(self, error: Exception) -> None:
        self.is_good = False
        if self._outcome is None:
            self._outcome = error

    def _tell(self) -> None:
        """Called outside the parser, so that an error in a callback is not taken for a parse error."""
        ended, outcome, self._ended = self._ended, self._outcome, None
        if ended is not None and outcome is not None:
            ended(outcome)

    def _tells_length(self) -> bool:
        return not {name.lower() for name, _ in self._fields}.isdisjoint((b"content-length", b"transfer-encoding"))

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._outcome is not None:
            self.is_good = False  # A second response to one request.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._outcome is None:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            self._fields.clear()  # An informational response: the final one follows.
            return
        self._has_head = True
        if not self._parser.should_keep_alive():
            self.is_good = False
        if self._exchange is not None and self._exchange.is_head_only:
            self.is_good = False  # The parser waits for the announced body.
            self._complete()

    def on_body(self, piece: bytes) -> None:
        if self._wanted <= 0:
            return
        self._body.append(piece[: self._wanted])
        self._wanted -= len(piece)
        if self._wanted <= 0:
            self.is_good = False  # The rest is not read.
            self._complete()

    def on_message_complete(self) -> None:
        if self._has_head:
            self._complete()

    # Timeouts.

    def _allow(self, seconds: float) -> None:
        """Restart the timeout. One timer serves all requests; it moves only if it would fire too late."""
        self._deadline = deadline = self._loop.time() + seconds
        if self._timer is None or deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._start_timer()

    def _start_timer(self) -> None:
        self._timer_at = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._look_at_the_clock)

    def _look_at_the_clock(self) -> None:
        self._timer = None
        if self._ended is None:
            return
        # The clock of uvloop stands still within an iteration and counts whole milliseconds.
        if self._deadline - self._loop.time() > 0.001:
            self._start_timer()
        else:
            self._fail(TimeoutError())
            self._tell()


def _resolve(answer: asyncio.Future[HttpResponse], outcome: HttpResponse | Exception) -> None:
    if answer.done():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
