"""Stream live snapshots of campaigns and page fragments to browsers as server-sent events.

All listeners of one topic share one database query per second. A new listener gets only a snapshot taken after it
connected, because an older one would briefly undo a change that its page already shows. While the database does not
respond, listeners get an event that says so, because what their page shows may be outdated.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final, TypeVar

from mailwright.actions.campaigns import progress_response
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.logs import logger
from mailwright.outbox.limits import DefaultLimits
from mailwright.sources.campaigns.queue_progress import queue_progress
from mailwright.storage.database import PROMPT_SECONDS, Database

POLL_SECONDS: Final = 1.0
# Time between keep-alive comments, shorter than the idle timeout of any common proxy.
HEARTBEAT_SECONDS: Final = 15.0
HEARTBEAT: Final = b": still here\n\n"
# Sent once when the database stops responding. The next snapshot shows that it responds again.
UNAVAILABLE: Final = b"event: unavailable\ndata: database\n\n"
# The delay before a browser reconnects, in milliseconds.
GREETING: Final = b"retry: 2000\n\n"

# Maximum number of topics, more than users watch at once. The oldest snapshots are dropped.
_MAX_TOPICS: Final = 1_000

log = logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LiveTiming:
    poll_seconds: float = POLL_SECONDS
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    prompt_seconds: float = PROMPT_SECONDS


@dataclass(slots=True)
class Snapshot:
    """The latest data of a topic, or None if the database did not respond, and the event loop time of the query."""

    taken_at: float
    data: bytes | None


class _AccessLost(Exception):
    """The listener has lost its permission."""


class LiveUpdates:
    def __init__(self, database: Database, clock: Clock, timing: LiveTiming | None = None) -> None:
        self._database = database
        self._clock = clock
        self._timing = timing or LiveTiming()
        self._snapshots: dict[Hashable, Snapshot] = {}
        self._topic_locks: dict[Hashable, asyncio.Lock] = {}
        self._queries: set[asyncio.Future[Any]] = set()
        self._is_closed = asyncio.Event()

    def close(self) -> None:
        """End all streams at once, so that a server that shuts down need not wait for them."""
        self._is_closed.set()

    async def finish(self) -> None:
        """Close, and wait until every running query has ended, so that the database can be closed."""
        self.close()
        await asyncio.gather(*self._queries, return_exceptions=True)

    def campaign_progress(
        self, tenant_id: int, defaults: DefaultLimits, is_allowed: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        async def query() -> bytes:
            found = await queue_progress(self._database, self._clock, defaults, tenant_id=tenant_id)
            return progress_response(found).to_json()

        return self.stream(("progress", tenant_id), query, is_allowed, event="progress")

    async def stream(
        self,
        topic: Hashable,
        query: Callable[[], Awaitable[bytes]],
        is_allowed: Callable[[], Awaitable[bool]],
        *,
        event: str,
    ) -> AsyncIterator[bytes]:
        """Yield a complete snapshot at first and after every change, until the listener loses its permission.

        Each event is complete, so a browser that reconnects has missed nothing.
        """
        connected_at = sent_at = self._time()
        last_sent = b""
        yield GREETING
        while not self._is_closed.is_set():
            reading = self._start(self._read(topic, query, is_allowed, connected_at))
            is_late = not (await asyncio.wait([reading], timeout=self._timing.prompt_seconds))[0]
            if is_late and last_sent != UNAVAILABLE:
                yield UNAVAILABLE
                last_sent, sent_at = UNAVAILABLE, self._time()
            try:
                data = await asyncio.shield(reading)
            except _AccessLost:
                return
            if data != last_sent:
                yield data if data == UNAVAILABLE else _event(self._clock.now(), event, data)
                last_sent, sent_at = data, self._time()
            elif self._time() - sent_at >= self._timing.heartbeat_seconds:
                yield HEARTBEAT
                sent_at = self._time()
            await self._wait()

    async def _read(
        self,
        topic: Hashable,
        query: Callable[[], Awaitable[bytes]],
        is_allowed: Callable[[], Awaitable[bool]],
        since: float,
    ) -> bytes:
        """Return the topic's data, or `UNAVAILABLE`, which needs no permission."""
        try:
            data = await self._snapshot(topic, query, since)
            if data is not None and not await is_allowed():
                raise _AccessLost
        except NotDurable:
            return UNAVAILABLE
        return UNAVAILABLE if data is None else data

    async def _snapshot(self, topic: Hashable, query: Callable[[], Awaitable[bytes]], since: float) -> bytes | None:
        """Return the topic's data as of `since` or later, or None while the database is unreachable."""
        async with self._topic_locks.setdefault(topic, asyncio.Lock()):
            last, now = self._snapshots.get(topic), self._time()
            if last is None or last.taken_at < since or now - last.taken_at >= self._timing.poll_seconds:
                if len(self._snapshots) >= _MAX_TOPICS:
                    self._snapshots.clear()
                    self._topic_locks.clear()
                self._snapshots[topic] = last = Snapshot(now, await self._query(query))
            return last.data

    async def _query(self, query: Callable[[], Awaitable[bytes]]) -> bytes | None:
        try:
            return await query()
        except NotDurable as error:
            log.warning("live_query_failed", reason=str(error))
            return None

    def _start(self, query: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a query, which runs to its end even if the listener disconnects.

        A cancelled query loses its database connection; a few of those would exhaust the pool.
        """
        task = asyncio.create_task(query)
        self._queries.add(task)
        task.add_done_callback(self._queries.discard)
        return task

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._timing.poll_seconds):
                await self._is_closed.wait()
        except TimeoutError:
            return

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()


def _event(now: Instant, name: str, data: bytes) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (now, name.encode(), data)
