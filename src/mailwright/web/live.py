"""Live progress: what the campaigns of a tenant are doing, told to everyone who listens until they leave.

Listeners of one tenant share one look at the database per second, however many they are.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import orjson

from mailwright.domain.clock import Clock
from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.sources.campaigns.progress import poll
from mailwright.storage.database import Database
from mailwright.web.campaign_answers import progress

LOOK_SECONDS: Final = 1.0
# Sooner than any proxy gives up on a connection that says nothing.
HEARTBEAT_SECONDS: Final = 15.0
HEARTBEAT: Final = b": still here\n\n"
# How long a browser waits before it comes back, in milliseconds.
GREETING: Final = b"retry: 2000\n\n"

log = logger(__name__)


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
        self._looks: dict[int, Look] = {}
        self._turns: dict[int, asyncio.Lock] = {}
        self._is_over = asyncio.Event()

    def close(self) -> None:
        """Everyone who listens is let go at once, so that a server that stops need not wait for them."""
        self._is_over.set()

    async def events(self, tenant_id: int, is_welcome: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
        """Server-sent events: the whole of it at first, and again whenever it has changed. Each event stands for
        itself, so whoever comes back has missed nothing. Whoever is not welcome any more is told nothing more."""
        yield GREETING
        told, spoke_at = b"", self._time()
        while not self._is_over.is_set():
            seen = await self._seen(tenant_id)
            if not await is_welcome():
                return
            if seen is not None and seen != told:
                yield b"id: %d\nevent: progress\ndata: %s\n\n" % (self._clock.now(), seen)
                told, spoke_at = seen, self._time()
            elif self._time() - spoke_at >= self._pace.heartbeat_seconds:
                yield HEARTBEAT
                spoke_at = self._time()
            await self._wait()

    async def _seen(self, tenant_id: int) -> bytes | None:
        """None while the database is out of reach: listeners stay, and hear of it when it is back."""
        async with self._turns.setdefault(tenant_id, asyncio.Lock()):
            last, now = self._looks.get(tenant_id), self._time()
            if last is None or now - last.at >= self._pace.look_seconds:
                self._looks[tenant_id] = last = Look(now, await self._look(tenant_id))
            return last.seen

    async def _look(self, tenant_id: int) -> bytes | None:
        try:
            return orjson.dumps(progress(await poll(self._database, self._clock, tenant_id=tenant_id)))
        except NotDurable as error:
            log.warning("progress_not_read", reason=str(error))
            return None

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._pace.look_seconds):
                await self._is_over.wait()
        except TimeoutError:
            return

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()
