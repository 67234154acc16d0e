"""The transport of an SMTP session: it writes bytes, parses replies and has one timer, but does not handle messages."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from mailwright.providers.smtp.replies import GarbledReply, ReplyReader, SmtpReply
from mailwright.providers.smtp.responses import SessionEnd


class TransportListener(Protocol):
    def good_replies_received(self, data: bytes) -> bool:
        """Handle these bytes if they are exactly the expected good replies. Return whether they were."""

    def reply_received(self, reply: SmtpReply, following: SmtpReply | None = None) -> None:
        """Handle a reply. `following` is the next reply if both arrived together."""

    def patience(self) -> float:
        """Return the seconds to wait for the next reply."""

    def timed_out(self) -> None: ...

    def writable_again(self) -> None:
        """Continue writing, because the buffer has space again."""

    def connection_ended(self, ending: SessionEnd, detail: str) -> None:
        """Handle the end of the connection. Called once."""


class SmtpTransport(asyncio.Protocol):
    __slots__ = (
        "_deadline",
        "_loop",
        "_reader",
        "_timer",
        "_timer_at",
        "_transport",
        "closed",
        "has_ended",
        "is_full",
        "listener",
        "write",
    )

    _transport: asyncio.Transport
    write: Callable[[bytes | memoryview], None]

    def __init__(self, listener: TransportListener) -> None:
        self.listener = listener
        self.is_full = False  # True while the transport's buffer is full.
        self.has_ended = False
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._reader = ReplyReader()
        self._deadline = 0.0
        self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_silent(self) -> bool:
        """Whether all received bytes were parsed."""
        return self._reader.is_empty

    @property
    def local_address(self) -> str:
        return str(self._transport.get_extra_info("sockname")[0])

    @property
    def tls_version(self) -> str | None:
        tls = self._transport.get_extra_info("ssl_object")
        return tls.version() if tls else None

    def allow(self, seconds: float) -> None:
        """Restart the timeout. One timer serves all deadlines; it is rescheduled only if the next one is earlier."""
        self._deadline = deadline = self._loop.time() + seconds
        if self._timer is None or deadline < self._timer_at:
            self._stop_timer()
            self._start_timer()

    async def encrypt(self, context: ssl.SSLContext, host: str) -> None:
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        if transport is None:  # The server disconnected right after the handshake.
            raise ConnectionResetError("the connection was lost in the TLS handshake")
        self._use(transport)

    def end(self, ending: SessionEnd, detail: str) -> None:
        """Close at once, even if messages are in flight."""
        if self.has_ended:
            return
        self.has_ended = True
        self._stop_timer()
        self._transport.abort()
        self.listener.connection_ended(ending, detail)

    def close(self) -> None:
        """Close gracefully: written bytes are still sent, and TLS is shut down properly."""
        if self.has_ended:
            return
        self.has_ended = True
        self._stop_timer()
        # A server that does not confirm the TLS shutdown would keep the socket open for half a minute.
        self._timer = self._loop.call_later(1.0, self._transport.abort)
        self._transport.close()
        self.listener.connection_ended(SessionEnd.LOST, "closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._use(cast("asyncio.Transport", transport))  # uvloop's transports are not subclasses of it.

    def _use(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.write = transport.write

    def data_received(self, data: bytes) -> None:
        if self.has_ended:
            return
        if self._reader.is_empty and self.listener.good_replies_received(data):
            if not self.has_ended:
                self.allow(self.listener.patience())
            return
        reply = None
        try:
            for following in self._reader.feed(data):
                if reply is not None:
                    self.listener.reply_received(reply, following)
                if self.has_ended:
                    return
                reply = following
        except GarbledReply as error:
            self._receive_last(reply)
            self.end(SessionEnd.GARBLED, str(error))
            return
        self._receive_last(reply)

    def _receive_last(self, reply: SmtpReply | None) -> None:
        """Handle the last complete reply of the received bytes."""
        if reply is None:
            return
        self.listener.reply_received(reply)
        # Only a complete reply restarts the timeout; a server that trickles bytes makes no progress.
        if not self.has_ended:
            self.allow(self.listener.patience())

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        if not self.has_ended:
            self.has_ended = True
            detail = f"the connection was lost: {error}" if error else "the server closed the connection"
            self.listener.connection_ended(SessionEnd.LOST, detail)
        self.mark_closed()

    def mark_closed(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        if not self.has_ended:
            self.listener.writable_again()

    def _check_timeout(self) -> None:
        self._timer = None
        # uvloop's clock has millisecond resolution and does not advance within an iteration.
        if self._deadline - self._loop.time() > 0.001:
            self._start_timer()
        else:
            self.listener.timed_out()

    def _start_timer(self) -> None:
        self._timer_at = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._check_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
