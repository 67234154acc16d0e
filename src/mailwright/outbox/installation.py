"""What an installation made or found out for itself and keeps, the same for every process."""

import secrets

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from mailwright.storage.database import Database
from mailwright.storage.tables import installation

UNSUBSCRIBE_SECRET = "unsubscribe_secret"  # noqa: S105 - the name of one, not one
_ADDRESS = "address"


async def find_secret(database: Database, name: str) -> str | None:
    """The one that was made, if one was ever needed."""
    return await _found(database, name)


async def get_or_create_secret(database: Database, name: str) -> str:
    found = await find_secret(database, name)
    if found is not None:
        return found
    try:
        async with database.write() as tx:
            await tx.execute(insert(installation).values(name=name, value=secrets.token_urlsafe(32)))
    except IntegrityError:
        pass  # another process made it at the same moment; its one counts
    return await get_or_create_secret(database, name)


async def find_address(database: Database) -> str | None:
    """Where the one that served last is reached, if one ever did."""
    return await _found(database, _ADDRESS)


async def save_address(database: Database, address: str) -> None:
    if await find_address(database) == address:
        return
    try:
        async with database.write() as tx:
            await tx.execute(delete(installation).where(installation.c.name == _ADDRESS))
            await tx.execute(insert(installation).values(name=_ADDRESS, value=address))
    except IntegrityError:
        pass  # another process began to serve at the same moment; its address is as good


async def _found(database: Database, name: str) -> str | None:
    async with database.read() as tx:
        rows = await tx.execute(select(installation.c.value).where(installation.c.name == name))
    return str(rows[0].value) if rows else None
