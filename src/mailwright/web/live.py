"""Live: what a tenant's campaigns, or the parts of a page, are like now, told to everyone who listens until they leave.

Listeners of the same thing share one look at the database per second, however many they are. Whoever comes is told
nothing from before they came: a page that was just changed would go back to what it was for a moment.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson

from mailwright.domain.clock import Clock
from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.schemas.campaigns import progress
from mailwright.sources.campaigns.progress import queue_progress
from mailwright.storage.database import Database

LOOK_SECONDS: Final = 1.0
# Sooner than any proxy gives up on a connection that says nothing.
HEARTBEAT_SECONDS: Final = 15.0
HEARTBEAT: Final = b": still here\n\n"
# How long a browser waits before it comes back, in milliseconds.
GREETING: Final = b"retry: 2000\n\n"

# More than anybody looks at: what nobody looks at any more is not kept for ever.
_MOST_REMEMBERED: Final = 1_000

log = logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pace:
    look_seconds: float = LOOK_SECONDS
    heartbeat_seconds: float = HEARTBEAT_SECONDS


@dataclass(slots=True)
class Look:
    """What was seen last, and when by the loop's own clock. None: the database was out of reach."""

    at: float
    seen: bytes | None


class Live:
    def __init__(self, database: Database, clock: Clock, pace: Pace | None = None) -> None:
        self._database = database
        self._clock = clock
        self._pace = pace or Pace()
        self._looks: dict[Hashable, Look] = {}
        self._turns: dict[Hashable, asyncio.Lock] = {}
        self._looking: set[asyncio.Future[Any]] = set()
        self._is_over = asyncio.Event()

    def close(self) -> None:
        """Everyone who listens is let go at once, so that a server that stops need not wait for them."""
        self._is_over.set()

    async def finish(self) -> None:
        """Closed, and every question that was asked of the database has its answer: it can be closed next."""
        self.close()
        await asyncio.gather(*self._looking, return_exceptions=True)

    def events(self, tenant_id: int, is_welcome: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
        """The progress of a tenant's campaigns."""

        async def look() -> bytes:
            return orjson.dumps(progress(await queue_progress(self._database, self._clock, tenant_id=tenant_id)))

        return self.stream(("progress", tenant_id), look, is_welcome, event="progress")

    async def stream(
        self,
        what: Hashable,
        look: Callable[[], Awaitable[bytes]],
        is_welcome: Callable[[], Awaitable[bool]],
        *,
        event: str,
    ) -> AsyncIterator[bytes]:
        """Server-sent events: the whole of it at first, and again whenever it has changed. Each event stands for
        itself, so whoever comes back has missed nothing. Whoever is not welcome any more is told nothing more."""
        came_at = spoke_at = self._time()
        told = b""
        yield GREETING
        while not self._is_over.is_set():
            seen = await self._to_its_end(self._seen(what, look, came_at))
            if not await self._to_its_end(is_welcome()):
                return
            if seen is not None and seen != told:
                yield b"id: %d\nevent: %s\ndata: %s\n\n" % (self._clock.now(), event.encode(), seen)
                told, spoke_at = seen, self._time()
            elif self._time() - spoke_at >= self._pace.heartbeat_seconds:
                yield HEARTBEAT
                spoke_at = self._time()
            await self._wait()

    async def _seen(self, what: Hashable, look: Callable[[], Awaitable[bytes]], since: float) -> bytes | None:
        """None while the database is out of reach: listeners stay, and hear of it when it is back."""
        async with self._turns.setdefault(what, asyncio.Lock()):
            last, now = self._looks.get(what), self._time()
            if last is None or last.at < since or now - last.at >= self._pace.look_seconds:
                if len(self._looks) >= _MOST_REMEMBERED:
                    self._looks.clear()
                    self._turns.clear()
                self._looks[what] = last = Look(now, await self._looked(look))
            return last.seen

    async def _looked(self, look: Callable[[], Awaitable[bytes]]) -> bytes | None:
        try:
            return await look()
        except NotDurable as error:
            log.warning("progress_not_read", reason=str(error))
            return None

    async def _to_its_end(self, looking: Awaitable[T]) -> T:
        """A listener may leave at any moment. A question to the database is asked to its end even so: one that is cut
        off takes its connection with it, and after a few of those nobody can ask anything."""
        task = asyncio.ensure_future(looking)
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)
        return await asyncio.shield(task)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._pace.look_seconds):
                await self._is_over.wait()
        except TimeoutError:
            return

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()
