"""The database: one door for reading, one for writing, the same on SQLite and PostgreSQL.

A write either commits before its block ends or raises; whatever keeps it from being durable (a full disk, a lost
server, a lock that does not open) is raised as `NotDurable`, so that callers need to know one error only.
"""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Executable, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.row import Row
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, ProgrammingError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from mailwright.domain.errors import ConfigurationInvalid, NotDurable
from mailwright.storage.hot import ErrorTypes, HotPath, SqliteHotPath, Work
from mailwright.storage.statements import Dialect, Statement

# How long a write waits for another process's write on SQLite. Longer, and the API's callers would time out first.
SQLITE_BUSY_MILLISECONDS = 5_000
POSTGRESQL_CONNECT_SECONDS = 5
POSTGRESQL_COMMAND_SECONDS = 60

WAL = "journal_mode = WAL"  # the only one that the file keeps
SQLITE_PRAGMAS = (
    f"busy_timeout = {SQLITE_BUSY_MILLISECONDS}",
    WAL,
    "synchronous = FULL",  # NORMAL may lose accepted mail when the power fails
    "foreign_keys = ON",
    "cache_size = -65536",
    "temp_store = MEMORY",
    "mmap_size = 268435456",
)
POSTGRESQL_ARGUMENTS = {
    "timeout": POSTGRESQL_CONNECT_SECONDS,
    "command_timeout": POSTGRESQL_COMMAND_SECONDS,
    # Accepted means on disk, whatever the server's default is.
    "server_settings": {"application_name": "mailwright", "synchronous_commit": "on", "jit": "off"},
}

Rows = Sequence[Row[Any]]
T = TypeVar("T")


