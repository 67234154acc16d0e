"""Read and write transactions, the same on SQLite and PostgreSQL.

A write is committed when its block ends, or the block raises an error. Every failure that prevents the commit (a full
disk, an unreachable server, a lock timeout) raises `NotDurable`, so that callers handle a single error.
"""

import asyncio
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy import Executable
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.row import Row
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, ProgrammingError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from mailwright.domain.errors import ConfigurationInvalid, NotDurable
from mailwright.storage.connection import Connection, Connections
from mailwright.storage.hot import Change, ErrorTypes, HotPath, SqliteHotPath, Work
from mailwright.storage.outages import access_denied, explain_outage, is_denied
from mailwright.storage.postgresql_url import looks_like_postgresql, parse_postgresql
from mailwright.storage.secret_box import SecretBox
from mailwright.storage.sqlite import SqliteConnections
from mailwright.storage.standbys import WAIT_SECONDS, StandbyWatch
from mailwright.storage.statements import Dialect, Statement
from mailwright.storage.writer_lock import WriterLock

if TYPE_CHECKING:
    from mailwright.storage.replica import Replica

# How long a SQLite write waits for another process's write. With a longer wait, API clients would time out.
SQLITE_BUSY_MILLISECONDS = 5_000
# Callers that must get a response soon (accepts, sign-ins, health checks) wait this long for a stalled server.
PROMPT_SECONDS = 4.0

# The pragmas that SQLite stores in the file. The first one must precede the second, and only new files get it; it lets
# them shrink.
STORED_PRAGMAS = ("auto_vacuum = INCREMENTAL", "journal_mode = WAL")
SQLITE_PRAGMAS = (
    f"busy_timeout = {SQLITE_BUSY_MILLISECONDS}",
    *STORED_PRAGMAS,
    "synchronous = FULL",  # NORMAL may lose accepted messages in a power failure.
    "foreign_keys = ON",
    "cache_size = -65536",
    "temp_store = MEMORY",
    "mmap_size = 268435456",
)
_SETTING = "MAILWRIGHT_DATABASE_URL"
READ_SETTING = "MAILWRIGHT_DATABASE_READ_URL"
Rows = Sequence[Row[Any]]
T = TypeVar("T")


class Transaction:
    """An open transaction. Runs statements from files and SQLAlchemy expressions."""

    __slots__ = ("_connection", "_dialect")

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect

    async def run(self, statement: Statement, **parameters: Any) -> Rows:
        """Run a statement from a file, and return its rows."""
        text, values = statement.bind(self._dialect, parameters)
        return (await self._connection.execute_text(text, tuple(values))).rows

    async def count(self, statement: Statement, **parameters: Any) -> int:
        text, values = statement.bind(self._dialect, parameters)
        return (await self._connection.execute_text(text, tuple(values))).changed

    async def execute(self, expression: Executable, parameters: Any = None) -> Rows:
        return (await self._connection.execute(expression, parameters)).rows


class Readable(Protocol):
    """The database, or one snapshot of it."""

    @property
    def secret_box(self) -> SecretBox: ...

    def read(self) -> AbstractAsyncContextManager[Transaction]: ...


class ReadSnapshot:
    """The snapshot of an open read. Functions that each read the database get results that agree."""

    def __init__(self, database: "Database", tx: Transaction) -> None:
        self.secret_box = database.secret_box
        self._tx = tx

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        yield self._tx


