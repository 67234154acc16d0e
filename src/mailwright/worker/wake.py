"""Wake idle workers when new messages arrive. A lost signal is harmless, because workers also poll."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mailwright.ops.logs import logger

if TYPE_CHECKING:
    from redis.asyncio import Redis

CHANNEL = "mailwright:wake"
RECONNECT_SECONDS = 5.0

log = logger(__name__)


class Wake:
    """An event within this process, and a Valkey channel between processes."""

    def __init__(self, client: "Redis | None" = None) -> None:
        self._client = client
        self._event = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        self._listening: asyncio.Task[None] | None = None
        self._publishing: asyncio.Task[None] | None = None
        self._is_lost = False
        self._is_closed = False

    def set(self) -> None:
        self._event.set()
        for listener in self._listeners:
            listener()

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call `listener` at every signal, even while no task waits for one."""
        self._listen_to_valkey()
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
        # Do not wait for Valkey, because a slow one would delay the request that was just accepted. One notification at
        # a time is enough, because a woken worker claims everything that is due.
        if self._client is not None and (self._publishing is None or self._publishing.done()):
            self._publishing = asyncio.create_task(self._publish(self._client))

    async def wait(self, seconds: float) -> None:
        self._listen_to_valkey()
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

    def _listen_to_valkey(self) -> None:
        if self._client is not None and self._listening is None:
            self._listening = asyncio.create_task(self._listen(self._client))

    async def _publish(self, client: "Redis") -> None:
        from mailwright.outbox.valkey import UNAVAILABLE  # noqa: PLC0415 - needs the optional Valkey client

        try:
            await client.publish(CHANNEL, b"1")
        except UNAVAILABLE as error:
            self._log_loss(error)
        else:
            self._log_return()

    async def _listen(self, client: "Redis") -> None:
        from mailwright.outbox.valkey import UNAVAILABLE  # noqa: PLC0415 - needs the optional Valkey client

        # Check this in addition to cancellation, because the client may mistake a cancellation for its own timeout.
        while not self._is_closed:
            try:
                async with client.pubsub() as channel:
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
