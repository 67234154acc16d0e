"""What every stand-in can do at a step: wait for the test or disconnect."""

import asyncio


class Hold:
    """The server waits at a step until it is released."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._released = asyncio.Event()

    def release(self) -> None:
        self._released.set()

    async def wait(self) -> None:
        self.reached.set()
        await self._released.wait()


class DisconnectRule:
    """Close the connection without a response."""
