"""The hot path on PostgreSQL: prepared statements on bare connections. Imported only if PostgreSQL is used."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

import asyncpg
from sqlalchemy.engine import URL

from mailwright.storage.hot import Change, ErrorTypes, Work, row_class_of
from mailwright.storage.statements import Statement, merged

T = TypeVar("T")

# Every statement of the hot path finds a few rows by their keys. While a table is small or its statistics are old,
# PostgreSQL would scan it for each batch: with 10,000 messages, beginning an attempt took 84 µs instead of 10.
_BY_KEY = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}

# A plan is kept for this long, because a plan that was made for an almost empty table is slow once the table is large.
_PLAN_SECONDS = 60

# PostgreSQL rolls back one of two deadlocked transactions, which then runs again.
MAX_DEADLOCK_RETRIES = 3


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that needs no reset: it leaves no session variable, cursor or listener behind."""

    def get_reset_query(self) -> str:
        return ""


class PostgresqlHotPath:
    """A small pool of bare connections; each keeps its statements prepared."""

    programming_errors: ErrorTypes = (
        asyncpg.IntegrityConstraintViolationError,
        asyncpg.SyntaxOrAccessError,
        asyncpg.DataError,
        asyncpg.PLPGSQLError,  # raised by a trigger, for example
    )
    outage_errors: ErrorTypes = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

    def __init__(self, url: URL, connect_arguments: dict[str, Any], size: int) -> None:
        self._dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
        settings = {**connect_arguments["server_settings"], **_BY_KEY}
        self._arguments = {**connect_arguments, "server_settings": settings}
        self._size = size
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    async def transact(self, work: Work[T], within: float | None = None) -> T:
        for _ in range(MAX_DEADLOCK_RETRIES):
            with suppress(asyncpg.DeadlockDetectedError):
                return await self._transact(work, within)
        return await self._transact(work, within)

    async def _transact(self, work: Work[T], within: float | None) -> T:
        pool = self._pool or await self._open()
        # Wait at most as long as connecting may take, so that callers get an error instead of queueing.
        async with pool.acquire(timeout=within or self._arguments["timeout"]) as connection:
            if within is None:
                async with connection.transaction():
                    return await work(_PostgresqlRunner(connection))
            # Terminating the connection fails every await on it at once; cancelling would wait for the stalled server.
            watchdog = asyncio.get_running_loop().call_later(within, connection.terminate)
            try:
                async with connection.transaction():
                    return await work(_PostgresqlRunner(connection))
            finally:
                watchdog.cancel()

    async def apply(self, changes: Sequence[Change]) -> bool:
        """Send the changes as one statement, which is its own transaction and takes one round trip."""
        text = merged(tuple(change.statement for change in changes))
        values = [value for change in changes for value in change.statement.bind("postgresql", change.parameters)[1]]
        pool = self._pool or await self._open()
        async with pool.acquire(timeout=self._arguments["timeout"]) as connection:
            try:
                await connection.execute(text, *values, *(change.expected for change in changes))
            except (asyncpg.InvalidTextRepresentationError, asyncpg.DeadlockDetectedError):
                return False
        return True

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._dsn,
                    min_size=0,
                    max_size=self._size,
                    connection_class=_Connection,
                    max_cached_statement_lifetime=_PLAN_SECONDS,
                    **self._arguments,
                )
            return self._pool


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
