"""The short way to the driver, for the few statements that run for every message.

SQLAlchemy and a thread hop for each statement cost more than SQLite itself takes for the work. Here a whole
transaction is one hop to one thread (SQLite), or prepared statements on a bare connection (PostgreSQL). The code that
runs inside is the same on both: on SQLite its awaits never wait, so it can be driven to its end in the thread.
"""

import asyncio
import sqlite3
from collections import namedtuple
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import asyncpg
from sqlalchemy.engine import URL

from mailwright.storage.parameters import as_parameter
from mailwright.storage.statements import Statement

T = TypeVar("T")
Work = Callable[["Runner"], Coroutine[Any, Any, T]]


class Runner(Protocol):
    """Runs the statements of files inside a transaction, whichever way it was begun."""

    async def run(self, statement: Statement, **parameters: Any) -> Sequence[Any]: ...


class HotSqlite:
    """One connection in one thread: SQLite has one writer, so one is enough."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")

    async def transact(self, work: Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, work)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    def _transact(self, work: Work[T]) -> T:
        if self._connection is None:
            self._connection = self._connect()
            self._connection.row_factory = _named_row
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = _drive(work(_SqliteRunner(connection)))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class HotPostgresql:
    """A small pool of bare connections; each keeps its statements prepared."""

    def __init__(self, url: URL, connect_arguments: dict[str, Any], size: int) -> None:
        self._dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._arguments = connect_arguments
        self._size = size
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    async def transact(self, work: Work[T]) -> T:
        pool = self._pool or await self._open()
        async with pool.acquire() as connection, connection.transaction():
            return await work(_PostgresqlRunner(connection))

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._dsn, min_size=0, max_size=self._size, record_class=_NamedRecord, **self._arguments
                )
            return self._pool


class _SqliteRunner:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def run(self, statement: Statement, **parameters: Any) -> Sequence[Any]:
        text, names = statement.on("sqlite")
        return self._connection.execute(text, [as_parameter(parameters[name]) for name in names]).fetchall()


class _PostgresqlRunner:
    __slots__ = ("_connection",)

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def run(self, statement: Statement, **parameters: Any) -> Sequence[Any]:
        text, names = statement.on("postgresql")
        rows: Sequence[Any] = await self._connection.fetch(text, *(as_parameter(parameters[name]) for name in names))
        return rows


class _NamedRecord(asyncpg.Record):  # type: ignore[misc]
    """Columns by name, as rows have them everywhere else."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


@lru_cache(maxsize=256)
def _row_class(columns: tuple[str, ...]) -> Any:
    return namedtuple("Row", columns, rename=True)


def _named_row(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> Any:
    return _row_class(tuple([column[0] for column in cursor.description]))._make(row)


def _drive(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits. One that does has no place in a transaction on the one writer."""
    try:
        work.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    work.close()
    raise RuntimeError("a transaction on SQLite must not wait for anything but its own statements")
