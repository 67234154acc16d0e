"""Before anything is stored: the database has the newest form, or whoever starts us is told what to do."""

from mailwright.domain.errors import NotDurable
from mailwright.storage.database import Database
from mailwright.storage.migrate import current_revision, newest_revision, upgrade


async def prepare(database: Database) -> None:
    """SQLite belongs to this machine and is brought up here. On PostgreSQL others are at work: a person says when."""
    if database.dialect == "sqlite":
        await upgrade(database)
        return
    current, newest = await current_revision(database), newest_revision()
    if current != newest:
        state = f"has the form {current}" if current else "is empty"
        raise NotDurable(f"The database {state}; this Mailwright needs the form {newest}. Run `mailwright db upgrade`.")
