"""Ensure at startup that the database has the schema that this version needs."""

from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade
from mailwright.storage.schema_state import require_known, require_usable


async def prepare(database: Database) -> None:
    """Upgrade a SQLite database. An operator must upgrade PostgreSQL, because other machines may be using it."""
    if database.dialect == "sqlite" and not (await require_known(database)).is_usable:
        await upgrade(database)
    else:
        await require_usable(database)
