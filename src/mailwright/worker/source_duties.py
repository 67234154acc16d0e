"""The periodic work of the sources, such as turning due campaigns into messages."""

import asyncio
from typing import Protocol


class SourceDuty(Protocol):
    async def tick(self) -> bool:
        """Do one step; return True if there may be more to do."""
        ...


class SourceDuties:
    """Runs the duties one after another, never two at the same time."""

    def __init__(self, *duties: SourceDuty) -> None:
        self._duties = duties
        self._duties_lock = asyncio.Lock()
        self.did_work = False  # Set when a duty may have created messages; the reader resets it.

    async def run_once(self) -> bool:
        """Run each duty once; return True if any of them did something."""
        async with self._duties_lock:
            did_work = any([await duty.tick() for duty in self._duties])
            self.did_work |= did_work
        return did_work
