"""A line to an HTTP server: one request at a time, and always known how much of it has left."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

import httptools
from multidict import CIMultiDict

# The last piece of a body leaves only when the others have: until then the mail cannot have arrived.
PIECE_BYTES = 64 * 1024
MOST_HEAD_BYTES = 64 * 1024


class Phase(Enum):
    """How much of a request had left us when it was cut."""

    BEFORE = auto()  # nothing
    DURING = auto()  # some of it; the last byte cannot have arrived
    AFTER = auto()  # all of it: the other side may have acted on it


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer, its body cut to what is worth reading."""

    status: int
    headers: Mapping[str, str]  # names in any case
    body: bytes


class NotHttp(Exception):
    """the answer was not HTTP"""


class NoAnswer(Exception):
    """the connection was closed without an answer"""


class CutShort(Exception):
    """the answer was cut short"""


class Trip:
    """One request on its way. `phase` never says less than what happened."""

    __slots__ = ("body", "head", "is_head_only", "most_answer_bytes", "phase")

    def __init__(self, head: bytes, body: bytes, most_answer_bytes: int, *, is_head_only: bool) -> None:
        self.head = head
        self.body = body
        self.most_answer_bytes = most_answer_bytes
        self.is_head_only = is_head_only
        self.phase = Phase.BEFORE


class Line(asyncio.Protocol):
    """Good for the next request only if the last one ended cleanly and nothing was said since."""

    def __init__(self, ended: Callable[["Line"], None]) -> None:
        self._ended = ended
        self._trip: Trip | None = None
        self._answer: asyncio.Future[Reply] | None = None
        self._room: asyncio.Future[None] | None = None  # somebody waits until more can be written
        self._is_full = False
        self.is_good = True
        self.idle_since = 0.0

    async def exchange(self, trip: Trip) -> Reply:
        """Raises when no whole answer comes; `trip.phase` tells how far the request got."""
        self._trip = trip
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self._expect()
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
            if trip.phase is not Phase.AFTER:
                self.is_good = False
            self._trip = self._answer = None

    def abort(self) -> None:
        self.is_good = False
        self._transport.abort()

    # Writing.

    async def _write_in_pieces(self, trip: Trip, answer: asyncio.Future[Reply]) -> None:
        body = memoryview(trip.body)
        last = (len(body) - 1) // PIECE_BYTES * PIECE_BYTES
        self._write(trip.head, is_last=False)
        for start in range(0, last + 1, PIECE_BYTES):
            if self._is_full:
                self._room = asyncio.get_running_loop().create_future()
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
        self._trip.phase = Phase.AFTER if is_last else Phase.DURING
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
        if self._answer is None or self._answer.done():
            # Nobody asked. Whatever this answers, it must not be taken for the answer to the next request.
            self.abort()
            return
        self._has_begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, httptools.HttpParserCallbackError):
            self._fail(NotHttp())
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._fail(NotHttp())

    def eof_received(self) -> bool:
        """The end of the line ends an answer that did not tell its length."""
        tells_length = self._answer is None or "Content-Length" in self._headers or "Transfer-Encoding" in self._headers
        if not tells_length and self._has_head:
            self._complete()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or (CutShort() if self._answer is not None and self._has_begun else NoAnswer()))
        self.resume_writing()
        self._ended(self)

    def _expect(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._body: list[bytes] = []
        self._wanted = self._trip.most_answer_bytes if self._trip is not None else 0
        self._head_bytes = 0
        self._has_begun = self._has_head = False

    def _complete(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Reply(self._parser.get_status_code(), self._headers, b"".join(self._body)))

    def _fail(self, error: Exception) -> None:
        self.is_good = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # What the parser found.

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.done():
            self.is_good = False  # a second answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._answer is not None and not self._answer.done():
            self._headers.add(name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            self._headers.clear()  # there is more to come
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
