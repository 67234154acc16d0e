"""The table `installation`: values by name, and cursors of background tasks."""

from sqlalchemy import delete, insert, select, update

from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import installation

STORE_VALUE = statement(__package__, "store_value")


async def load_value(tx: Transaction, name: str) -> str | None:
    rows = await tx.execute(select(installation.c.value).where(installation.c.name == name))
    return str(rows[0].value) if rows else None


async def insert_value(tx: Transaction, name: str, value: str) -> None:
    """Store a new value, or raise `IntegrityError` if there is one."""
    await tx.execute(insert(installation).values(name=name, value=value))


async def store_value(tx: Transaction, name: str, value: str) -> None:
    """Store a value in place of any earlier one, even if two processes do it at the same time."""
    await tx.run(STORE_VALUE, name=name, value=value)


async def lock_value(tx: Transaction, name: str, value: str) -> bool:
    """Keep a value unchanged until the transaction ends. Return False if it is another one."""
    matching = (installation.c.name == name, installation.c.value == value)
    kept = update(installation).where(*matching).values(value=value)
    return bool(await tx.execute(kept.returning(installation.c.name)))


async def take_value(tx: Transaction, name: str, value: str | None = None) -> str | None:
    """Delete a value and return it, or None if there is none. If `value` is given, delete only this one."""
    matching = [installation.c.name == name]
    if value is not None:
        matching.append(installation.c.value == value)
    rows = await tx.execute(delete(installation).where(*matching).returning(installation.c.value))
    return str(rows[0].value) if rows else None


async def load_position(tx: Transaction, cursor: str) -> int | None:
    """Return the position of a cursor, or None if it has not been moved yet."""
    value = await load_value(tx, cursor)
    return None if value is None else int(value)


async def move_cursor(tx: Transaction, cursor: str, before: int | None, position: int) -> bool:
    """Move a cursor. Return False, or raise `IntegrityError`, if another process has moved it meanwhile."""
    if before is None:
        await insert_value(tx, cursor, str(position))
        return True
    is_unmoved = (installation.c.name == cursor, installation.c.value == str(before))
    moved = update(installation).where(*is_unmoved).values(value=str(position))
    return bool(await tx.execute(moved.returning(installation.c.name)))
