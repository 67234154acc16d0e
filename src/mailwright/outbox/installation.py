"""Values that an installation generates once and shares between its processes."""

import secrets
from collections.abc import Callable

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from mailwright.outbox.installation_values import insert_value, load_value, store_value
from mailwright.storage.database import Database
from mailwright.storage.tables import installation

UNSUBSCRIBE_SECRET = "unsubscribe_secret"  # noqa: S105 - the name of a secret
_ADDRESS = "address"
_SETUP_PROGRESS = "setup_progress"


async def find_secret(database: Database, name: str) -> str | None:
    """Return the stored secret, or None if it has not been generated yet."""
    return await _find_value(database, name)


async def get_or_create_secret(database: Database, name: str) -> str:
    stored = await find_secret(database, name)
    if stored is not None:
        return stored
    try:
        async with database.write() as tx:
            await insert_value(tx, name, secrets.token_urlsafe(32))
    except IntegrityError:
        pass  # Another process generated it at the same time. Use that one.
    return await get_or_create_secret(database, name)


async def find_address(database: Database) -> str | None:
    """Return the URL of the last process that served the dashboard, or None."""
    return await _find_value(database, _ADDRESS)


async def save_address(database: Database, address: str) -> None:
    if await find_address(database) != address:
        async with database.write() as tx:
            await store_value(tx, _ADDRESS, address)


async def find_setup_progress(database: Database) -> str | None:
    """Return the progress of the set-up as JSON, or None if it has not begun."""
    return await _find_value(database, _SETUP_PROGRESS)


async def change_setup_progress(database: Database, change: Callable[[str | None], str | None]) -> None:
    """Replace the progress with the result of `change` while its row is locked.

    If the result is None, nothing changes.
    """
    matching = installation.c.name == _SETUP_PROGRESS
    try:
        async with database.write() as tx:
            rows = await tx.execute(select(installation.c.value).where(matching).with_for_update())
            text = change(str(rows[0].value) if rows else None)
            if text is not None:
                await (store_value if rows else insert_value)(tx, _SETUP_PROGRESS, text)
    except IntegrityError:
        # Another process saved the first progress at the same time. Now there is a row to lock.
        await change_setup_progress(database, change)


async def _find_value(database: Database, name: str) -> str | None:
    async with database.read() as tx:
        return await load_value(tx, name)
