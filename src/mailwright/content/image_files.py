"""Where the files of images are stored. A file's name is a digest of its content, so a file never changes."""

import asyncio
import os
import secrets
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Final, Protocol

from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import Clock
from mailwright.domain.errors import MailwrightError
from mailwright.storage.database import Database
from mailwright.storage.stored_files import delete_files, is_stored, list_files, read_file, store_file

_PREFIX: Final = "images/"


class ImagesUnavailable(MailwrightError):
    """The image storage is unavailable. Nothing was stored."""

    code = "IMAGES_UNAVAILABLE"


class ImageFiles(Protocol):
    """Stores files by name, and raises `ImagesUnavailable` if it cannot."""

    @property
    def base_url(self) -> str | None:
        """The URL from which recipients load files; None if they load them from Mailwright."""

    async def write(self, name: str, content: bytes, media_type: str) -> None: ...

    async def read(self, name: str) -> bytes | None: ...

    async def exists(self, name: str) -> bool: ...

    async def remove(self, name: str) -> None: ...

    async def close(self) -> None: ...


class ImageFolder:
    """The files in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def base_url(self) -> str | None:
        return None

    async def write(self, name: str, content: bytes, media_type: str) -> None:
        try:
            await asyncio.to_thread(write_image, self._folder / name, content)
        except OSError as error:
            raise ImagesUnavailable(
                "The image cannot be stored in {folder}: {strerror}.", folder=self._folder, strerror=error.strerror
            ) from error

    async def read(self, name: str) -> bytes | None:
        try:
            return await asyncio.to_thread((self._folder / name).read_bytes)
        except FileNotFoundError:
            return None

    async def exists(self, name: str) -> bool:
        return await asyncio.to_thread((self._folder / name).is_file)

    async def remove(self, name: str) -> None:
        try:
            await asyncio.to_thread((self._folder / name).unlink, missing_ok=True)
        except OSError as error:
            raise ImagesUnavailable(
                "The image cannot be deleted from {folder}: {strerror}.", folder=self._folder, strerror=error.strerror
            ) from error

    async def close(self) -> None:
        """Do nothing: a folder needs no connection."""


class StoredImages:
    """The files in the database, for several machines. Files that are still in the folder are served too."""

    def __init__(self, database: Database, clock: Clock, folder: ImageFolder) -> None:
        self._database = database
        self._clock = clock
        self._folder = folder

    @property
    def base_url(self) -> str | None:
        return None

    async def write(self, name: str, content: bytes, media_type: str) -> None:
        if not await is_stored(self._database, _PREFIX + name):
            with suppress(IntegrityError):  # Another process has stored it at the same time.
                async with self._database.write() as tx:
                    await store_file(tx, _PREFIX + name, BytesIO(content), self._clock.now())

    async def read(self, name: str) -> bytes | None:
        stored = await read_file(self._database, _PREFIX + name)
        return await self._folder.read(name) if stored is None else stored

    async def exists(self, name: str) -> bool:
        return await is_stored(self._database, _PREFIX + name) or await self._folder.exists(name)

    async def remove(self, name: str) -> None:
        await self._database.transact(lambda tx: delete_files(tx, [_PREFIX + name]))
        await self._folder.remove(name)

    async def close(self) -> None:
        """Do nothing: the database is closed by its owner."""


async def list_stored_images(database: Database) -> list[str]:
    """Return the names of the images in the database."""
    return [name.removeprefix(_PREFIX) for name in await list_files(database, _PREFIX)]


def write_image(file: Path, content: bytes) -> None:
    """Write the file atomically: write and flush a temporary file, then rename it."""
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with unfinished.open("wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
