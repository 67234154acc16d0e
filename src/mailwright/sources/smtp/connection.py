"""One SMTP connection: read, reply, and enforce the timeouts."""

import asyncio
import ssl
from typing import Final, Protocol

from mailwright.ops.logs import logger
from mailwright.sources.smtp import replies
from mailwright.sources.smtp.framing import Framing, Memory, Refusal
from mailwright.sources.smtp.session import SubmissionSession
from mailwright.sources.smtp.steps import Next, Step

log = logger(__name__)

# A client must sign in within this time.
SIGN_IN_SECONDS: Final = 30.0
# The TLS handshake after STARTTLS must end within this time.
HANDSHAKE_SECONDS: Final = 15.0
# A client that does not read its last replies is disconnected after this time.
CLOSE_SECONDS: Final = 10.0
# After an early close, bytes of the client are read and dropped for this time, unless it closes the connection first.
LINGER_SECONDS: Final = 2.0
# The longest silence between commands (RFC 5321, 4.5.3.2.7).
IDLE_SECONDS: Final = 300.0
# While an email arrives, at least this many bytes must come in every interval.
DATA_SECONDS: Final = 30.0
MIN_DATA_BYTES: Final = 10 * 1024
# The bytes that are read ahead while the previous email is stored. With more, reading pauses.
MAX_AHEAD_BYTES: Final = 256 * 1024


class Host(Memory, Protocol):
    """The interface of the server that its connections use."""

    max_bytes: int
    tls: ssl.SSLContext | None
    greeting: bytes

    def open(
        self, connection: "SubmissionConnection", address: str, *, is_encrypted: bool
    ) -> SubmissionSession | bytes:
        """Return the session of a new connection, or the reply that refuses it."""
        ...

    def closed(self, connection: "SubmissionConnection") -> None: ...