class Transaction:
    """A transaction under way: runs statements from files and SQLAlchemy expressions."""

    __slots__ = ("_connection", "_dialect")

    def __init__(self, connection: AsyncConnection, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect

    async def run(self, statement: Statement, **parameters: Any) -> Rows:
        """Runs a statement of a file."""
        text, values = statement.bind(self._dialect, parameters)
        result = await self._done(self._connection.exec_driver_sql(text, tuple(values)))
        return result.all() if result.returns_rows else ()

    async def count(self, statement: Statement, **parameters: Any) -> int:
        text, values = statement.bind(self._dialect, parameters)
        return (await self._done(self._connection.exec_driver_sql(text, tuple(values)))).rowcount

    async def execute(self, expression: Executable, parameters: Any = None) -> Rows:
        result = await self._done(self._connection.execute(expression, parameters))
        return result.all() if result.returns_rows else ()

    async def _done(self, running: Coroutine[Any, Any, T]) -> T:
        return await (finish_despite_cancellation(running) if self._dialect == "sqlite" else running)


class Database:
    """Holds the connections. Make one per process, and close it."""

    def __init__(self, url: str, *, pool_size: int = 10, is_ours: bool = True) -> None:
        """One that is not ours is used as it is: nothing of its file's form is changed."""
        self.url = parse_url(url)
        self.dialect: Dialect = "sqlite" if self.url.get_backend_name() == "sqlite" else "postgresql"
        self._pragmas = SQLITE_PRAGMAS if is_ours else tuple(each for each in SQLITE_PRAGMAS if each != WAL)
        if self.dialect == "sqlite":
            self._writer = _sqlite_engine(self.url, self._pragmas, pool_size=1, immediate=True)
            self._reader = _sqlite_engine(self.url, self._pragmas, pool_size=4, immediate=False)
            self._hot: HotPath = SqliteHotPath(self._connect_sqlite)
            # SQLite has one writer: waiting here costs nothing, waiting in SQLite's busy loop costs time and order.
            self._turn: asyncio.Lock | None = asyncio.Lock()
        else:
            from mailwright.storage.hot_postgresql import PostgresqlHotPath  # noqa: PLC0415 - with a driver of its own

            self._writer = self._reader = _postgresql_engine(self.url, pool_size)
            self._hot = PostgresqlHotPath(self.url, POSTGRESQL_ARGUMENTS, pool_size)
            self._turn = None
        self._durability = _Durability(self._hot, "The database cannot store this now")
        self._reach = _Durability(self._hot, "The database cannot be reached")

    @asynccontextmanager
    async def _turn_to_write(self) -> AsyncIterator[None]:
        """Nobody waits for a turn longer than for SQLite itself: callers are told, instead of queueing for a minute."""
        if self._turn is None:
            yield
            return
        try:
            async with asyncio.timeout(SQLITE_BUSY_MILLISECONDS / 1000):
                await self._turn.acquire()
        except TimeoutError as error:
            raise NotDurable("The database is busy with other writes. Try again soon.") from error
        try:
            yield
        finally:
            self._turn.release()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        async with self._turn_to_write():
            with self._durability:
                async with self._begun(self._writer) as connection:
                    yield Transaction(connection, self.dialect)

    async def transact(self, work: Work[T]) -> T:
        """A write for every message's road: the same promise as `write`, without SQLAlchemy in between."""
        async with self._turn_to_write():
            with self._durability:
                return await self._hot.transact(work)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        """One snapshot for all that is read inside: on PostgreSQL too, so that sums over several statements agree."""
        with self._reach:
            if self.dialect == "sqlite":
                async with self._begun(self._reader) as connection:
                    yield Transaction(connection, self.dialect)
                return
            async with self._reader.connect() as connection:
                await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                async with connection.begin():
                    yield Transaction(connection, self.dialect)

    @asynccontextmanager
    async def _begun(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        """Committed at the end of its block; cancelling whoever waits cuts no step of it short."""
        if self.dialect == "postgresql":
            async with engine.begin() as connection:
                yield connection
            return
        connection = engine.connect()
        try:
            await finish_despite_cancellation(connection.start())
            await finish_despite_cancellation(connection.begin().start())
            yield connection
            await finish_despite_cancellation(connection.commit())
        finally:
            if connection.sync_connection is not None:
                await finish_despite_cancellation(connection.close())  # what is not committed is rolled back

    async def run_sync_ddl(self, work: Any, *, read_only: bool = False) -> None:
        """Hands a plain connection to `work`: Alembic's migrations are written for one."""
        with self._reach if read_only else self._durability:
            async with self._writer.connect() as connection:
                await connection.run_sync(work)

    def _connect_sqlite(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.url.database or "", isolation_level=None, check_same_thread=False, cached_statements=512
        )
        for pragma in self._pragmas:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    async def close(self) -> None:
        await self._hot.close()
        await self._writer.dispose()
        if self._reader is not self._writer:
            await self._reader.dispose()


async def finish_despite_cancellation(running: Coroutine[Any, Any, T]) -> T:
    """Waits for the end also when cancelled meanwhile, and is cancelled then.

    A SQLite connection that is given up in the middle of a statement stays open, with its lock, for as long as anything
    remembers the statement; everybody else is told that the database is locked.
    """
    doing = asyncio.ensure_future(running)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        while not doing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([doing])
        if not doing.cancelled():
            doing.exception()  # nobody waits for it any more
        raise


def parse_url(text: str) -> URL:
    """`sqlite:///file.db` or `postgresql://…`; the driver is ours to choose."""
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError) as error:
        raise ConfigurationInvalid(
            "MAILWRIGHT_DATABASE_URL: not a database address; use sqlite:///file.db or postgresql://user:password@host/name"
        ) from error
    match backend:
        case "sqlite":
            return url.set(drivername="sqlite+aiosqlite", database=_sqlite_file(url))
        case "postgresql" | "postgres":
            return url.set(drivername="postgresql+asyncpg")
        case _:
            raise ConfigurationInvalid(
                f"MAILWRIGHT_DATABASE_URL: Mailwright runs on SQLite and PostgreSQL, not on {backend}"
            )


def _sqlite_file(url: URL) -> str:
    if not url.database or url.database == ":memory:":
        raise ConfigurationInvalid(
            "MAILWRIGHT_DATABASE_URL: an in-memory database would lose mail; name a file, as in sqlite:///mailwright.db"
        )
    return str(Path(url.database).expanduser())


def _sqlite_engine(url: URL, pragmas: Sequence[str], *, pool_size: int, immediate: bool) -> AsyncEngine:
    engine = create_async_engine(url, pool_size=pool_size, max_overflow=0, pool_reset_on_return="rollback")

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # Transactions are begun below, by name; the driver must not begin its own.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN DEFERRED")

    return engine


def _postgresql_engine(url: URL, pool_size: int) -> AsyncEngine:
    return create_async_engine(
        url,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=POSTGRESQL_CONNECT_SECONDS,
        connect_args=POSTGRESQL_ARGUMENTS,
    )


class _Durability:
    """Turns every way in which a database can be out of reach into `NotDurable`, told in these words."""

    def __init__(self, hot: HotPath, words: str) -> None:
        self._words = words
        self._mistakes: ErrorTypes = (IntegrityError, ProgrammingError, *hot.mistakes)
        self._failures: ErrorTypes = (DBAPIError, PoolTimeout, *hot.failures, OSError, TimeoutError)

    def __enter__(self) -> None: ...

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error is None or isinstance(error, self._mistakes):
            return
        is_wrapped = isinstance(error, StatementError) and isinstance(error.orig, OSError)
        if is_wrapped or isinstance(error, self._failures):
            raise NotDurable(f"{self._words} ({_plain_reason(error)}). Try again soon.") from error


_NOISE = re.compile(r"<class '[^']*'>: |\s*\(Background on this error.*", re.DOTALL)


def _plain_reason(error: BaseException) -> str:
    origin = getattr(error, "orig", None) or error
    reason = _NOISE.sub("", str(origin)).strip() or type(origin).__name__
    return reason[:200]
