"""A line to an HTTP server: one request at a time, and always known how much of it has left."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import NamedTuple, cast

import httptools
from multidict import CIMultiDict

# The last piece of a body leaves only when the others have: until then the mail cannot have arrived.
PIECE_BYTES = 64 * 1024
MOST_HEAD_BYTES = 64 * 1024


class HttpPhase(Enum):
    """How much of a request had left us when it was cut."""

    BEFORE = auto()  # nothing
    DURING = auto()  # some of it; the last byte cannot have arrived
    AFTER = auto()  # all of it: the other side may have acted on it


class HttpResponse(NamedTuple):
    """A whole answer, its body cut to what is worth reading."""

    status: int
    fields: Sequence[tuple[bytes, bytes]]  # as they came; hardly an answer has one that anybody asks for
    body: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in any case."""
        return CIMultiDict(
            [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in self.fields]
        )


class MalformedResponse(Exception):
    """the answer was not HTTP"""


class NoResponse(Exception):
    """the connection was closed without an answer"""


class IncompleteResponse(Exception):
    """the answer was cut short"""


class HttpExchange:
    """One request on its way. `phase` never says less than what happened."""

    __slots__ = ("body", "head", "is_head_only", "most_answer_bytes", "phase")

    def __init__(self, head: bytes, body: bytes, most_answer_bytes: int, *, is_head_only: bool = False) -> None:
        self.head = head
        self.body = body
        self.most_answer_bytes = most_answer_bytes
        self.is_head_only = is_head_only
        self.phase = HttpPhase.BEFORE


# What became of a trip: called once, and never while something is being asked of the line.
Ended = Callable[["HttpResponse | Exception"], None]


class HttpConnection(asyncio.Protocol):
    """Good for the next request only if the last one ended cleanly and nothing was said since."""

    def __init__(self, closed: Callable[["HttpConnection"], None]) -> None:
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._trip: HttpExchange | None = None
        self._ended: Ended | None = None  # nobody waits for an answer where there is none
        self._outcome: HttpResponse | Exception | None = None  # found, and not yet told
        self._room: asyncio.Future[None] | None = None  # somebody waits until more can be written
        self._is_full = False
        self._deadline = self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.is_good = True
        self.idle_since = 0.0

    def begin(self, trip: HttpExchange, ended: Ended, seconds: float) -> None:
        """A request that leaves in one piece. `ended` is told what came of it, and `trip.phase` how far it got."""
        self._expect(trip, ended)
        self._allow(seconds)
        try:
            self._write(trip.head + trip.body, is_last=True)
        except ConnectionResetError as error:
            self._fail(error)
            self._loop.call_soon(self._tell)

    async def exchange(self, trip: HttpExchange) -> HttpResponse:
        """Raises when no whole answer comes; `trip.phase` tells how far the request got."""
        answer: asyncio.Future[HttpResponse] = self._loop.create_future()
        self._expect(trip, partial(_resolve, answer))
        try:
            if len(trip.body) <= PIECE_BYTES:
                self._write(trip.head + trip.body, is_last=True)
            else:
                await self._write_in_pieces(trip, answer)
            return await answer
        except BaseException:
            self.is_good = False
            raise
        finally:
            if trip.phase is not HttpPhase.AFTER:
                self.is_good = False
            self._trip = self._ended = None

    def withdraw(self) -> None:
        """Nobody waits for the answer any more. What has left has left; the line is of no use after that."""
        self._ended = None
        self.abort()

    def abort(self) -> None:
        self.is_good = False
        self._transport.abort()

    # Writing.

    async def _write_in_pieces(self, trip: HttpExchange, answer: asyncio.Future[HttpResponse]) -> None:
        body = memoryview(trip.body)
        last = (len(body) - 1) // PIECE_BYTES * PIECE_BYTES
        self._write(trip.head, is_last=False)
        for start in range(0, last + 1, PIECE_BYTES):
            if self._is_full:
                self._room = self._loop.create_future()
                await asyncio.wait((self._room, answer), return_when=asyncio.FIRST_COMPLETED)
                self._room = None
            if answer.done():
                return  # it did not wait for the rest
            self._write(body[start : start + PIECE_BYTES], is_last=start == last)

    def _write(self, piece: bytes | memoryview, *, is_last: bool) -> None:
        assert self._trip is not None
        if not self.is_good or self._transport.is_closing():
            raise ConnectionResetError
        # What a transport has taken may leave at any time, even after it was told to close.
        self._trip.phase = HttpPhase.AFTER if is_last else HttpPhase.DURING
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
            # Nobody asked. Whatever this answers, it must not be taken for the answer to the next request.
            self.abort()
            return
        self._has_begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, httptools.HttpParserCallbackError):
            self._fail(MalformedResponse())
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._fail(MalformedResponse())
        if self._outcome is not None:
            self._tell()

    def eof_received(self) -> bool:
        """The end of the line ends an answer that did not tell its length."""
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

    def _expect(self, trip: HttpExchange, ended: Ended) -> None:
        self._trip = trip
        self._ended = ended
        self._outcome = None
        self._parser = httptools.HttpResponseParser(self)
        self._fields: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._wanted = trip.most_answer_bytes
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
        """Outside of the parser: what is thought of an answer is no fault of its form."""
        ended, outcome, self._ended = self._ended, self._outcome, None
        if ended is not None and outcome is not None:
            ended(outcome)

    def _tells_length(self) -> bool:
        return not {name.lower() for name, _ in self._fields}.isdisjoint((b"content-length", b"transfer-encoding"))

    # What the parser found.

    def on_message_begin(self) -> None:
        if self._outcome is not None:
            self.is_good = False  # a second answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._outcome is None:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            self._fields.clear()  # there is more to come
            return
        self._has_head = True
        if not self._parser.should_keep_alive():
            self.is_good = False
        if self._trip is not None and self._trip.is_head_only:
            self.is_good = False  # the parser waits for the body that it was told of
            self._complete()

    def on_body(self, piece: bytes) -> None:
        if self._wanted <= 0:
            return
        self._body.append(piece[: self._wanted])
        self._wanted -= len(piece)
        if self._wanted <= 0:
            self.is_good = False  # the rest is left on the line
            self._complete()

    def on_message_complete(self) -> None:
        if self._has_head:
            self._complete()

    # Patience.

    def _allow(self, seconds: float) -> None:
        """From now on, so long. One timer serves all requests of a line: it is moved only when it is too late."""
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