class Database:
    """The connections of a process. Create one per process, and close it."""

    has_history = False  # Whether the history of the server can be read: see `server_state.find_history`.

    def __init__(
        self,
        url: str,
        *,
        connections: int = 12,
        is_ours: bool = True,
        secret_box: SecretBox | None = None,
        read_url: str | None = None,
    ) -> None:
        """Open the database. Pass `is_ours=False` to leave the journal mode of a SQLite file unchanged.

        `connections` is the maximum number of connections to PostgreSQL.
        `secret_box` encrypts and decrypts the stored secrets; without it, they cannot be used.
        `read_url` is the address of a PostgreSQL replica, which `reader` uses.
        """
        self.url = parse_url(url)
        self.secret_box = secret_box or SecretBox()
        self.dialect: Dialect = "sqlite" if self.url.get_backend_name() == "sqlite" else "postgresql"
        self._pragmas = tuple(each for each in SQLITE_PRAGMAS if is_ours or each not in STORED_PRAGMAS)
        if self.dialect == "sqlite":
            lock = _writer_lock(self.url) if is_ours else None
            # Setting a stored pragma writes to the file, also to one of another program.
            reading = tuple(each for each in self._pragmas if each not in STORED_PRAGMAS)
            self._connections: Connections = SqliteConnections(self.url, self._pragmas, reading, lock)
            self._hot: HotPath = SqliteHotPath(self._connect_sqlite, lock)
            # SQLite has one writer. Waiting for this lock is fair and cheap, unlike waiting in SQLite's busy loop.
            self._write_lock: asyncio.Lock | None = asyncio.Lock()
            self._waiting_writes = 0
            self._standbys: StandbyWatch | None = None
        else:
            from mailwright.storage import hot_postgresql, postgresql, postgresql_servers  # noqa: PLC0415 - slow to import

            self._servers = servers = postgresql_servers.PostgresqlServers(self.url)
            hot = max(1, connections // 3)
            self._standbys = StandbyWatch(self._read_apart, self._read_connection)
            self._connections = postgresql.PostgresqlConnections(
                servers, connections - hot, is_stalled=self._standbys.is_stalled
            )
            self._hot = hot_postgresql.PostgresqlHotPath(servers, hot)
            self._write_lock = None
        self._durability = _Durability(self._hot, "The database cannot store this now", self.url)
        self._reach = _Durability(self._hot, "The database cannot be reached", self.url)
        self.replica: Replica | None = None
        if read_url is not None:
            from mailwright.storage import replica  # noqa: PLC0415 - slow to import

            replica_url = parse_replica_url(read_url, self.url)
            failures = _Durability(self._hot, "The replica of the database cannot be read", replica_url)
            self.replica = replica.Replica(self._read_connection, replica_url, failures)

    @property
    def reader(self) -> Readable:
        """Where reports, exports and lists are read: the replica, if there is one and it has every commit.

        Nothing that decides about sending may use it.
        """
        return self if self.replica is None else ReplicaReader(self, self.replica)

    @property
    def has_pooler(self) -> bool:
        """Whether a connection pooler is before the PostgreSQL server. It is known after the first connection."""
        return self.dialect == "postgresql" and self._servers.has_pooler

    @property
    def keeps_statements(self) -> bool:
        """Whether each pooler keeps prepared statements for the transactions of its client."""
        return self.dialect == "postgresql" and self._servers.keeps_statements

    @asynccontextmanager
    async def _exclusive_write(self) -> AsyncIterator[None]:
        """Wait for the write lock, at most as long as SQLite's busy timeout, so that callers do not queue for long.

        PostgreSQL needs no lock. A write that failed after a long wait says whether it waited for a standby.
        """
        if self._standbys is not None:
            await self._standbys.require_standby()
            loop = asyncio.get_running_loop()
            began = loop.time()
            try:
                yield
            except NotDurable as error:
                if loop.time() - began < WAIT_SECONDS:
                    raise
                raise await self._standbys.explain(error) from error
            return
        assert self._write_lock is not None
        if self._write_lock.locked() or self._waiting_writes:
            await self._wait_for_write_lock(self._write_lock)
        else:
            await self._write_lock.acquire()  # Never waits, so it needs no timeout.
        try:
            yield
        finally:
            self._write_lock.release()

    async def _wait_for_write_lock(self, lock: asyncio.Lock) -> None:
        self._waiting_writes += 1
        try:
            async with asyncio.timeout(SQLITE_BUSY_MILLISECONDS / 1000):
                await lock.acquire()
        except TimeoutError as error:
            raise NotDurable("The database is busy with other writes. Retry shortly.") from error
        finally:
            self._waiting_writes -= 1

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        async with self._exclusive_write():
            with self._durability:
                async with self._connections.write() as connection:
                    yield Transaction(connection, self.dialect)

    async def transact(self, work: Work[T], *, within: float | None = None) -> T:
        """Run a write on the hot path, with the same guarantee as `write` but without SQLAlchemy.

        `within` is the timeout in seconds for a server that does not respond.
        """
        async with self._exclusive_write():
            with self._durability:
                return await self._hot.transact(work, within)

    async def apply(self, changes: Sequence[Change]) -> bool:
        """Apply all changes in one transaction.

        If one of them changes an unexpected number of rows, apply none and return False.

        The changes must not depend on each other: on PostgreSQL they run as one statement, in one round trip.
        """
        async with self._exclusive_write():
            with self._durability:
                return await self._hot.apply(changes)

    @asynccontextmanager
    async def read(self, *, within: float | None = None) -> AsyncIterator[Transaction]:
        """Run all statements of the block on one snapshot, also on PostgreSQL, so that their results agree.

        `within` is the timeout in seconds for a server that does not respond.
        """
        async with self._read_connection(within) as connection:
            yield Transaction(connection, self.dialect)

    @asynccontextmanager
    async def _read_connection(self, within: float | None = None) -> AsyncIterator[Connection]:
        with self._reach:
            async with self._connections.read(within) as connection:
                yield connection

    @asynccontextmanager
    async def _read_apart(self, within: float) -> AsyncIterator[Connection]:
        """Read with a connection of its own, so that stalled transactions cannot occupy it."""
        with self._reach:
            async with self._connections.read_apart(within) as connection:
                yield connection

    async def run_sync_ddl(self, work: Any, *, read_only: bool = False) -> None:
        """Run `work` with a synchronous connection, as changes of the schema need it."""
        self.create_private_file()
        with self._reach if read_only else self._durability:
            await self._connections.run_sync(work, is_limited=read_only)

    def create_private_file(self) -> None:
        """Create a missing SQLite file that only its owner can read, before the driver creates a public one."""
        if self.dialect == "sqlite":
            _create_private_file(Path(self.url.database or ""))

    def _connect_sqlite(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.url.database or "", isolation_level=None, check_same_thread=False, cached_statements=512
        )
        for pragma in self._pragmas:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    async def close(self) -> None:
        if self.replica is not None:
            await self.replica.close()
        await self._hot.close()
        await self._connections.close()


class ReplicaReader:
    """Reads from the replica if it has every commit, otherwise from the database itself."""

    def __init__(self, database: Database, replica: "Replica") -> None:
        self.secret_box = database.secret_box
        self._dialect = database.dialect
        self._replica = replica

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        async with self._replica.read() as connection:
            yield Transaction(connection, self._dialect)


def is_missing(database: Database) -> bool:
    """Return whether the SQLite file does not exist. Opening it would create an empty one."""
    return database.dialect == "sqlite" and not Path(str(database.url.database)).exists()


def parse_url(text: str, setting: str = _SETTING) -> URL:
    """Parse `sqlite:///file.db`, or the address of a PostgreSQL database in any form. Mailwright chooses the driver.

    An error names the setting.
    """
    try:
        return _parse_url(text)
    except ConfigurationInvalid as error:
        raise ConfigurationInvalid(*(each.replace(_SETTING, setting, 1) for each in error.problems)) from error


def parse_replica_url(text: str, primary: URL) -> URL:
    """Parse the address of a replica of the PostgreSQL database `primary`."""
    if primary.get_backend_name() == "sqlite":
        raise ConfigurationInvalid(
            f"{READ_SETTING}: only PostgreSQL has replicas, and {_SETTING} names a SQLite file; unset it"
        )
    if not looks_like_postgresql(text):
        raise ConfigurationInvalid(
            f"{READ_SETTING}: not the address of a PostgreSQL server; use postgresql://user:password@host/name"
        )
    return parse_url(text, READ_SETTING)


def _parse_url(text: str) -> URL:
    if looks_like_postgresql(text):
        return parse_postgresql(text)
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError) as error:
        raise ConfigurationInvalid(
            "MAILWRIGHT_DATABASE_URL: not a database URL; use sqlite:///file.db or postgresql://user:password@host/name"
        ) from error
    match backend:
        case "sqlite":
            return url.set(drivername="sqlite", database=_sqlite_file(url))
        case _:
            raise ConfigurationInvalid(f"MAILWRIGHT_DATABASE_URL: {backend} is not supported; use SQLite or PostgreSQL")


