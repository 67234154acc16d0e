"""Receive uploads, and keep complete files: staged or being imported, and the import reports."""

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from mailwright.audience.importing.file_format import FileUnreadable
from mailwright.audience.importing.spreadsheets import ReadableFile, convert_spreadsheet, is_spreadsheet
from mailwright.audience.importing.upload_files import STAGED_SECONDS, UploadFiles, temporary_file
from mailwright.domain.errors import NotFound
from mailwright.domain.lazy_dataclass import dataclass

_STAGED: Final = ".kept"
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class StagedFile:
    token: str  # identifies the file in later requests
    other_sheets: tuple[str, ...]  # the sheets of a spreadsheet that are not imported


class UploadFolder:
    def __init__(self, folder: Path, files: UploadFiles, *, largest: int) -> None:
        """Receive uploads in a folder of this machine, and keep complete ones in `files`."""
        self._folder = folder
        self.files = files
        self._largest = largest

    @contextlib.asynccontextmanager
    async def receive(self, content: AsyncIterator[bytes]) -> AsyncIterator[ReadableFile]:
        """Yield a complete upload. It is deleted after the block unless the block has kept it."""
        async with temporary_file(self._folder) as path:
            await self._write(path, content)
            yield await asyncio.to_thread(self._convert, path)

    async def stage(self, tenant_id: int, content: AsyncIterator[bytes]) -> StagedFile:
        """Keep a file until the user has chosen how to import it."""
        await self.files.remove_older(_STAGED, STAGED_SECONDS)
        token = secrets.token_hex(16)
        async with self.receive(content) as file:
            await self.files.put(_staged_name(tenant_id, token), file.path)
        return StagedFile(token, file.other_sheets)

    @contextlib.asynccontextmanager
    async def opened_staged(self, tenant_id: int, token: str) -> AsyncIterator[Path]:
        """Provide a staged file on this machine for the block."""
        name = _staged_name(tenant_id, token)
        if not _TOKEN.fullmatch(token) or not await self.files.exists(name):
            raise NotFound("The uploaded file has expired. Upload it again.")
        async with self.files.opened(name) as path:
            yield path

    async def remove_staged(self, tenant_id: int, token: str) -> None:
        await self.files.remove(_staged_name(tenant_id, token))

    async def _write(self, path: Path, content: AsyncIterator[bytes]) -> None:
        size = 0
        with await asyncio.to_thread(path.open, "wb") as file:
            async for chunk in content:
                size += len(chunk)
                if size > self._largest:
                    raise FileUnreadable(
                        "The file is larger than {megabytes} MB.", field="file", megabytes=self._largest // 1024**2
                    )
                await asyncio.to_thread(file.write, chunk)

    def _convert(self, path: Path) -> ReadableFile:
        """Replace a spreadsheet by its first sheet as CSV."""
        if not is_spreadsheet(path):
            return ReadableFile(path)
        converted = path.with_suffix(".sheet")
        others = convert_spreadsheet(path, converted, largest=self._largest)
        converted.rename(path)
        return ReadableFile(path, others)


def import_name(import_id: str) -> str:
    """Return the name of the file that an import reads."""
    return f"{import_id}.csv"


def _staged_name(tenant_id: int, token: str) -> str:
    return f"{tenant_id}-{token}{_STAGED}"
