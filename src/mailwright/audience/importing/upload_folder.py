"""The folder for uploads. It contains complete uploaded files, staged or being imported, and the import reports."""

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mailwright.audience.importing.file_format import FileUnreadable
from mailwright.audience.importing.report import report_path
from mailwright.audience.importing.spreadsheets import ReadableFile, convert_spreadsheet, is_spreadsheet
from mailwright.domain.errors import NotFound

# A staged file is deleted after this time.
STAGED_SECONDS: Final = 6 * 3600

_TOKEN: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class StagedFile:
    token: str  # identifies the file in later requests
    other_sheets: tuple[str, ...]  # the sheets of a spreadsheet that are not imported


class UploadFolder:
    def __init__(self, folder: Path, *, largest: int) -> None:
        self._folder = folder
        self._largest = largest

    @contextlib.asynccontextmanager
    async def receive(self, content: AsyncIterator[bytes]) -> AsyncIterator[ReadableFile]:
        """Yield a complete upload. It is deleted after the block unless the block has renamed it."""
        path = self._folder / f"{secrets.token_hex(16)}.part"
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
        try:
            await self._write(path, content)
            yield await asyncio.to_thread(self._convert, path)
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    async def stage(self, tenant_id: int, content: AsyncIterator[bytes]) -> StagedFile:
        """Keep a file until the user has chosen how to import it."""
        await asyncio.to_thread(self._delete_expired)
        token = secrets.token_hex(16)
        async with self.receive(content) as file:
            await asyncio.to_thread(file.path.rename, self._staged_path(tenant_id, token))
        return StagedFile(token, file.other_sheets)

    async def find_staged(self, tenant_id: int, token: str) -> Path:
        path = self._staged_path(tenant_id, token) if _TOKEN.fullmatch(token) else None
        if path is None or not await asyncio.to_thread(path.exists):
            raise NotFound("The uploaded file has expired. Upload it again.")
        return path

    def file_of(self, import_id: str) -> Path:
        return self._folder / f"{import_id}.csv"

    def report_of(self, import_id: str) -> Path:
        return report_path(self._folder, import_id)

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
        try:
            others = convert_spreadsheet(path, converted, largest=self._largest)
            converted.rename(path)
            return ReadableFile(path, others)
        finally:
            converted.unlink(missing_ok=True)

    def _delete_expired(self) -> None:
        """Delete expired files. Use the clock of the file system, because the file times come from it."""
        for path in self._folder.glob("*.kept") if self._folder.is_dir() else ():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > STAGED_SECONDS:
                    path.unlink()

    def _staged_path(self, tenant_id: int, token: str) -> Path:
        return self._folder / f"{tenant_id}-{token}.kept"
