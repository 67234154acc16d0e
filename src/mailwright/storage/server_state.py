"""Facts about the database server or file: its clock, its size and who uses it."""

from pathlib import Path

from sqlalchemy import text

from mailwright.domain.clock import Instant
from mailwright.storage.database import Database, Transaction


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
