"""What an installation made for itself and keeps: made once, the same for every process."""

import secrets

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from mailwright.storage.database import Database
from mailwright.storage.tables import installation

UNSUBSCRIBE_SECRET = "unsubscribe_secret"  # noqa: S105 - the name of one, not one


async def found_secret(database: Database, name: str) -> str | None:
    """The one that was made, if one was ever needed."""
    async with database.read() as tx:
        rows = await tx.execute(select(installation.c.value).where(installation.c.name == name))
    return str(rows[0].value) if rows else None


async def kept_secret(database: Database, name: str) -> str:
    found = await found_secret(database, name)
    if found is not None:
        return found
    try:
        async with database.write() as tx:
            await tx.execute(insert(installation).values(name=name, value=secrets.token_urlsafe(32)))
    except IntegrityError:
        pass  # another process made it at the same moment; its one counts
    return await kept_secret(database, name)
