"""Connections to PostgreSQL, direct or through a connection pooler. They need nothing of a session.

Behind a pooler such as PgBouncer, the next transaction of a connection may use another connection of the server. So
settings are part of each transaction, and a statement is prepared in the transaction that runs it.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import asyncpg


class DriverConnection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that needs no reset: it leaves no session variable, cursor or listener behind."""

    keeps_statements = True  # Whether a prepared statement outlives its transaction.

    def get_reset_query(self) -> str:
        return ""

    def begins_with(self, settings: Mapping[str, str]) -> None:
        """Use these settings of the server in each transaction. A direct connection got them when it was made."""

    def around_statement(self) -> AbstractAsyncContextManager[Any]:
        """Return the transaction of a single statement."""
        return nullcontext()


class PooledConnection(DriverConnection):
    _settings = ""

    def begins_with(self, settings: Mapping[str, str]) -> None:
        self._settings = "".join(f"SET LOCAL {name} = {value};" for name, value in settings.items())

    def around_statement(self) -> AbstractAsyncContextManager[Any]:
        return self.transaction()  # type: ignore[no-any-return]

    async def execute(self, query: str, *arguments: Any, **options: Any) -> str:
        """Execute a query. The settings go with the BEGIN of the driver, in one message."""
        if query.startswith("BEGIN"):
            query += self._settings
        status: str = await super().execute(query, *arguments, **options)
        return status

    async def fetchval(self, *arguments: Any, **options: Any) -> Any:
        """Return a value. The driver asks in this way whether a server is a standby, outside of a transaction."""
        async with self.transaction():
            return await super().fetchval(*arguments, **options)
