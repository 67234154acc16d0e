"""Connections to a SQLite file, which run their statements in threads.

A statement with all its rows takes one switch to a thread. An asynchronous driver switches for each step (open a
cursor, execute, fetch, close), and these switches together take several times longer than SQLite itself.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, Executable, create_engine, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import URL

from mailwright.storage.connection import COMPILED, Fetched, fetched
from mailwright.storage.writer_lock import WriterLock

# How long a transaction waits for a free connection.
_POOL_SECONDS: Final = 30
# How long and after what pauses a pragma is tried again if SQLite does not wait for the lock itself.
_PRAGMA_SECONDS: Final = 2.0
_PRAGMA_PAUSE_SECONDS: Final = 0.01

T = TypeVar("T")


class SqliteDialect(SQLiteDialect_pysqlite):
    """Equals the other dialects of this class: all of them use the SQLite library of the process."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return type(other) is SqliteDialect

    def __hash__(self) -> int:
        return hash(SqliteDialect)


registry.register("sqlite.mailwright", __name__, SqliteDialect.__name__)


class SqliteConnection:
    """A connection in a transaction, which begins with the first statement. A cancellation never interrupts a step."""

    __slots__ = ("_connection", "_engine", "_held", "_is_reader", "_threads", "_writer_lock")

    def __init__(
        self, engine: Engine, threads: ThreadPoolExecutor, lock: WriterLock | None, *, is_reader: bool
    ) -> None:
        self._engine = engine
        self._threads = threads
        self._writer_lock = lock
        self._is_reader = is_reader
        self._held: int | None = None  # The file descriptor that holds the lock.
        self._connection: Connection | None = None

    async def execute(self, expression: Executable, parameters: Any = None) -> Fetched:
        return await _in_thread(self._threads, lambda: fetched(self._begun().execute(expression, parameters)))

    async def execute_text(self, text: str, values: tuple[Any, ...]) -> Fetched:
        return await _in_thread(self._threads, lambda: fetched(self._begun().exec_driver_sql(text, values)))

    async def end(self, *, commit: bool) -> None:
        if self._connection is None:
            return
        if self._is_reader:
            self._end(commit=commit)  # Touches no file, and takes less time than a switch to the thread.
        else:
            await _in_thread(self._threads, lambda: self._end(commit=commit))

    def _begun(self) -> Connection:
        """Begin the transaction with its first statement, so that one switch to the thread does both."""
        if self._connection is None:
            self._connection = self._engine.connect()
            if self._writer_lock is not None:
                self._held = self._writer_lock.acquire()
            self._connection.begin()
        return self._connection

    def _end(self, *, commit: bool) -> None:
        assert self._connection is not None
        try:
            with self._connection:  # Closing rolls back an uncommitted transaction.
                if commit:
                    self._connection.commit()
        finally:
            if self._held is not None:
                os.close(self._held)
                self._held = None


class SqliteConnections:
    """One connection for writing, because SQLite has one writer, and a few for reading, each on its own snapshot."""

    def __init__(
        self, url: URL, pragmas: Sequence[str], reader_pragmas: Sequence[str], lock: WriterLock | None = None
    ) -> None:
        self._writer = _Pool(url, pragmas, size=1, begin="BEGIN IMMEDIATE", lock=lock)
        self._readers = _Pool(url, reader_pragmas, size=4, begin="BEGIN DEFERRED", is_reader=True)

    def write(self) -> AbstractAsyncContextManager[SqliteConnection]:
        return self._writer.begin()

    def read(self, _within: float | None) -> AbstractAsyncContextManager[SqliteConnection]:
        # A SQLite file has no server that could stall.
        return self._readers.begin()

    def read_apart(self, within: float) -> AbstractAsyncContextManager[SqliteConnection]:
        return self.read(within)

    async def run_sync(self, work: Callable[[Connection], Any], *, is_limited: bool) -> None:
        await self._writer.run_sync(work)

    async def close(self) -> None:
        await self._writer.close()
        await self._readers.close()


class _Pool:
    def __init__(
        self,
        url: URL,
        pragmas: Sequence[str],
        *,
        size: int,
        begin: str,
        lock: WriterLock | None = None,
        is_reader: bool = False,
    ) -> None:
        self._engine = _engine(url, pragmas, size, begin)
        self._is_reader = is_reader
        self._writer_lock = lock
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="sqlite")
        # Transactions wait for this semaphore, because waiting in the pool would block a thread that others need.
        self._free = asyncio.Semaphore(size)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[SqliteConnection]:
        """Begin a transaction that commits at the end of the block, or is rolled back if the block raises."""
        async with asyncio.timeout(_POOL_SECONDS):
            await self._free.acquire()
        connection = SqliteConnection(self._engine, self._threads, self._writer_lock, is_reader=self._is_reader)
        try:
            try:
                yield connection
            except BaseException:
                await connection.end(commit=False)
                raise
            await connection.end(commit=True)
        finally:
            self._free.release()

    async def run_sync(self, work: Callable[[Connection], Any]) -> None:
        def run() -> None:
            with self._engine.connect() as connection:
                work(connection)

        await _in_thread(self._threads, run)

    async def close(self) -> None:
        await _in_thread(self._threads, self._engine.dispose)
        self._threads.shutdown(wait=False)


def _set_pragma(connection: Any, pragma: str) -> None:
    """Set a pragma. Of several processes that open a new file, SQLite lets only one change it and fails the others."""
    began = time.monotonic()
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() - began > _PRAGMA_SECONDS:
                raise
            time.sleep(_PRAGMA_PAUSE_SECONDS)
        else:
            return


def _engine(url: URL, pragmas: Sequence[str], size: int, begin: str) -> Engine:
    engine = create_engine(
        url.set(drivername="sqlite+mailwright"),
        pool_size=size,
        max_overflow=0,
        pool_reset_on_return="rollback",
        execution_options={"compiled_cache": COMPILED},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # Transactions are begun explicitly below; the driver must not begin its own.
        connection.isolation_level = None
        for pragma in pragmas:
            _set_pragma(connection, pragma)

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        # Use the driver directly, because SQLAlchemy would take ten times as long.
        connection.connection.cursor().execute(begin)

    return engine


async def _in_thread(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Run the work to its end even if cancelled, and raise the cancellation afterwards.

    A SQLite connection that is abandoned in the middle of a statement keeps its lock as long as anything references the
    statement, and every other connection fails with "database is locked".
    """
    running = asyncio.get_running_loop().run_in_executor(threads, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # Mark the exception as retrieved: nobody waits for it any more.
        raise
