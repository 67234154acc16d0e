"""Values that an installation generates once and shares between its processes."""

import secrets

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from mailwright.storage.database import Database
from mailwright.storage.tables import installation

UNSUBSCRIBE_SECRET = "unsubscribe_secret"  # noqa: S105 - the name of a secret
_ADDRESS = "address"


async def find_secret(database: Database, name: str) -> str | None:
    """Return the stored secret, or None if it has not been generated yet."""
    return await _find_value(database, name)


async def get_or_create_secret(database: Database, name: str) -> str:
    stored = await find_secret(database, name)
    if stored is not None:
        return stored
    try:
        async with database.write() as tx:
            await tx.execute(insert(installation).values(name=name, value=secrets.token_urlsafe(32)))
    except IntegrityError:
        pass  # Another process generated it at the same time. Use that one.
    return await get_or_create_secret(database, name)


async def find_address(database: Database) -> str | None:
    """Return the URL of the last process that served the dashboard, or None."""
    return await _find_value(database, _ADDRESS)


async def save_address(database: Database, address: str) -> None:
    if await find_address(database) == address:
        return
    try:
        async with database.write() as tx:
            await tx.execute(delete(installation).where(installation.c.name == _ADDRESS))
            await tx.execute(insert(installation).values(name=_ADDRESS, value=address))
    except IntegrityError:
        pass  # Another process saved its address at the same time. Either address is valid.


async def _find_value(database: Database, name: str) -> str | None:
    async with database.read() as tx:
        rows = await tx.execute(select(installation.c.value).where(installation.c.name == name))
    return str(rows[0].value) if rows else None
