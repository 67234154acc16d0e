"""A read of a replica that goes on at the primary if the replica ends it, for example because it has to catch up."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Executable

from mailwright.domain.errors import NotDurable
from mailwright.storage.connection import Connection, Fetched

Move = Callable[[NotDurable], Awaitable[Connection]]


class MovableRead:
    """A connection to the replica, later perhaps to the primary.

    The primary first repeats what has been read. If it finds anything else, the read fails, so that its results agree.
    """

    def __init__(self, connection: Connection, failures: AbstractContextManager[None], move: Move) -> None:
        """Read the replica. `move` ends that, and returns a connection to the primary."""
        self._connection = connection
        self._failures = failures
        self._move = move
        self._is_moved = False
        self._finished: list[tuple[Callable[[Connection], Awaitable[Fetched]], Fetched]] = []

    async def execute(self, expression: Executable, parameters: Any = None) -> Fetched:
        return await self._fetch(lambda connection: connection.execute(expression, parameters))

    async def execute_text(self, text: str, values: tuple[Any, ...]) -> Fetched:
        return await self._fetch(lambda connection: connection.execute_text(text, values))

    async def _fetch(self, read: Callable[[Connection], Awaitable[Fetched]]) -> Fetched:
        if not self._is_moved:
            try:
                with self._failures:
                    found = await read(self._connection)
            except NotDurable as outage:
                await self._go_on_at_primary(outage)
            else:
                self._finished.append((read, found))
                return found
        return await read(self._connection)

    async def _go_on_at_primary(self, outage: NotDurable) -> None:
        self._connection = await self._move(outage)
        self._is_moved = True
        for read, found in self._finished:
            if await read(self._connection) != found:
                raise outage