class SubmissionConnection(asyncio.Protocol):
    def __init__(self, host: Host) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._framing = Framing(host.max_bytes, host)
        self._transport: asyncio.Transport | None = None  # None when nothing more is written to the client.
        self._abortable: asyncio.Transport | None = None  # None when the connection has ended.
        self._session: SubmissionSession | None = None
        self._mode = Next.COMMAND
        self._chunk_bytes = 0
        self._work: asyncio.Task[Step] | None = None
        self._is_blocked = False  # True while the client does not read its replies.
        self._is_stopping = False
        self._has_eof = False  # True when the client sends nothing more. It may still wait for replies.
        self._received = 0  # Bytes since the timer was set.
        self._email_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        peer = transport.get_extra_info("peername")
        is_encrypted = transport.get_extra_info("ssl_object") is not None
        opened = self._host.open(self, str(peer[0]) if peer else "", is_encrypted=is_encrypted)
        if isinstance(opened, bytes):
            transport.write(opened)
            transport.close()
            return
        self._transport = self._abortable = transport
        self._session = opened
        transport.write(self._host.greeting)
        self._timer = self._loop.call_later(SIGN_IN_SECONDS, self._check_time)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._framing.feed(data)
            self._received += len(data)
            self._process()

    def eof_received(self) -> bool:
        """Keep the connection until every command that has arrived is answered."""
        self._has_eof = True
        if self._transport is None or not (self._work is not None or self._is_blocked):
            return False
        return self._transport.can_write_eof()  # TLS has no half-open connections.

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything. Called again if the event loop reports the end of an aborted connection."""
        self._transport = self._abortable = None
        if self._timer is not None:
            self._timer.cancel()
        self._framing.free()
        if self._session is not None:
            self._session.close()
        self._host.closed(self)

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._process()

    def stop(self) -> None:
        """Close the connection, or let an email that is being stored finish first."""
        self._is_stopping = True
        if self._work is None:
            self._write(replies.STOPPING, closes=True)

    def abort(self) -> None:
        """End the connection now. During a TLS handshake, uvloop may never report that a connection was lost."""
        if self._abortable is not None:
            self._abortable.abort()
        self.connection_lost(None)

    def _process(self, first: bytes = b"") -> None:
        """Interpret the received bytes, and write the replies of all commands at once, after `first`."""
        written = [first] if first else []
        while self._work is None and not self._is_blocked and self._mode is not Next.CLOSE:
            step = self._next_step()
            if step is None:
                break
            self._begin(step, written)
        if written:
            self._write(b"".join(written), closes=self._mode is Next.CLOSE)
        if self._has_eof and self._work is None and not self._is_blocked:
            self._write(b"", closes=True)
        self._limit_reading()

    def _next_step(self) -> Step | None:
        """Return the next step; None if its bytes have not all arrived."""
        match self._mode:
            case Next.DATA:
                return self._take(self._framing.read_email())
            case Next.CHUNK:
                return self._take_chunk()
            case _:
                assert self._session is not None
                envelope = self._framing.find_envelope()
                if envelope is not None and (step := self._session.begin_email(envelope)) is not None:
                    self._framing.skip(envelope)
                    return step
                return self._take(self._framing.read_line())

    def _take(self, found: bytes | Refusal | None) -> Step | None:
        assert self._session is not None
        if found is None:
            return None
        if isinstance(found, Refusal):
            return self._session.refuse(found.reply, closes=found.closes)
        if self._mode is Next.DATA:
            return self._session.finish_email(found)
        if self._mode is Next.CHUNK:
            return self._session.finish_chunk(found)
        try:
            return self._session.execute(found.decode())
        except UnicodeDecodeError:
            return self._session.refuse(replies.NOT_UTF8)

    def _take_chunk(self) -> Step | None:
        assert self._session is not None
        if self._session.draft.chunk_refusal is None:
            return self._take(self._framing.read_chunk(self._chunk_bytes, self._session.draft.chunked_bytes))
        left = self._framing.skip_chunk(self._chunk_bytes)
        if isinstance(left, Refusal):
            return self._take(left)
        self._chunk_bytes = left
        return self._session.finish_chunk(b"") if left == 0 else None

    def _begin(self, step: Step, written: list[bytes]) -> None:
        self._mode, self._chunk_bytes = step.then, step.chunk_bytes
        written.append(step.reply)
        work = step.work
        if step.then is Next.START_TLS:
            self._mode, work = Next.COMMAND, self._encrypt()
        if work is not None:
            self._work = self._loop.create_task(work)
            self._work.add_done_callback(self._finish)
        elif step.then in (Next.DATA, Next.CHUNK):
            self._framing.begin()
            self._email_since = self._loop.time()
        else:
            self._free()

    def _finish(self, work: "asyncio.Task[Step]") -> None:
        """Write the reply of an asynchronous step, then process the bytes that arrived meanwhile."""
        self._work = None
        if work.cancelled():
            return
        step = Step(replies.UNEXPECTED, Next.CLOSE)
        if (error := work.exception()) is None:
            step = work.result()
        else:
            log.error("smtp_command_failed", exc_info=error)
        self._free()
        if self._is_stopping:
            self._write(step.reply + replies.STOPPING, closes=True)
            return
        self._mode = step.then
        if step.then is Next.DATA:
            self._framing.begin()
            self._email_since = self._loop.time()
        if step.then is Next.CLOSE:
            self._write(step.reply, closes=True)
        else:
            self._process(step.reply)

    async def _encrypt(self) -> Step:
        assert self._session is not None
        assert self._transport is not None
        assert self._host.tls is not None
        if self._has_eof:
            return Step(then=Next.CLOSE)
        if len(self._framing):  # Bytes before the TLS handshake may come from an attacker.
            return Step(replies.BAD_LINE_END, Next.CLOSE)
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                encrypted = await self._loop.start_tls(self._transport, self, self._host.tls, server_side=True)
        except (OSError, TimeoutError):
            self.abort()
            return Step()
        self._transport = self._abortable = encrypted
        self._session.secure()
        return Step()

    def _free(self) -> None:
        assert self._session is not None
        if not self._session.draft.chunks:
            self._framing.free()

    def _limit_reading(self) -> None:
        """Pause reading while more than `MAX_AHEAD_BYTES` wait to be processed."""
        if self._transport is None or self._has_eof:
            return
        is_ahead = (self._work is not None or self._is_blocked) and len(self._framing) > MAX_AHEAD_BYTES
        if is_ahead and self._transport.is_reading():
            self._transport.pause_reading()
        elif not is_ahead and not self._transport.is_reading():
            self._transport.resume_reading()

    def _check_time(self) -> None:
        """Close a connection that is silent or too slow. The time that storing an email takes does not count."""
        assert self._session is not None
        seconds, least = IDLE_SECONDS, 1
        if self._mode in (Next.DATA, Next.CHUNK):
            # An email that began after the timer was set gets its whole interval.
            seconds, least = DATA_SECONDS, MIN_DATA_BYTES
            if (age := self._loop.time() - self._email_since) < DATA_SECONDS:
                seconds, least = DATA_SECONDS - age, 0
        if self._work is None and (self._received < least or not self._session.is_signed_in):
            self._write(replies.TOO_SLOW, closes=True)
            return
        self._received = 0
        self._timer = self._loop.call_later(seconds, self._check_time)

    def _write(self, data: bytes, *, closes: bool = False) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if data:
            transport.write(data)
        if not closes:
            return
        self._mode, self._transport = Next.CLOSE, None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(CLOSE_SECONDS, self.abort)
        if self._has_eof or data.endswith(replies.BYE):
            transport.close()
            return
        # Bytes that arrive at a closed socket reset the connection, and the client would lose replies.
        if transport.can_write_eof():
            transport.write_eof()
        if not transport.is_reading():
            transport.resume_reading()
        self._loop.call_later(LINGER_SECONDS, transport.close)
