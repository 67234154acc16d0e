"""The hot path on PostgreSQL: prepared statements on bare connections. Imported only if PostgreSQL is used."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import asyncpg

from mailwright.storage.hot import Change, ErrorTypes, Work, row_class_of
from mailwright.storage.postgresql_connection import DriverConnection
from mailwright.storage.postgresql_servers import CONNECT_SECONDS, PostgresqlServers
from mailwright.storage.statements import Statement, merged

T = TypeVar("T")

# Every statement of the hot path finds a few rows by their keys. While a table is small or its statistics are old,
# PostgreSQL would scan it for each batch: with 10,000 messages, beginning an attempt took 84 µs instead of 10.
_BY_KEY = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}

# A plan is kept for this long, because a plan that was made for an almost empty table is slow once the table is large.
_PLAN_SECONDS = 60

# A statement of the hot path takes milliseconds. After this long its server is taken as lost.
_STALLED_SECONDS = 10

# PostgreSQL rolls back one of two deadlocked transactions, which then runs again.
MAX_DEADLOCK_RETRIES = 3


class PostgresqlHotPath:
    """A small pool of bare connections; each keeps its statements prepared."""

    programming_errors: ErrorTypes = (
        asyncpg.IntegrityConstraintViolationError,
        asyncpg.SyntaxOrAccessError,
        asyncpg.DataError,
        asyncpg.PLPGSQLError,  # raised by a trigger, for example
    )
    outage_errors: ErrorTypes = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

    def __init__(self, servers: PostgresqlServers, size: int) -> None:
        self._servers = servers
        self._size = size
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    async def transact(self, work: Work[T], within: float | None = None) -> T:
        for _ in range(MAX_DEADLOCK_RETRIES):
            with suppress(asyncpg.DeadlockDetectedError):
                return await self._transact(work, within)
        return await self._transact(work, within)

    async def _transact(self, work: Work[T], within: float | None) -> T:
        async with self._connection(within) as connection, connection.transaction():
            return await work(_PostgresqlRunner(connection))

    async def apply(self, changes: Sequence[Change]) -> bool:
        """Send the changes as one statement, which is its own transaction and takes one round trip."""
        text = merged(tuple(change.statement for change in changes))
        values = [value for change in changes for value in change.statement.bind("postgresql", change.parameters)[1]]
        try:
            async with self._connection(None) as connection, connection.around_statement():
                await connection.execute(text, *values, *(change.expected for change in changes))
        except (asyncpg.InvalidTextRepresentationError, asyncpg.DeadlockDetectedError):
            return False
        return True

    @asynccontextmanager
    async def _connection(self, within: float | None) -> AsyncIterator[Any]:
        """Lend a connection, and terminate it if the block takes too long or the server became a standby.

        Terminating the connection fails every await on it at once; cancelling would wait for the stalled server.
        """
        pool = self._pool or await self._open()
        # Wait at most as long as connecting may take, so that callers get an error instead of queueing.
        async with pool.acquire(timeout=within or CONNECT_SECONDS) as connection:
            watchdog = asyncio.get_running_loop().call_later(within or _STALLED_SECONDS, connection.terminate)
            try:
                yield connection
            except asyncpg.ReadOnlySQLTransactionError:
                connection.terminate()
                raise
            finally:
                watchdog.cancel()

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    connect=self._connect,
                    min_size=0,
                    max_size=self._size,
                    connection_class=DriverConnection,
                    max_cached_statement_lifetime=_PLAN_SECONDS,
                )
            return self._pool

    async def _connect(self, *_: Any, **arguments: Any) -> DriverConnection:
        return await self._servers.connect(_BY_KEY, **arguments)


class _PostgresqlRunner:
    __slots__ = ("_connection",)

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def run(self, statement: Statement, **parameters: Any) -> Sequence[Any]:
        text, values = statement.bind("postgresql", parameters)
        rows = await self._connection.fetch(text, *values)
        if not rows:
            return ()
        row_class = _row_classes.get(statement)
        if row_class is None:
            row_class = _row_classes[statement] = row_class_of([*rows[0].keys()])
        return [row_class._make(row) for row in rows]

    async def count(self, statement: Statement, **parameters: Any) -> int:
        text, values = statement.bind("postgresql", parameters)
        # With parameters asyncpg prepares the statement, as for `fetch`. The result is a tag such as `UPDATE 64`.
        tag: str = await self._connection.execute(text, *values)
        return int(tag.rpartition(" ")[2])


_row_classes: dict[Statement, Any] = {}  # The row class of each statement that has run.
