"""A connection to an HTTP server, which sends one request at a time and tracks how much of it was sent."""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import cast

from mailwright.providers.http_response import HttpResponse, HttpResponseReader, IncompleteResponse, NoResponse

# A body is sent in pieces of this size, the last one only after all others. Until then, the server cannot have the
# whole message.
PIECE_BYTES = 64 * 1024


class HttpPhase(Enum):
    """How much of a request had been sent when it was interrupted."""

    BEFORE = auto()  # Nothing.
    DURING = auto()  # Only a part; the last byte cannot have arrived.
    AFTER = auto()  # All of it, so the server may have processed it.


class HttpExchange:
    """One request in flight. `phase` never understates how much was sent."""

    __slots__ = ("body", "head", "is_head_only", "max_response_bytes", "phase")

    def __init__(self, head: bytes, body: bytes, max_response_bytes: int, *, is_head_only: bool = False) -> None:
        self.head = head
        self.body = body
        self.max_response_bytes = max_response_bytes
        self.is_head_only = is_head_only
        self.phase = HttpPhase.BEFORE


# Receives the result of an exchange. It is called once, and never from within another method of the connection.
Ended = Callable[[HttpResponse | Exception], None]


class HttpConnection(asyncio.Protocol):
    """One connection. It is reusable only if the last request ended cleanly and no bytes arrived after it."""

    def __init__(self, closed: Callable[["HttpConnection"], None]) -> None:
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._exchange: HttpExchange | None = None
        self._ended: Ended | None = None  # None if nobody waits for a response.
        self._reader = HttpResponseReader()
        self._room: asyncio.Future[None] | None = None  # Set while the writer waits for buffer space.
        self._is_full = False
        self._deadline = self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.is_good = True
        self.idle_since = 0.0

    def begin(self, exchange: HttpExchange, ended: Ended, seconds: float) -> None:
        """Send a request in one piece. `ended` receives the result, and `exchange.phase` states how much was sent."""
        self._expect(exchange, ended)
        self._allow(seconds)
        try:
            self._write(exchange.head + exchange.body, is_last=True)
        except ConnectionResetError as error:
            self._fail(error)
            self._loop.call_soon(self._report)

    async def exchange(self, exchange: HttpExchange) -> HttpResponse:
        """Send a request; raise if no complete response comes. `exchange.phase` states how much was sent."""
        response: asyncio.Future[HttpResponse] = self._loop.create_future()
        self._expect(exchange, partial(_resolve, response))
        try:
            if len(exchange.body) <= PIECE_BYTES:
                self._write(exchange.head + exchange.body, is_last=True)
            else:
                await self._write_in_pieces(exchange, response)
            return await response
        except BaseException:
            self.is_good = False
            raise
        finally:
            if exchange.phase is not HttpPhase.AFTER:
                self.is_good = False
            self._exchange = self._ended = None

    def withdraw(self) -> None:
        """Stop waiting for the response. Bytes already sent cannot be recalled, and the connection cannot be reused."""
        self._ended = None
        self.abort()

    def abort(self) -> None:
        self.is_good = False
        self._transport.abort()

    # Writing.

    async def _write_in_pieces(self, exchange: HttpExchange, response: asyncio.Future[HttpResponse]) -> None:
        body = memoryview(exchange.body)
        last = (len(body) - 1) // PIECE_BYTES * PIECE_BYTES
        self._write(exchange.head, is_last=False)
        for start in range(0, last + 1, PIECE_BYTES):
            if self._is_full:
                self._room = self._loop.create_future()
                await asyncio.wait((self._room, response), return_when=asyncio.FIRST_COMPLETED)
                self._room = None
            if response.done():
                return  # The server responded before the rest was sent.
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
            # Unsolicited bytes must not be mistaken for the response to the next request.
            self.abort()
            return
        reader = self._reader
        reader.feed(data)
        if not reader.is_reusable:
            self.is_good = False
        if reader.outcome is not None:
            self._report()

    def eof_received(self) -> bool:
        """Complete a response without a length, which ends when the connection ends."""
        if self._ended is not None and self._reader.ends_with_connection:
            self._reader.complete()
            self._report()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fail(
            error or (IncompleteResponse() if self._ended is not None and self._reader.has_begun else NoResponse())
        )
        self._report()
        self.resume_writing()
        self._closed(self)

    def _expect(self, exchange: HttpExchange, ended: Ended) -> None:
        self._exchange = exchange
        self._ended = ended
        self._reader.expect(exchange.max_response_bytes, is_head_only=exchange.is_head_only)

    def _fail(self, error: Exception) -> None:
        self.is_good = False
        self._reader.fail(error)

    def _report(self) -> None:
        """Report the outcome outside of the parser, so that an error in a callback does not look like a parse error."""
        ended, outcome, self._ended = self._ended, self._reader.outcome, None
        if ended is not None and outcome is not None:
            ended(outcome)

    # Timeouts.

    def _allow(self, seconds: float) -> None:
        """Restart the timeout. One timer serves all requests; it is rescheduled only if it would fire too late."""
        self._deadline = deadline = self._loop.time() + seconds
        if self._timer is None or deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._start_timer()

    def _start_timer(self) -> None:
        self._timer_at = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._ended is None:
            return
        # uvloop's clock has millisecond resolution and does not advance within an iteration.
        if self._deadline - self._loop.time() > 0.001:
            self._start_timer()
        else:
            self._fail(TimeoutError())
            self._report()


def _resolve(response: asyncio.Future[HttpResponse], outcome: HttpResponse | Exception) -> None:
    if response.done():
        return
    if isinstance(outcome, Exception):
        response.set_exception(outcome)
    else:
        response.set_result(outcome)
