"""What a stand-in can be told to do at a step, whatever it speaks: wait for the test, or hang up."""

import asyncio


class Hold:
    """The server stops at a step until it is let go."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._released = asyncio.Event()

    def release(self) -> None:
        self._released.set()

    async def wait(self) -> None:
        self.reached.set()
        await self._released.wait()


class Cut:
    """Close the connection without a word."""
