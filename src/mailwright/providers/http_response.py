"""Read the response to an HTTP request, with limits on its size."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import httptools
from multidict import CIMultiDict

MAX_HEAD_BYTES = 64 * 1024


class HttpResponse(NamedTuple):
    """A complete response; the body is limited in length."""

    status: int
    fields: Sequence[tuple[bytes, bytes]]  # Not decoded, because they are rarely needed.
    body: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields by name; names are case-insensitive."""
        return CIMultiDict(
            [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in self.fields]
        )


class MalformedResponse(Exception):
    """the response was not HTTP"""


class NoResponse(Exception):
    """the connection was closed without a response"""


class IncompleteResponse(Exception):
    """the response was incomplete"""


class HttpResponseReader:
    """Reads the responses of one connection; the parser calls the methods `on_…`.

    One reader serves all responses of a connection. Reader and parser refer to each other, so a new pair for each
    response would have to be freed by the garbage collector.
    """

    __slots__ = (
        "_body",
        "_body_bytes_left",
        "_fields",
        "_has_head",
        "_head_bytes",
        "_is_head_only",
        "_parser",
        "has_begun",
        "is_reusable",
        "outcome",
    )

    _parser: httptools.HttpResponseParser
    _fields: list[tuple[bytes, bytes]]
    _body: list[bytes]

    def __init__(self) -> None:
        self.outcome: HttpResponse | Exception | None = None  # None until the response is complete or has failed.
        self.is_reusable = True  # The connection can be used for another request.
        self.has_begun = False

    def expect(self, max_body_bytes: int, *, is_head_only: bool) -> None:
        """Prepare for the response to the next request."""
        self._parser = httptools.HttpResponseParser(self)
        self._fields = []
        self._body = []
        self._body_bytes_left = max_body_bytes
        self._head_bytes = 0
        self._is_head_only = is_head_only
        self._has_head = self.has_begun = False
        self.outcome = None

    @property
    def ends_with_connection(self) -> bool:
        """Whether only the end of the connection can end the response, because its head states no length."""
        if not self._has_head:
            return False
        return {name.lower() for name, _ in self._fields}.isdisjoint((b"content-length", b"transfer-encoding"))

    def feed(self, data: bytes) -> None:
        self.has_begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, httptools.HttpParserCallbackError):
            self.fail(MalformedResponse())
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.fail(MalformedResponse())

    def complete(self) -> None:
        """Set the outcome to the response as read so far, unless there is an outcome already."""
        if self.outcome is None:
            self.outcome = HttpResponse(self._parser.get_status_code(), self._fields, b"".join(self._body))

    def fail(self, error: Exception) -> None:
        """Set the outcome to an error, unless there is an outcome already."""
        self.is_reusable = False
        if self.outcome is None:
            self.outcome = error

    def on_message_begin(self) -> None:
        if self.outcome is not None:
            self.is_reusable = False  # The server sent a second response to one request.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.outcome is None:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            self._fields.clear()  # This is an informational response; the final response follows.
            return
        self._has_head = True
        if not self._parser.should_keep_alive():
            self.is_reusable = False
        if self._is_head_only:
            self.is_reusable = False  # The parser waits for the announced body.
            self.complete()

    def on_body(self, piece: bytes) -> None:
        if self._body_bytes_left <= 0:
            return
        self._body.append(piece[: self._body_bytes_left])
        self._body_bytes_left -= len(piece)
        if self._body_bytes_left <= 0:
            self.is_reusable = False  # The rest is not read.
            self.complete()

    def on_message_complete(self) -> None:
        if self._has_head:
            self.complete()
