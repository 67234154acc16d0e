"""The connection interface that transactions use on both engines."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from sqlalchemy import CursorResult, Executable, Result
from sqlalchemy.engine.row import Row


class Fetched(NamedTuple):
    """The rows that a statement returned, and how many it changed."""

    rows: Sequence[Row[Any]]
    changed: int


def fetched(result: Result[Any]) -> Fetched:
    assert isinstance(result, CursorResult)
    return Fetched(result.all() if result.returns_rows else (), result.rowcount)


class Connection(Protocol):
    async def execute(self, expression: Executable, parameters: Any = None) -> Fetched: ...

    async def execute_text(self, text: str, values: tuple[Any, ...]) -> Fetched: ...


class Connections(Protocol):
    """All connections of a process. A transaction commits at the end of its block unless the block raises."""

    def write(self) -> AbstractAsyncContextManager[Connection]: ...

    def read(self, within: float | None, /) -> AbstractAsyncContextManager[Connection]:
        """Read one snapshot. `within` is the timeout in seconds for a server that does not respond."""
        ...

    async def run_sync(self, work: Callable[[Any], Any]) -> None:
        """Run the work with a synchronous SQLAlchemy connection."""
        ...

    async def close(self) -> None: ...
