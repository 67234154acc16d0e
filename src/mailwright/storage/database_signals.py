"""Signals between processes through PostgreSQL (LISTEN and NOTIFY). They are hints: a lost one costs a little time."""

import asyncio
from collections.abc import Callable
from typing import Final

from sqlalchemy import text
from sqlalchemy.engine import URL

from mailwright.domain.errors import NotDurable
from mailwright.storage.database import Database

_CHANNEL: Final = "mailwright_wake"
# The commit of a signal does not wait for the disk.
_NOTIFY: Final = text(f"SELECT set_config('synchronous_commit', 'off', true), pg_notify('{_CHANNEL}', '')")


class CannotListen(Exception):
    """There is a connection pooler, which does not pass signals on."""


class DatabaseSignals:
    """Signals of one database. `direct_url` is its address without a connection pooler, if there is one."""

    def __init__(self, database: Database, direct_url: URL | None = None) -> None:
        self._database = database
        self._direct_url = direct_url

    async def publish(self) -> None:
        """Signal to all processes that listen, in a transaction of its own.

        Within the transaction that accepts messages, the commits of all processes would wait for each other.
        """
        if self._database.has_pooler and self._direct_url is None:
            return
        async with self._database.write() as tx:
            await tx.execute(_NOTIFY)

    async def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` at every signal, and once when listening begins. Raise when the connection has ended."""
        import asyncpg  # noqa: PLC0415 - installed only if PostgreSQL is used

        from mailwright.storage.postgresql_servers import PostgresqlServers  # noqa: PLC0415 - imports asyncpg

        servers = PostgresqlServers(self._direct_url or self._database.url)
        try:
            connection = await servers.connect()
            try:
                if servers.has_pooler:
                    raise CannotListen
                ended = asyncio.Event()
                connection.add_termination_listener(lambda _: ended.set())
                await connection.add_listener(_CHANNEL, lambda *_: heard())
                heard()
                await ended.wait()
            finally:
                connection.terminate()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise NotDurable(str(error)) from error
        raise NotDurable("the connection was closed")
