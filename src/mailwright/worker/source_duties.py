"""Conducting: what sources must do whether or not anybody looks, each in its turn."""

from typing import Protocol


class SourceDuty(Protocol):
    async def tick(self) -> bool:
        """One step; true when anything was done, so that there may be more."""
        ...


class SourceDuties:
    """Several as one."""

    def __init__(self, *conductors: SourceDuty) -> None:
        self._conductors = conductors

    async def tick(self) -> bool:
        done = [await source_duties.tick() for source_duties in self._conductors]
        return any(done)
