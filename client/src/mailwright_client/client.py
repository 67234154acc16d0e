"""The synchronous and the asynchronous client."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from mailwright_client.calls import Call
from mailwright_client.errors import NotReached, Unavailable, error_of
from mailwright_client.operations import AsyncOperations, Operations

R = TypeVar("R")

TIMEOUT_SECONDS = 30.0
# These are raised before anything was sent, so any call can be repeated after them.
NOTHING_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Retries:
    """Number of attempts and the delays between them. Only calls that are safe to repeat are retried."""

    attempts: int = 4
    first_seconds: float = 0.5
    # When the server asks for a longer wait than this, the error is raised with its `retry_after`.
    longest_seconds: float = 30.0

    def delay(self, attempt: int, retry_after: float | None, jitter: float) -> float | None:
        """Return the seconds to wait, or None to give up. Jitter spreads clients that failed together."""
        if attempt >= self.attempts or (retry_after is not None and retry_after > self.longest_seconds):
            return None
        own: float = min(self.first_seconds * 2 ** (attempt - 1), self.longest_seconds) * (0.5 + jitter / 2)
        return max(own, retry_after or 0.0)


NO_RETRIES = Retries(attempts=1)
DEFAULT_RETRIES = Retries()


class Client(Operations):
    """`with Client("https://mail.example.com", key) as client: client.email.send(…)`"""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        retries: Retries = DEFAULT_RETRIES,
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
                delay = _delay(call, error, attempt, self._retries)
                if delay is None:
                    raise _to_raise(error) from error
            self._sleep(delay)


class AsyncClient(AsyncOperations):
    """`async with AsyncClient("https://mail.example.com", key) as client: await client.email.send(…)`"""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        retries: Retries = DEFAULT_RETRIES,
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
                delay = _delay(call, error, attempt, self._retries)
                if delay is None:
                    raise _to_raise(error) from error
            await self._sleep(delay)


def _options(url: str, key: str, timeout_seconds: float) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}", "User-Agent": "mailwright-client", "Accept": "application/json, */*"}
    # Redirects are not followed: they would send the API key to another host.
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


def _delay(call: Call[Any], error: Exception, attempt: int, retries: Retries) -> float | None:
    """Return the delay, or None to raise the error. The API answers 429 or 503 only if it has stored nothing."""
    jitter = random.random()  # noqa: S311 - not used for security
    if isinstance(error, Unavailable):
        return retries.delay(attempt, error.retry_after, jitter)
    if call.can_be_repeated or isinstance(error, NOTHING_SENT):
        return retries.delay(attempt, None, jitter)
    return None


def _to_raise(error: Exception) -> Exception:
    """Name the URL in connection errors, without the query, which may contain addresses."""
    if isinstance(error, Unavailable):
        return error
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, httpx.RequestError):
        return NotReached(f"{error.request.url.copy_with(query=None)}: {reason}")
    return NotReached(reason)
