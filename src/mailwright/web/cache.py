"""Compute expensive results once for all requests within a few seconds.

A change through this process drops every cached result, so a user sees the effect of their own change at once. Changes
made elsewhere (workers, commands, recipients who unsubscribe) show after `CACHE_SECONDS`; for a result that takes long
to compute, after `KEPT_TIMES` as long as that, so that a page which refreshes itself does not compute all the time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from math import inf
from typing import Any, Final, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.provider_kinds import KINDS

CACHE_SECONDS: Final = 15.0
KEPT_TIMES: Final = 10
# How long a page waits for a result before it says that the result is being computed.
PATIENCE_SECONDS: Final = 5.0
# Maximum number of cached results, more than users request within `CACHE_SECONDS`.
_MAX_ENTRIES: Final = 1_000
_READ_METHODS: Final = ("GET", "HEAD", "OPTIONS")
# Frequent writes that do not change the audience: new messages and provider events.
_UNRELATED_PATHS: Final = ("/v1/email", *(f"/{kind.name}-events" for kind in KINDS.values() if kind.webhook))

Result = TypeVar("Result")


@dataclass(slots=True)
class _CacheEntry:
    result: asyncio.Future[Any]
    fresh_until: float = inf  # While it is being computed.


class ResultCache:
    def __init__(self, seconds: float = CACHE_SECONDS, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._seconds = seconds
        self._patience_seconds = patience_seconds
        self._entries: dict[Hashable, _CacheEntry] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result for `key`, computing it if there is no fresh one.

        Concurrent callers share one computation, and a caller that is cancelled does not cancel it for the others.
        """
        result: Result = await asyncio.shield(self._find(key, compute).result)
        return result

    async def get_soon(self, key: Hashable, compute: Callable[[], Awaitable[Result]]) -> Result:
        """Do the same, but raise `TimeoutError` if it takes longer than users wait. The computation goes on."""
        return await asyncio.wait_for(self.get(key, compute), self._patience_seconds)

    def _find(self, key: Hashable, compute: Callable[[], Awaitable[Any]]) -> _CacheEntry:
        loop = asyncio.get_running_loop()
        began = loop.time()
        entry = self._entries.get(key)
        if entry is not None and began < entry.fresh_until:
            return entry
        if len(self._entries) >= _MAX_ENTRIES:
            self._entries.clear()
        found = self._entries[key] = _CacheEntry(asyncio.ensure_future(compute()))

        def end(result: asyncio.Future[Any]) -> None:
            if result.cancelled() or result.exception() is not None:  # A failure is not cached.
                if self._entries.get(key) is found:
                    del self._entries[key]
                return
            now = loop.time()
            found.fresh_until = max(began + self._seconds, now + KEPT_TIMES * (now - began)) if self._seconds else now

        found.result.add_done_callback(end)
        return found

    def clear(self) -> None:
        self._entries.clear()


class InvalidateOnWrite:
    """ASGI middleware that clears the cache after every request that may have changed the audience."""

    def __init__(self, app: ASGIApp, result_cache: ResultCache) -> None:
        self._app = app
        self._result_cache = result_cache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _may_change_audience(scope):
            await self._app(scope, receive, send)
            return

        async def clear_and_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._result_cache.clear()
            await send(message)

        await self._app(scope, receive, clear_and_send)


def _may_change_audience(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] in _READ_METHODS:
        return False
    path: str = scope["path"]
    return not path.startswith(_UNRELATED_PATHS)
