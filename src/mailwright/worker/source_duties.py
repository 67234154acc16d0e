"""Conducting: what sources must do whether or not anybody looks, each in its turn."""

from typing import Protocol


class Conducting(Protocol):
    async def tick(self) -> bool:
        """One step; true when anything was done, so that there may be more."""
        ...


class Conductors:
    """Several as one."""

    def __init__(self, *conductors: Conducting) -> None:
        self._conductors = conductors

    async def tick(self) -> bool:
        done = [await conductor.tick() for conductor in self._conductors]
        return any(done)
