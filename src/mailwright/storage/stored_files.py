"""Files in the database: what all machines of an installation on PostgreSQL need, without a shared folder.

A file consists of parts, each with its position. Parts are added, and overwritten only by as many bytes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import BinaryIO, Final

from sqlalchemy import and_, delete, exists, insert, select, update

from mailwright.domain.clock import Instant
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import stored_files

ADD_PART: Final = statement("mailwright.storage", "add_file_part")
DELETE_FILES: Final = statement("mailwright.storage", "delete_files")

_PART_BYTES: Final = 1024**2
_BEFORE_FIRST: Final = -1


async def store_file(tx: Transaction, name: str, file: BinaryIO, now: Instant) -> None:
    """Store the content of a file, from its beginning to its end, under a new name, in the caller's transaction."""
    position = 0
    while (content := await asyncio.to_thread(file.read, _PART_BYTES)) or not position:
        part = {"name": name, "position": position, "content": content, "stored_at": now}
        await tx.execute(insert(stored_files).values(part))
        if not content:
            return  # An empty file has one empty part.
        position += len(content)


async def add_part(tx: Runner, name: str, position: int, content: bytes, now: Instant) -> None:
    """Add a part to a file, in the caller's transaction."""
    part = {"name": name, "position": position, "content": content, "stored_at": now}
    await tx.count(ADD_PART, parts=[part])


async def delete_files(tx: Runner, names: Sequence[str]) -> None:
    """Delete files, in the caller's transaction. Names without a file are ignored."""
    await tx.count(DELETE_FILES, names=[(name,) for name in names])


async def delete_older(database: Database, prefix: str, suffix: str, before: Instant) -> None:
    """Delete the files whose name begins and ends like this and that were stored before this time."""
    c = stored_files.c
    named = and_(c.name.startswith(prefix, autoescape=True), c.name.endswith(suffix, autoescape=True))
    async with database.write() as tx:
        await tx.execute(delete(stored_files).where(named, c.stored_at < before))


async def is_stored(database: Database, name: str) -> bool:
    async with database.read() as tx:
        rows = await tx.execute(select(exists().where(stored_files.c.name == name).label("found")))
    return bool(rows[0].found)


async def list_files(database: Database, prefix: str) -> list[str]:
    """Return the names that begin like this."""
    name = stored_files.c.name
    query = select(name).where(name.startswith(prefix, autoescape=True)).distinct().order_by(name)
    async with database.read() as tx:
        return [row.name for row in await tx.execute(query)]


async def read_file(database: Database, name: str) -> bytes | None:
    """Return the content of a small file, or None if there is no such file."""
    parts = [content async for _, content in read_parts(database, name)]
    return b"".join(parts) if parts else None


async def read_parts(database: Database, name: str) -> AsyncIterator[tuple[int, bytes]]:
    """Yield the parts of a file with their positions, one after the other; nothing if there is no such file."""
    c, position = stored_files.c, _BEFORE_FIRST
    while True:
        query = select(c.position, c.content).where(c.name == name, c.position > position).order_by(c.position).limit(1)
        async with database.read() as tx:
            rows = await tx.execute(query)
        if not rows:
            return
        position = rows[0].position
        yield position, rows[0].content


async def edit_part(database: Database, name: str, position: int, edit: Callable[[bytes], bytes]) -> None:
    """Replace a part by one of the same length. The part is locked, so that concurrent edits do not undo each other."""
    part = and_(stored_files.c.name == name, stored_files.c.position == position)
    async with database.write() as tx:
        for row in await tx.execute(select(stored_files.c.content).where(part).with_for_update()):
            await tx.execute(update(stored_files).where(part).values(content=edit(row.content)))
