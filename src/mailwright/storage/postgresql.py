"""Connections to PostgreSQL through SQLAlchemy and asyncpg."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

from sqlalchemy import Executable
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from mailwright.storage.connection import COMPILED, Fetched, fetched
from mailwright.storage.postgresql_connection import PooledConnection
from mailwright.storage.postgresql_servers import CONNECT_SECONDS, PostgresqlServers
from mailwright.storage.standbys import WAIT_SECONDS

# Reports may take long. The hot path has a shorter deadline, and a change of the schema has none.
_COMMAND_SECONDS: Final = 60
# How often a read that waits for its server looks again.
_READY_SECONDS: Final = 0.02
# The server became a standby while the connection was open.
_READ_ONLY: Final = "25006"


class PostgresqlDialect(PGDialect_asyncpg):
    """Equal to other dialects of this class if their servers need the same statement text."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return type(other) is PostgresqlDialect and self._server() == other._server()

    def __hash__(self) -> int:
        return hash(PostgresqlDialect)

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        is_lost: bool = super().is_disconnect(e, connection, cursor)  # type: ignore[no-untyped-call]
        return is_lost or getattr(e, "sqlstate", None) == _READ_ONLY

    def on_connect(self) -> Callable[[Any], None]:
        """Prepare each statement where it is used, if it is forgotten after the transaction."""
        configure = super().on_connect()  # type: ignore[no-untyped-call]

        def connect(adapted: Any) -> None:
            configure(adapted)
            if not adapted.driver_connection.keeps_statements:
                adapted._prepared_statement_cache = None
                adapted._prepared_statement_name_func = str  # The empty name: the next statement replaces it.

        return connect

    def _server(self) -> tuple[object, ...]:
        return self.server_version_info, self._backslash_escapes


registry.register("postgresql.mailwright", __name__, PostgresqlDialect.__name__)


class PostgresqlConnection:
    """A connection in a transaction."""

    __slots__ = ("_connection",)

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def execute(self, expression: Executable, parameters: Any = None) -> Fetched:
        return fetched(await self._connection.execute(expression, parameters))

    async def execute_text(self, text: str, values: tuple[Any, ...]) -> Fetched:
        return fetched(await self._connection.exec_driver_sql(text, values))


class PostgresqlConnections:
    def __init__(
        self,
        servers: PostgresqlServers,
        size: int,
        *,
        pool_seconds: float = CONNECT_SECONDS,
        is_stalled: Callable[[int | None], Awaitable[bool]] | None = None,
    ) -> None:
        """Open no connection yet.

        `pool_seconds` is how long a transaction waits for one of the `size` connections. A write that takes long is
        abandoned if `is_stalled` returns True for its session, or for None if that is unknown.
        """
        self._is_stalled = is_stalled
        self._engine = create_async_engine(
            "postgresql+mailwright://",
            pool_size=size,
            max_overflow=0,
            pool_timeout=pool_seconds,
            async_creator=partial(servers.connect, command_timeout=_COMMAND_SECONDS),
            execution_options={"compiled_cache": COMPILED},
        )
        self._unlimited = create_async_engine(
            "postgresql+mailwright://", poolclass=NullPool, async_creator=partial(servers.connect, command_timeout=None)
        )

    @asynccontextmanager
    async def write(self) -> AsyncIterator[PostgresqlConnection]:
        """Begin a transaction that commits at the end of the block, or is rolled back if the block raises."""
        async with (
            self._engine.connect() as connection,
            _abandoned_if(self._is_stalled, connection),
            connection.begin(),
        ):
            yield PostgresqlConnection(connection)

    @asynccontextmanager
    async def read(self, within: float | None) -> AsyncIterator[PostgresqlConnection]:
        """Read one snapshot. `within` is the timeout in seconds for a server that does not respond."""
        async with _snapshot(self._engine, within) as connection:
            yield connection

    @asynccontextmanager
    async def read_apart(self, within: float) -> AsyncIterator[PostgresqlConnection]:
        """Read one snapshot with a new connection, which is closed afterwards."""
        async with _snapshot(self._unlimited, within) as connection:
            yield connection

    @asynccontextmanager
    async def read_when(
        self, is_ready: Callable[[PostgresqlConnection], Awaitable[bool]], within: float, connect_within: float
    ) -> AsyncIterator[PostgresqlConnection]:
        """Read one snapshot once `is_ready` returns True, which runs in earlier snapshots of the same server.

        Raises `TimeoutError` if that takes more than `within` seconds, or a connection more than `connect_within`.
        """
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(connect_within):
                connection = await stack.enter_async_context(self._engine.connect())
            await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            async with _abandoned_after(2 * within, connection), asyncio.timeout(within):
                while True:
                    async with connection.begin():
                        if await is_ready(PostgresqlConnection(connection)):
                            break
                    await asyncio.sleep(_READY_SECONDS)
            async with connection.begin():
                yield PostgresqlConnection(connection)

    async def run_sync(self, work: Callable[[Any], Any], *, is_limited: bool) -> None:
        """Run `work` with a synchronous connection. Unless `is_limited`, its statements may take any time."""
        engine = self._engine if is_limited else self._unlimited
        async with engine.connect() as connection, _abandoned_if(self._is_stalled, connection):
            await connection.run_sync(work)

    async def close(self) -> None:
        await self._engine.dispose()


@asynccontextmanager
async def _snapshot(engine: AsyncEngine, within: float | None) -> AsyncIterator[PostgresqlConnection]:
    async with engine.connect() as connection, _abandoned_after(within, connection):
        await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        async with connection.begin():
            yield PostgresqlConnection(connection)


@asynccontextmanager
async def _abandoned_after(seconds: float | None, connection: AsyncConnection) -> AsyncIterator[None]:
    """Terminate the connection if the block takes longer. Cancelling would wait for the unresponsive server."""
    if seconds is None:
        yield
        return
    driver = await _driver(connection)
    watchdog = asyncio.get_running_loop().call_later(seconds, driver.terminate)
    try:
        yield
    finally:
        watchdog.cancel()


@asynccontextmanager
async def _abandoned_if(
    is_stalled: Callable[[int | None], Awaitable[bool]] | None, connection: AsyncConnection
) -> AsyncIterator[None]:
    """Terminate the connection if the block takes long and its commit waits for a standby that is gone."""
    if is_stalled is None:
        yield
        return
    driver = await _driver(connection)
    # A pooler presents a process of its own.
    session = None if isinstance(driver, PooledConnection) else driver.get_server_pid()
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    looking: list[asyncio.Task[None]] = []

    async def look() -> None:
        if await is_stalled(session):
            driver.terminate()
        else:
            look_later()

    def look_later() -> None:
        timers.append(loop.call_later(WAIT_SECONDS, lambda: looking.append(loop.create_task(look()))))

    look_later()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        for task in looking:
            task.cancel()


async def _driver(connection: AsyncConnection) -> Any:
    driver = (await connection.get_raw_connection()).driver_connection
    assert driver is not None
    return driver