def _writer_lock(url: URL) -> WriterLock:
    """Return the lock with which the processes that share a SQLite file take turns writing."""
    return WriterLock(Path(f"{url.database}-writer"), SQLITE_BUSY_MILLISECONDS / 1000)


def _create_private_file(path: Path) -> None:
    """Create a file that only its owner can read. SQLite gives its WAL the same mode."""
    with suppress(OSError):  # An existing file keeps its mode; any other problem is reported by SQLite.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))


def _sqlite_file(url: URL) -> str:
    if not url.database or url.database == ":memory:":
        raise ConfigurationInvalid(
            "MAILWRIGHT_DATABASE_URL: an in-memory database would lose messages; use a file: sqlite:///mailwright.db"
        )
    return str(Path(url.database).expanduser())


class _Durability:
    """Turns every failure of an unreachable database into `NotDurable` with the given message."""

    def __init__(self, hot: HotPath, message: str, url: URL) -> None:
        self._message = message
        self._url = url
        self._programming_errors: ErrorTypes = (IntegrityError, ProgrammingError, *hot.programming_errors)
        self._outage_errors: ErrorTypes = (DBAPIError, PoolTimeout, *hot.outage_errors, OSError, TimeoutError)

    def __enter__(self) -> None: ...

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error is None:
            return
        if isinstance(error, self._programming_errors):
            if is_denied(error):
                raise access_denied(self._url, error) from error
            return
        is_wrapped = isinstance(error, StatementError) and isinstance(error.orig, OSError)
        if is_wrapped or isinstance(error, self._outage_errors):
            raise explain_outage(self._message, self._url, error) from error


# The error texts of SQLite and PostgreSQL for a schema of another version.
_OTHER_SCHEMA = re.compile(
    r"no such (table|column)|has no column named|relation .* does not exist|column .* does not exist"
)


def is_schema_mismatch(error: BaseException) -> bool:
    """Return whether a statement failed because a table or column is missing."""
    return bool(_OTHER_SCHEMA.search(str(error)))
