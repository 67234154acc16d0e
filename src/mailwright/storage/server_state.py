"""Facts about the database server or file: its clock and its size."""

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
