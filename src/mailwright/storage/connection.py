"""The connection interface that transactions use on both engines."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NamedTuple, Protocol

from sqlalchemy import CursorResult, Executable, Result
from sqlalchemy.engine.row import Row
from sqlalchemy.util import LRUCache

# The compiled statements of the process. SQLAlchemy keeps them for each `Engine`, but a process has several: those that
# read and those that write a SQLite file, and those of each database that it opens. Compiling a statement takes longer
# than running it. The dialect is part of the key, so dialects that compile alike must be equal.
COMPILED: Final[LRUCache[Any, Any]] = LRUCache(1_000)


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

    def read_apart(self, within: float, /) -> AbstractAsyncContextManager[Connection]:
        """Read one snapshot with a connection that no other transaction can occupy."""
        ...

    async def run_sync(self, work: Callable[[Any], Any], *, is_limited: bool) -> None:
        """Run the work with a synchronous SQLAlchemy connection."""
        ...

    async def close(self) -> None: ...
