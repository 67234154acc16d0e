"""ResultCache answers: what asks everybody is asked once for all who want to know it within a few seconds.

Whoever changes something here and looks again is told what is true now. What others change meanwhile, workers, commands
and readers who leave, shows a few seconds later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

CACHE_SECONDS: Final = 15.0
# More than anybody looks at within that time.
_MOST_KEPT: Final = 1_000
_CHANGES_NOTHING: Final = ("GET", "HEAD", "OPTIONS")
# They come all the time and change nobody who is asked: a new mail, and what became of one.
_COMES_ALL_THE_TIME: Final = ("/v1/email", "/ses-events", "/sendgrid-events")

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Asked:
    at: float
    answer: asyncio.Future[Any]


class ResultCache:
    def __init__(self, seconds: float = CACHE_SECONDS) -> None:
        self._seconds = seconds
        self._asked: dict[Hashable, _Asked] = {}

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Who comes while somebody asks waits for the same answer; one who leaves does not take it from the others."""
        now = asyncio.get_running_loop().time()
        known = self._asked.get(question)
        if known is None or now - known.at >= self._seconds:
            if len(self._asked) >= _MOST_KEPT:
                self._asked.clear()
            known = self._asked[question] = _Asked(now, asyncio.ensure_future(ask()))
        try:
            found: Answer = await asyncio.shield(known.answer)
        except Exception:
            self._asked.pop(question, None)  # the next one asks again
            raise
        return found

    def clear(self) -> None:
        self._asked.clear()


class InvalidateOnWrite:
    """Around the whole application: after whatever may have changed the audience, nothing is kept of it."""

    def __init__(self, app: ASGIApp, kept: ResultCache) -> None:
        self._app = app
        self._kept = kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _may_change(scope):
            await self._app(scope, receive, send)
            return

        async def told(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._kept.clear()
            await send(message)

        await self._app(scope, receive, told)


def _may_change(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] in _CHANGES_NOTHING:
        return False
    path: str = scope["path"]
    return not path.startswith(_COMES_ALL_THE_TIME)
