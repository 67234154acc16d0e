"""Clients: the API as methods, for programs that wait and for programs that do not."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from mailwright.client.call import Call
from mailwright.client.errors import NotReached, Unavailable, error_of
from mailwright.client.operations import AsyncOperations, Operations

R = TypeVar("R")

TIMEOUT_SECONDS = 30.0
# Nothing has left when one of these is raised: whatever the call was, it may be made again.
NOTHING_LEFT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call is made, and how long is waited between. Only what surely does no harm is repeated."""

    attempts: int = 4
    first_seconds: float = 0.5
    # Whoever is told to wait longer than this gets the error, and `retry_after` with it.
    longest_seconds: float = 30.0

    def wait(self, attempt: int, asked: float | None, chance: float) -> float | None:
        """After so many attempts; None where it is not worth it. Chance keeps clients from coming back together."""
        if attempt >= self.attempts or (asked is not None and asked > self.longest_seconds):
            return None
        own: float = min(self.first_seconds * 2 ** (attempt - 1), self.longest_seconds) * (0.5 + chance / 2)
        return max(own, asked or 0.0)


NO_RETRIES = Retries(attempts=1)
USUAL_RETRIES = Retries()


class Client(Operations):
    """`with Client("https://mail.example.com", key) as client: client.email.send(…)`"""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        retries: Retries = USUAL_RETRIES,
        timeout_seconds: float = TIMEOUT_SECONDS,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(self._send)
        self._http = httpx.Client(**_options(url, key, timeout_seconds), transport=transport)
        self._retries = retries
        self._sleep = sleep

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, call: Call[R]) -> R:
        request = self._http.build_request(**_request(call))
        attempt = 0
        while True:
            attempt += 1
            try:
                return _read(call, self._http.send(request))
            except (httpx.TransportError, Unavailable) as error:
                wait = _wait(call, error, attempt, self._retries)
                if wait is None:
                    raise _told(error) from error
            self._sleep(wait)


class AsyncClient(AsyncOperations):
    """`async with AsyncClient("https://mail.example.com", key) as client: await client.email.send(…)`"""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        retries: Retries = USUAL_RETRIES,
        timeout_seconds: float = TIMEOUT_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(self._send)
        self._http = httpx.AsyncClient(**_options(url, key, timeout_seconds), transport=transport)
        self._retries = retries
        self._sleep = sleep

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        await self.close()

    async def _send(self, call: Call[R]) -> R:
        request = self._http.build_request(**_request(call))
        attempt = 0
        while True:
            attempt += 1
            try:
                return _read(call, await self._http.send(request))
            except (httpx.TransportError, Unavailable) as error:
                wait = _wait(call, error, attempt, self._retries)
                if wait is None:
                    raise _told(error) from error
            await self._sleep(wait)


def _options(url: str, key: str, timeout_seconds: float) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}", "User-Agent": "mailwright-client", "Accept": "application/json, */*"}
    # A redirect would carry the key along to wherever it leads.
    return {"base_url": url, "headers": headers, "timeout": timeout_seconds, "follow_redirects": False}


def _request(call: Call[Any]) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "params": call.parameters() or None,
        "content": call.body,
        "headers": call.headers(),
    }


def _read(call: Call[R], response: httpx.Response) -> R:
    if response.is_success:
        return call.read(response.content)
    raise error_of(response.status_code, response.headers, response.content)


def _wait(call: Call[Any], error: Exception, attempt: int, retries: Retries) -> float | None:
    """None where the error is to be told instead. The API answers 429 and 503 only where it has done nothing."""
    chance = random.random()  # noqa: S311 - no secret
    if isinstance(error, Unavailable):
        return retries.wait(attempt, error.retry_after, chance)
    if call.may_be_repeated or isinstance(error, NOTHING_LEFT):
        return retries.wait(attempt, None, chance)
    return None


def _told(error: Exception) -> Exception:
    return error if isinstance(error, Unavailable) else NotReached(f"{type(error).__name__}: {error}")
