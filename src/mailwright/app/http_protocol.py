"""The HTTP protocol of the server, which closes connections that send a request too slowly.

Without this, a client that sends half of its headers, or a byte of its body every few seconds, would keep its
connection open for ever.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mailwright.ops.logs import logger

# Timeout for the headers, from the connection or the first byte of a request to the end of its headers.
HEAD_SECONDS: Final = 20.0
# While a body arrives, at least this many bytes must come in every interval.
BODY_SECONDS: Final = 20.0
MIN_BODY_BYTES: Final = 10 * 1024
MAX_HEAD_BYTES: Final = 64 * 1024

log = logger(__name__)


def _response(status: str, text: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    return f"{head}content-length: {len(text)}\r\n\r\n{text}".encode()


_TIMEOUT: Final = _response("408 Request Timeout", "The request was not sent fast enough.")
_HEAD_TOO_LARGE: Final = _response("431 Request Header Fields Too Large", "The request headers are too long.")


class TimedHttpProtocol(HttpToolsProtocol):
    """Limits the time and size of request headers, and requires a minimum rate for bodies."""

    head_seconds = HEAD_SECONDS
    body_seconds = BODY_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._is_reading_head = True
        self._head_bytes = 0
        self._body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data) if self._is_reading_head else 0
        super().data_received(data)
        if self._is_reading_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(_HEAD_TOO_LARGE, "headers too long")

    def on_message_begin(self) -> None:
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_reading_head = False
        self._head_bytes = self._body_bytes = 0
        super().on_headers_complete()
        self._cancel()
        self._deadline = self.loop.call_later(self.body_seconds, self._check_body)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._cancel()
        self._is_reading_head = True
        super().on_message_complete()

    def _await_head(self) -> None:
        self._cancel()
        self._deadline = self.loop.call_later(self.head_seconds, self._refuse, _TIMEOUT, "slow headers")

    def _check_body(self) -> None:
        """Close the connection if the body arrives too slowly, unless the route has stopped reading it."""
        if self._body_bytes < MIN_BODY_BYTES and not self.flow.read_paused:
            self._refuse(_TIMEOUT, "slow body")
            return
        self._body_bytes = 0
        self._deadline = self.loop.call_later(self.body_seconds, self._check_body)

    def _refuse(self, response: bytes, reason: str) -> None:
        self._cancel()
        if self.transport.is_closing():
            return
        log.info("request_refused", reason=reason, client=self.client[0] if self.client else None)
        # A response that has begun cannot be replaced.
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(response)
        self.transport.close()

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
