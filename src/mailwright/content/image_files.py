"""Where the files of images are stored. A file's name is a digest of its content, so a file never changes."""

import asyncio
import os
import secrets
from pathlib import Path
from typing import Protocol

from mailwright.domain.errors import MailwrightError


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
