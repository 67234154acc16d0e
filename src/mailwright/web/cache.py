"""Compute expensive results once for all requests within a few seconds.

A change through this process drops every cached result, so a user sees the effect of their own change at once. Changes
made elsewhere (workers, commands, recipients who unsubscribe) show after at most `CACHE_SECONDS`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mailwright.ops.provider_kinds import KINDS

CACHE_SECONDS: Final = 15.0
# Maximum number of cached results, more than users request within `CACHE_SECONDS`.
_MAX_ENTRIES: Final = 1_000
_READ_METHODS: Final = ("GET", "HEAD", "OPTIONS")
# Frequent writes that do not change the audience: new messages and provider events.
_UNRELATED_PATHS: Final = ("/v1/email", *(f"/{kind.name}-events" for kind in KINDS.values() if kind.webhook))

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _CacheEntry:
    started_at: float
    result: asyncio.Future[Any]


class ResultCache:
    def __init__(self, seconds: float = CACHE_SECONDS) -> None:
        self._seconds = seconds
        self._entries: dict[Hashable, _CacheEntry] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result for `key`, computing it if there is no fresh one.

        Concurrent callers share one computation, and a caller that is cancelled does not cancel it for the others.
        """
        now = asyncio.get_running_loop().time()
        entry = self._entries.get(key)
        if entry is None or now - entry.started_at >= self._seconds:
            if len(self._entries) >= _MAX_ENTRIES:
                self._entries.clear()
            entry = self._entries[key] = _CacheEntry(now, asyncio.ensure_future(compute()))
        try:
            result: Result = await asyncio.shield(entry.result)
        except Exception:
            self._entries.pop(key, None)  # A failure is not cached.
            raise
        return result

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
