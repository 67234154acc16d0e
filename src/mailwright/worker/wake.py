"""Wake idle workers when new messages arrive. A lost signal is harmless, because workers also poll."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.storage.database_signals import CannotListen, DatabaseSignals

if TYPE_CHECKING:
    from redis.asyncio import Redis

CHANNEL = "mailwright:wake"
RECONNECT_SECONDS = 5.0
# The shortest time between two signals through PostgreSQL. A woken worker claims everything that is due.
PAUSE_SECONDS = 0.05

log = logger(__name__)


class Wake:
    """An event within this process. Its subclasses connect processes."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        self._listening: asyncio.Task[None] | None = None
        self._publishing: asyncio.Task[None] | None = None
        self._is_closed = False

    def set(self) -> None:
        self._event.set()
        for listener in self._listeners:
            listener()

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call `listener` at every signal, even while no task waits for one."""
        self._listen_to_others()
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def branch(self) -> "Wake":
        """Return a signal for one more worker of this process. Each signal reaches it too."""
        branch = Wake()
        self._listeners.append(branch.set)
        return branch

    async def announce(self) -> None:
        """Notify every worker of new messages."""
        self.set()

    async def wait(self, seconds: float) -> None:
        self._listen_to_others()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()

    async def close(self) -> None:
        self._is_closed = True
        if self._publishing is not None:
            await asyncio.gather(self._publishing, return_exceptions=True)
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    def _listen_to_others(self) -> None:
        """Begin to listen to other processes."""


class ValkeyWake(Wake):
    """An event of all processes that use a Valkey server."""

    def __init__(self, client: "Redis") -> None:
        super().__init__()
        self._client = client
        self._is_lost = False

    async def announce(self) -> None:
        self.set()
        # Do not wait for Valkey, because a slow one would delay the request that was just accepted. One notification at
        # a time is enough, because a woken worker claims everything that is due.
        if self._publishing is None or self._publishing.done():
            self._publishing = asyncio.create_task(self._publish())

    def _listen_to_others(self) -> None:
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def _publish(self) -> None:
        from mailwright.outbox.valkey import UNAVAILABLE  # noqa: PLC0415 - needs the optional Valkey client

        try:
            await self._client.publish(CHANNEL, b"1")
        except UNAVAILABLE as error:
            self._log_loss(error)
        else:
            self._log_return()

    async def _listen(self) -> None:
        from mailwright.outbox.valkey import UNAVAILABLE  # noqa: PLC0415 - needs the optional Valkey client

        # Check this in addition to cancellation, because the client may mistake a cancellation for its own timeout.
        while not self._is_closed:
            try:
                async with self._client.pubsub() as channel:
                    await channel.subscribe(CHANNEL)
                    self._log_return()
                    while not self._is_closed:
                        if await channel.get_message(ignore_subscribe_messages=True, timeout=RECONNECT_SECONDS):
                            self.set()
            except UNAVAILABLE as error:
                self._log_loss(error)
                await asyncio.sleep(RECONNECT_SECONDS)

    def _log_loss(self, error: Exception) -> None:
        if not self._is_lost:
            self._is_lost = True
            log.warning("valkey_lost", error=str(error), message="Workers poll for new messages until Valkey is back.")

    def _log_return(self) -> None:
        if self._is_lost:
            self._is_lost = False
            log.info("valkey_back", message="Valkey wakes workers again.")


class DatabaseWake(Wake):
    """An event of all processes that use a PostgreSQL database. Workers poll while they cannot listen."""

    def __init__(self, signals: DatabaseSignals, pause_seconds: float = PAUSE_SECONDS) -> None:
        super().__init__()
        self._signals = signals
        self._pause_seconds = pause_seconds
        self._has_news = False  # Whether messages were accepted since the last signal.
        self._closing = asyncio.Event()

    async def announce(self) -> None:
        self.set()
        self._has_news = True
        if not self._closing.is_set() and (self._publishing is None or self._publishing.done()):
            self._publishing = asyncio.create_task(self._publish())

    def _listen_to_others(self) -> None:
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def _publish(self) -> None:
        """Signal at once, and again after a pause if more messages were accepted in the meantime."""
        while self._has_news:
            self._has_news = False
            with contextlib.suppress(NotDurable):  # Workers poll too.
                await self._signals.publish()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_seconds):
                    await self._closing.wait()

    async def close(self) -> None:
        self._closing.set()
        await super().close()

    async def _listen(self) -> None:
        while True:
            try:
                await self._signals.listen(self.set)
            except CannotListen:
                log.info("workers_poll", message="A connection pooler passes no signals on. Workers poll.")
                return
            except NotDurable as error:
                log.info("workers_poll", error=str(error), message="Workers poll until PostgreSQL signals again.")
            await asyncio.sleep(RECONNECT_SECONDS)
