"""Where uploaded files and import reports are: in a folder of this machine, or in the database for several machines."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from shutil import copyfile
from typing import Final, Protocol

from sqlalchemy import select

from mailwright.audience.importing.report import ImportReport, ReportFile, StoredReport, read_beginning
from mailwright.domain.clock import SECOND, Clock
from mailwright.domain.errors import NotFound
from mailwright.ops.temporary_folder import delete_unused_folders, open_temporary_folder
from mailwright.storage.database import Database, Transaction
from mailwright.storage.stored_files import delete_files, delete_older, is_stored, list_files, read_parts, store_file
from mailwright.storage.tables import imports

PREFIX: Final = "imports/"  # of the names in the database
# A staged file is deleted after this time.
STAGED_SECONDS: Final = 6 * 3600
_TEMPORARY: Final = ".mailwright-import-"


@asynccontextmanager
async def temporary_file(folder: Path) -> AsyncIterator[Path]:
    """Provide the path of a file that is deleted after the block or, if the process is killed, by the next one."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    opening = open_temporary_folder(_TEMPORARY, folder)
    own = await asyncio.to_thread(opening.__enter__)
    try:
        yield own.path / "contacts"
    finally:
        await asyncio.to_thread(opening.__exit__, None, None, None)


async def delete_abandoned_files(folder: Path) -> None:
    """Delete the temporary files of processes that were killed, also those of earlier versions, which had no lock."""
    await asyncio.to_thread(delete_unused_folders, _TEMPORARY, folder)
    for suffix in (".part", ".sheet"):
        await FolderFiles(folder).remove_older(suffix, STAGED_SECONDS)


async def delete_files_without_import(database: Database) -> None:
    """Delete the stored files of imports that a restore has removed, because no erasure would redact them any more."""
    names = await list_files(database, PREFIX)
    async with database.read() as tx:
        known = {row.import_id for row in await tx.execute(select(imports.c.import_id))}
    gone = [name for name in names if name.removeprefix(PREFIX).partition(".")[0] not in known]
    if gone:
        await database.transact(lambda tx: delete_files(tx, gone))


class UploadFiles(Protocol):
    """Files by name."""

    async def put(self, name: str, path: Path, tx: Transaction | None = None) -> None:
        """Take over a complete file, in the caller's transaction if there is one. The caller deletes what is left."""

    async def put_back(self, name: str, path: Path) -> None:
        """Undo `put` after its transaction has failed."""

    def opened(self, name: str) -> AbstractAsyncContextManager[Path]:
        """Provide the file on this machine for the block, or raise NotFound."""
        ...

    def read(self, name: str, length: int) -> AsyncGenerator[bytes, None]:
        """Yield the first bytes of a file without a copy, or raise NotFound."""
        ...

    async def exists(self, name: str) -> bool: ...

    async def remove(self, name: str) -> None: ...

    async def remove_older(self, suffix: str, seconds: int) -> None:
        """Delete the files whose name ends like this after this time."""

    def report(self, name: str) -> ImportReport: ...


class FolderFiles:
    """Files in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, name: str, path: Path, tx: Transaction | None = None) -> None:
        await asyncio.to_thread(path.rename, self._folder / name)

    async def put_back(self, name: str, path: Path) -> None:
        with suppress(FileNotFoundError):
            await asyncio.to_thread((self._folder / name).rename, path)

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncIterator[Path]:
        if not await self.exists(name):
            raise NotFound
        yield self._folder / name

    async def read(self, name: str, length: int) -> AsyncGenerator[bytes, None]:
        if not await self.exists(name):
            raise NotFound
        async for chunk in read_beginning(self._folder / name, length):
            yield chunk

    async def exists(self, name: str) -> bool:
        return await asyncio.to_thread((self._folder / name).exists)

    async def remove(self, name: str) -> None:
        await asyncio.to_thread((self._folder / name).unlink, missing_ok=True)

    async def remove_older(self, suffix: str, seconds: int) -> None:
        """Use the clock of the file system, because the file times come from it."""
        await asyncio.to_thread(self._remove_older, suffix, seconds)

    def report(self, name: str) -> ImportReport:
        return ReportFile(self._folder / name)

    def _remove_older(self, suffix: str, seconds: int) -> None:
        for path in self._folder.glob(f"*{suffix}") if self._folder.is_dir() else ():
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > seconds:
                    path.unlink()


class StoredUploads:
    """Files in the database. Those that are still in the folder, from an earlier version, are found too."""

    def __init__(self, database: Database, clock: Clock, folder: Path) -> None:
        self._database = database
        self._clock = clock
        self._folder = folder
        self._here = FolderFiles(folder)

    async def put(self, name: str, path: Path, tx: Transaction | None = None) -> None:
        if tx is None:
            async with self._database.write() as own:
                await self.put(name, path, own)
            return
        with await asyncio.to_thread(path.open, "rb") as file:
            await store_file(tx, PREFIX + name, file, self._clock.now())

    async def put_back(self, name: str, path: Path) -> None:
        """Do nothing: the database has undone the transaction."""

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncIterator[Path]:
        if not await self.exists(name):
            raise NotFound
        async with temporary_file(self._folder) as copy:
            await self._copy(name, copy)
            yield copy

    async def read(self, name: str, length: int) -> AsyncGenerator[bytes, None]:
        """An earlier version may have written the beginning of a report to the folder, or all of it."""
        position = 0
        async for begin, content in read_parts(self._database, PREFIX + name):
            if begin > position:
                async for chunk in self._here.read(name, min(begin, length)):
                    yield chunk
            yield content[: max(0, length - begin)]
            position = begin + len(content)
            if position >= length:
                return
        if not position:
            async for chunk in self._here.read(name, length):
                yield chunk

    async def exists(self, name: str) -> bool:
        return await is_stored(self._database, PREFIX + name) or await self._here.exists(name)

    async def remove(self, name: str) -> None:
        await self._database.transact(lambda tx: delete_files(tx, [PREFIX + name]))
        await self._here.remove(name)

    async def remove_older(self, suffix: str, seconds: int) -> None:
        await delete_older(self._database, PREFIX, suffix, self._clock.now() - seconds * SECOND)
        await self._here.remove_older(suffix, seconds)

    def report(self, name: str) -> ImportReport:
        return StoredReport(PREFIX + name)

    async def _copy(self, name: str, copy: Path) -> None:
        """Copy a file to this machine. An earlier version may have written the beginning of a report to the folder."""
        if await self._here.exists(name):
            await asyncio.to_thread(copyfile, self._folder / name, copy)
        else:
            await asyncio.to_thread(copy.touch)
        with await asyncio.to_thread(copy.open, "r+b") as file:
            async for position, content in read_parts(self._database, PREFIX + name):
                file.seek(position)
                await asyncio.to_thread(file.write, content)
