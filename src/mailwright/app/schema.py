"""Ensure at startup that the database has the schema that this version needs."""

from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade
from mailwright.storage.schema_state import refuse_outdated, require_known


async def prepare(database: Database) -> None:
    """Upgrade a SQLite database. An operator must upgrade PostgreSQL, because other machines may be using it."""
    found = await require_known(database)
    if database.dialect == "sqlite" and not found.is_usable:
        await upgrade(database)
    else:
        refuse_outdated(found)
