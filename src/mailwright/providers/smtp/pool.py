"""Connections to one server: opened on demand, shared by all messages, closed when idle."""

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.results import SendResult
from mailwright.providers.protocol import RetractedAcceptance, RetractionCallback
from mailwright.providers.reserve import reserved
from mailwright.providers.smtp.connection import SmtpConnection
from mailwright.providers.smtp.job import SmtpJob
from mailwright.providers.smtp.login import ServerFeatures
from mailwright.providers.smtp.opening import ConnectionAttempts
from mailwright.providers.smtp.responses import ENDED_BEFORE, SessionEnd
from mailwright.providers.smtp.settings import SmtpSettings, Timeouts
from mailwright.providers.smtp.transport import SmtpTransport
from mailwright.providers.smtp.waiting import WaitingJobs

# Open at most this many new connections at the same time, so that a server is not flooded.
MAX_OPENING = 4


class Places(NamedTuple):
    """The messages that connections can carry."""

    first: int  # One per connection.
    second: int  # One more per quick connection, behind the first.


class SmtpPool:
    def __init__(
        self,
        settings: SmtpSettings,
        context: ssl.SSLContext | None,
        clock: Clock,
        timeouts: Timeouts,
        hostname: str | None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._timeouts = timeouts
        self._waiting = WaitingJobs()
        self._live: set[SmtpConnection] = set()
        self._idle: dict[
            SmtpConnection, None
        ] = {}  # Idle connections. The most recently used one is taken first, so that the others can close.
        self._half_idle: dict[
            SmtpConnection, None
        ] = {}  # Connections on which the server stores one message and another could begin.
        self._attempts = ConnectionAttempts(
            settings,
            context,
            timeouts,
            hostname,
            on_open=self._opened,
            on_failure=self._attempt_failed,
            on_pause_end=self._grow,
        )
        self._closing_transports: set[asyncio.Future[None]] = set()
        self._is_closing = False
        self.on_growth: Callable[[], None] | None = None  # Called when the capacity has grown.
        self.on_retraction: RetractionCallback | None = None
        self._drained: asyncio.Future[None] | None = None

    def places(self) -> Places:
        """Return how many messages the connections can carry that are open or may be opened now."""
        usable = [connection.is_quitting for connection in self._live].count(False)
        quick = [connection.has_second_place for connection in self._live].count(True)
        if not usable:
            return Places(1, 0)
        may_open = 0 if self._attempts.is_paused else self._settings.max_connections - len(self._live)
        return Places(usable + min(MAX_OPENING, may_open), min(quick, self._settings.bulk_connections))

    def submit(self, job: SmtpJob) -> None:
        if self._is_closing:
            job.settle(ENDED_BEFORE[SessionEnd.SHUT_DOWN].result("the provider is closed"))
        elif self._idle and not (job.message.is_bulk and self._keeps_idle):
            self._idle.popitem()[0].begin(job)
        else:
            self._waiting.add(job)
            self._open_more()
            self._use_half_idle()

    async def close(self, grace: Instant) -> None:
        """Let accepted messages finish within the grace time; return results for the others."""
        self._is_closing = True
        if not self._is_drained:
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._drained], timeout=grace / SECOND)
        await self._attempts.stop()
        self._fail_waiting(
            ENDED_BEFORE[SessionEnd.SHUT_DOWN].result("the provider was closed before the message was sent")
        )
        for connection in tuple(self._live):
            if connection.is_idle:
                connection.quit()
            elif not connection.is_quitting:
                connection.transport.end(SessionEnd.SHUT_DOWN, "the grace period of the shutdown has ended")
        for connection in self._live:
            self._closing_transports.add(connection.transport.closed)
        if self._closing_transports:
            await asyncio.wait(tuple(self._closing_transports))

    # Methods that connections call.

    def take(self, connection: SmtpConnection, *, is_busy: bool) -> SmtpJob | None:
        """Return the next waiting message. A busy connection gets none that a new connection will send sooner."""
        job = self._waiting.take_second(len(self._attempts)) if is_busy else self._waiting.take()
        if job is not None:
            self.unpark(connection)  # Otherwise another message could replace this one.
        return job

    def requeue(self, job: SmtpJob) -> None:
        if self._idle:
            self._idle.popitem()[0].begin(job)
        else:
            self._waiting.put_first(job)

    def park(self, connection: SmtpConnection) -> None:
        if connection.is_idle:
            self._half_idle.pop(connection, None)
            self._idle[connection] = None
        else:
            self._half_idle[connection] = None
        if self._drained is not None:
            self._tell_if_drained()

    def unpark(self, connection: SmtpConnection) -> None:
        self._idle.pop(connection, None)
        self._half_idle.pop(connection, None)

    def retracted(self, retraction: RetractedAcceptance) -> None:
        if self.on_retraction is not None:
            self.on_retraction(retraction)

    def lost(self, connection: SmtpConnection) -> None:
        self.unpark(connection)
        self._live.discard(connection)
        closed = connection.transport.closed
        if not closed.done():
            self._closing_transports.add(closed)
            closed.add_done_callback(self._closing_transports.discard)
        self._open_more()
        self._tell_if_drained()

    # Opening connections.

    def _open_more(self) -> None:
        while self._wants_another:
            self._attempts.start()

    @property
    def _keeps_idle(self) -> bool:
        """Whether the idle connections are left to transactional messages, because no more may be opened."""
        live = len(self._live)
        may_open = 0 if self._attempts.is_paused else self._settings.max_connections - live - len(self._attempts)
        return len(self._idle) + may_open <= reserved(live + may_open)

    @property
    def _wants_another(self) -> bool:
        opened, limits = len(self._live) + len(self._attempts), self._settings
        waiting = len(self._waiting) if opened < limits.bulk_connections else self._waiting.transactional
        if not waiting or opened >= limits.max_connections or len(self._attempts) >= MAX_OPENING:
            return False
        if not self._live:
            # Open one connection first, so that a server that is down or rejects us gets one attempt and not ten.
            return not self._attempts
        return not self._attempts.is_paused and waiting > len(self._attempts)

    def _use_half_idle(self) -> None:
        """Send messages for which no connection is being opened on connections whose last message is being stored."""
        for connection in [each for each in self._half_idle if each.has_second_place]:
            job = self._waiting.take_second(len(self._attempts))
            if job is None:
                return
            self.unpark(connection)
            connection.begin(job)

    def _opened(self, transport: SmtpTransport, features: ServerFeatures) -> None:
        connection = SmtpConnection(
            transport,
            features,
            self,
            clock=self._clock,
            timeouts=self._timeouts,
            max_messages=self._settings.messages_per_connection,
        )
        self._live.add(connection)
        connection.start()
        self._grow()

    def _grow(self) -> None:
        """Open more connections for the waiting messages, and report that the capacity may have grown."""
        self._open_more()
        self._use_half_idle()
        if self.on_growth is not None:
            self.on_growth()

    def _attempt_failed(self, failure: SendResult) -> None:
        if self._live:
            self._attempts.pause()
            self._use_half_idle()
        else:
            self._fail_waiting(failure)
        self._tell_if_drained()

    def _fail_waiting(self, result: SendResult) -> None:
        while (job := self._waiting.take()) is not None:
            job.settle(result)

    # Closing.

    @property
    def _is_drained(self) -> bool:
        return not self._waiting and all(one.is_idle or one.is_quitting for one in self._live)

    def _tell_if_drained(self) -> None:
        if self._drained is not None and not self._drained.done() and self._is_drained:
            self._drained.set_result(None)
