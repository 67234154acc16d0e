"""Facts about the database server or file: its clock, its size and who uses it."""

from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotDurable
from mailwright.storage.database import PROMPT_SECONDS, Database, Transaction
from mailwright.storage.server_history import HISTORY

# The role may not call a function, or the server has none of this name or does not support it.
_UNSUPPORTED: Final = ("42501", "42883", "0A000")


async def server_time(tx: Transaction, dialect: str) -> Instant | None:
    """Return the time of the PostgreSQL server, or None on SQLite, which has no clock of its own."""
    if dialect == "sqlite":
        return None
    [row] = await tx.execute(text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"))
    return int(row[0])


async def database_bytes(database: Database) -> int:
    """Return the size of the database with its indexes; on SQLite, of the file and its WAL."""
    if database.dialect == "sqlite":
        file = Path(str(database.url.database))
        return sum(part.stat().st_size for part in (file, Path(f"{file}-wal")) if part.exists())
    async with database.read() as tx:
        [row] = await tx.execute(text("SELECT pg_database_size(current_database())"))
    return int(row[0])


async def count_other_sessions(database: Database) -> int:
    """Return how many sessions other processes of Mailwright have at the PostgreSQL server."""
    async with database.read() as tx:  # This process has a single connection while it asks.
        [row] = await tx.execute(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name = 'mailwright' AND pid <> pg_backend_pid()"
            )
        )
    return int(row[0])


async def find_history(database: Database) -> str | None:
    """Return the history of the PostgreSQL server, or None on SQLite and if the role may not read it."""
    if database.dialect == "sqlite":
        return None
    try:
        async with database.read(within=PROMPT_SECONDS) as tx:
            [row] = await tx.execute(text(f"SELECT CASE WHEN NOT pg_is_in_recovery() THEN {HISTORY} END"))
    except (DBAPIError, NotDurable) as error:
        if _state_of(error) not in _UNSUPPORTED:
            raise
        return None
    if row[0] is None:
        raise NotDurable("The database server is a standby. Retry shortly.")
    database.has_history = True
    return str(row[0])


def _state_of(error: BaseException) -> str | None:
    cause = error if isinstance(error, DBAPIError) else error.__cause__
    return getattr(cause.orig, "sqlstate", None) if isinstance(cause, DBAPIError) else None
