"""Ensure at startup that the database has the schema that this version needs."""

from mailwright.domain.errors import DatabaseNotReady
from mailwright.storage.database import Database
from mailwright.storage.migrate import needs_upgrade, newest_revision, upgrade


async def prepare(database: Database) -> None:
    """Upgrade a SQLite database. An operator must upgrade PostgreSQL, because other machines may be using it."""
    if database.dialect == "sqlite":
        await upgrade(database)
    elif await needs_upgrade(database):
        raise DatabaseNotReady(
            f"The database schema is older than this version (needs {newest_revision()}). Run `mailwright db upgrade`."
        )
