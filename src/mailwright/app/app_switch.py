"""Pass each HTTP request to the application with the current settings."""

import asyncio
import contextlib

from starlette.types import ASGIApp, Receive, Scope, Send


class AppRequests:
    """The requests that one application has begun."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._count = 0
        self._finished = asyncio.Event()
        self._finished.set()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._count += 1
        self._finished.clear()
        try:
            await self.app(scope, receive, send)
        finally:
            self._count -= 1
            if not self._count:
                self._finished.set()

    async def wait_until_finished(self, seconds: float) -> None:
        """Wait until no request is left, at most this long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._finished.wait()


class AppSwitch:
    """A replaceable HTTP application. Requests that have begun stay with the application that they reached."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self._current: AppRequests | None = None

    def use(self, app: ASGIApp) -> AppRequests:
        self._current = requests = AppRequests(app)
        self.ready.set()
        return requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.ready.wait()
        assert self._current is not None
        await self._current.handle(scope, receive, send)
