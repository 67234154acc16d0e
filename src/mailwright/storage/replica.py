"""Read reports, exports and lists from a replica that has everything that was committed before the read.

Before each read, the position of the primary is compared with that of the replica, so that nobody misses what they have
just written, through whichever process. A replica that does not get there soon, or cannot be used for another reason,
is left alone for some seconds, and the primary is read instead.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from typing import Any, Final

from sqlalchemy import Label, func, literal_column, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from mailwright.domain.errors import ConfigurationInvalid, NotDurable
from mailwright.storage.connection import Connection
from mailwright.storage.movable_read import MovableRead
from mailwright.storage.postgresql import PostgresqlConnection, PostgresqlConnections
from mailwright.storage.postgresql_servers import PostgresqlServers
from mailwright.storage.replica_state import ReplicaProblem, ReplicaState
from mailwright.storage.server_history import COMPARED, HISTORY
from mailwright.storage.tables import installation

# Reports, exports and lists that read at the same time. The others wait.
CONNECTIONS: Final = 4
# How long a read waits for the replica, and before that for a new connection to it. A page must not become slow.
WAIT_SECONDS: Final = 0.5
CONNECT_SECONDS: Final = 1.0
# How long a replica that cannot be used is left alone.
AVOID_SECONDS: Final = 5.0

_COMPARED: Final = select(installation.c.value).where(installation.c.name == COMPARED).scalar_subquery()
_CLUSTER: Final[Label[str]] = literal_column("(SELECT system_identifier FROM pg_control_system())").label("cluster")
_PRIMARY: Final = select(
    literal_column("pg_current_wal_flush_lsn()::text").label("position"),
    func.current_database().label("name"),
    _CLUSTER,
    literal_column(HISTORY).label("history"),
    _COMPARED.label("compared"),
)
_STANDBY: Final = select(
    func.pg_is_in_recovery().label("is_standby"),
    func.current_database().label("name"),
    _CLUSTER,
    literal_column("pg_last_wal_replay_lsn()::text").label("position"),
    # The last transaction may be old because the primary was idle. The replica is late only if the primary is not
    # connected, or something received has not been replayed.
    literal_column(
        "CASE WHEN pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver)"
        " THEN 0 ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END"
    ).label("age"),
)
_STANDBY_COMPARED: Final = select(_COMPARED.label("compared"))


class _Unusable(Exception):
    def __init__(self, problem: ReplicaProblem, detail: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.detail = detail


class Replica:
    """The connections to a replica, and whether it can be read."""

    def __init__(
        self,
        read_primary: Callable[[], AbstractAsyncContextManager[Connection]],
        url: URL,
        failures: AbstractContextManager[None],
    ) -> None:
        """Open the replica. `failures` turns the errors of an unreachable server into `NotDurable`."""
        self._read_primary = read_primary
        self._connections = PostgresqlConnections(PostgresqlServers(url), CONNECTIONS, pool_seconds=WAIT_SECONDS / 2)
        self._failures = failures
        self._avoided_until: float | None = None

    async def measure(self) -> ReplicaState:
        """Find out whether the replica can be used now, and how far it is behind."""
        comparison = _Comparison()
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with AsyncExitStack() as stack:
                await self._enter(stack, comparison)
        except _Unusable as error:
            return ReplicaState(error.problem, error.detail, comparison.age)
        return ReplicaState(None, lag_seconds=loop.time() - began if comparison.has_waited else 0.0)

    async def close(self) -> None:
        await self._connections.close()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Connection]:
        """Read one snapshot of the replica, or of the primary if the replica cannot be used."""
        async with AsyncExitStack() as on_primary, AsyncExitStack() as on_replica:
            connection = await self._open(on_replica)
            if connection is None:
                yield await on_primary.enter_async_context(self._read_primary())
                return

            async def move(outage: NotDurable) -> Connection:
                with suppress(NotDurable):
                    await on_replica.__aexit__(type(outage), outage, outage.__traceback__)
                return await on_primary.enter_async_context(self._read_primary())

            yield MovableRead(connection, self._failures, move)
            with suppress(NotDurable):  # Everything has been read.
                await on_replica.aclose()

    async def _open(self, stack: AsyncExitStack) -> PostgresqlConnection | None:
        """Begin a read of the replica that ends with the stack, or return None if the primary has to be read."""
        now = asyncio.get_running_loop().time()
        if self._avoided_until is not None:
            if now < self._avoided_until:
                return None
            self._avoided_until = now + AVOID_SECONDS  # One read tries; the others do not wait for it.
        try:
            connection = await self._enter(stack, _Comparison())
        except _Unusable:
            self._avoid()
            return None
        self._avoided_until = None
        return connection

    def _avoid(self) -> None:
        self._avoided_until = asyncio.get_running_loop().time() + AVOID_SECONDS

    async def _enter(self, stack: AsyncExitStack, comparison: "_Comparison") -> PostgresqlConnection:
        comparison.primary = await self._find_position()
        try:
            async with AsyncExitStack() as opening:
                opening.push(self._avoid_after_failure)
                opening.enter_context(self._failures)
                ready = self._connections.read_when(comparison.is_ready, WAIT_SECONDS, CONNECT_SECONDS)
                connection = await opening.enter_async_context(ready)
                stack.push_async_exit(opening.pop_all())
        except (NotDurable, DBAPIError, ConfigurationInvalid) as error:
            if isinstance(error.__cause__, PoolTimeout):
                raise _Unusable(ReplicaProblem.BUSY) from error
            if comparison.has_waited and isinstance(error.__cause__, TimeoutError):
                raise _Unusable(ReplicaProblem.BEHIND) from error
            raise _Unusable(ReplicaProblem.UNREACHABLE, _reason(error)) from error
        return connection

    def _avoid_after_failure(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        """Read the primary next if a read of the replica has failed: the replica may have ended it to catch up."""
        if isinstance(error, NotDurable):
            self._avoid()

    async def _find_position(self) -> Any:
        try:
            async with self._read_primary() as connection:
                [row] = (await connection.execute(_PRIMARY)).rows
        except (DBAPIError, NotDurable) as error:
            raise _Unusable(ReplicaProblem.PRIMARY_UNKNOWN, _reason(error)) from error
        if row.compared not in (None, row.history):
            raise _Unusable(ReplicaProblem.OTHER_HISTORY)
        return row


class _Comparison:
    """Compares a replica with the position of its primary until it has got there."""

    primary: Any

    def __init__(self) -> None:
        self.has_waited = False
        self.age: float | None = None  # of the newest transaction that the replica has

    async def is_ready(self, connection: PostgresqlConnection) -> bool:
        [row] = (await connection.execute(_STANDBY)).rows
        if not row.is_standby:
            raise _Unusable(ReplicaProblem.NOT_A_REPLICA)
        if (row.cluster, row.name) != (self.primary.cluster, self.primary.name):
            raise _Unusable(ReplicaProblem.OTHER_DATABASE)
        if _position(row.position) < _position(self.primary.position):
            self.has_waited = True
            self.age = None if row.age is None else max(0.0, float(row.age))
            return False
        [compared] = (await connection.execute(_STANDBY_COMPARED)).rows
        if compared.compared != self.primary.compared:
            # It followed another server that has failed, and has gone further than the new primary.
            raise _Unusable(ReplicaProblem.OTHER_HISTORY)
        return True


def _position(text: str | None) -> int:
    """Return a position in the log (such as 16/B374D848) as a number."""
    high, low = (text or "0/0").split("/")
    return (int(high, 16) << 32) + int(low, 16)


def _reason(error: BaseException) -> str:
    """Return what the driver said, without what `NotDurable` adds for API clients."""
    cause = error.__cause__ or error
    text = str(getattr(cause, "orig", None) or cause).partition("\n")[0]
    return text[:200] or "no response"
