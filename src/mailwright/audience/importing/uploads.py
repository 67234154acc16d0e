"""Receive uploaded files of contacts, and import them one after another in the background."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from mailwright.audience.importing.file_format import FileUnreadable
from mailwright.audience.importing.imports import Import, ImportRunsElsewhere, Imports
from mailwright.audience.importing.plan import ImportOptions, ImportPreview, read_column_titles
from mailwright.audience.importing.report import RefusedLine, read_refused
from mailwright.audience.importing.upload_folder import StagedFile, UploadFolder
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.errors import NotDurable, NotFound
from mailwright.ops.logs import logger

# Every batch updates the time of its import. An import without an update for this long was interrupted.
STALE_AFTER: Final[Instant] = MINUTE

log = logger(__name__)


class ImportUploads:
    def __init__(self, imports: Imports, clock: Clock, folder: Path, *, largest: int) -> None:
        self._imports = imports
        self._clock = clock
        self._folder = UploadFolder(folder, largest=largest)
        self._one_at_a_time = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_closing = False

    async def receive(
        self,
        tenant_id: int,
        content: AsyncIterator[bytes],
        options: ImportOptions,
        *,
        file_name: str,
        actor: str | None = None,
    ) -> Import:
        """Store the complete file, check that it is readable, and import it in the background."""
        async with self._folder.receive(content) as file:
            options = replace(options, other_sheets=file.other_sheets)
            return await self._start(tenant_id, file.path, options, file_name, actor)

    async def preview(self, tenant_id: int, content: AsyncIterator[bytes], options: ImportOptions) -> ImportPreview:
        async with self._folder.receive(content) as file:
            options = replace(options, other_sheets=file.other_sheets)
            return await self._imports.preview(tenant_id, file.path, options)

    async def stage(self, tenant_id: int, content: AsyncIterator[bytes]) -> StagedFile:
        """Keep a file until the user has chosen how to import it."""
        return await self._folder.stage(tenant_id, content)

    async def preview_staged(self, tenant_id: int, token: str, options: ImportOptions) -> ImportPreview:
        return await self._imports.preview(tenant_id, await self._folder.find_staged(tenant_id, token), options)

    async def staged_titles(self, tenant_id: int, token: str, encoding: str | None = None) -> tuple[str, ...]:
        return await asyncio.to_thread(read_column_titles, await self._folder.find_staged(tenant_id, token), encoding)

    async def receive_staged(
        self, tenant_id: int, token: str, options: ImportOptions, *, file_name: str, actor: str | None = None
    ) -> Import:
        path = await self._folder.find_staged(tenant_id, token)
        return await self._start(tenant_id, path, options, file_name, actor)

    async def find(self, tenant_id: int, import_id: str) -> Import:
        await self.resume_interrupted()
        return await self._imports.find(tenant_id, import_id)

    async def latest(self, tenant_id: int, *, limit: int) -> list[Import]:
        await self.resume_interrupted()
        return await self._imports.latest(tenant_id, limit=limit)

    async def report(self, tenant_id: int, import_id: str) -> tuple[Path, int]:
        """Return the report and its valid length. Bytes after that come from a batch that was not committed."""
        found = await self._imports.find(tenant_id, import_id)
        path = self._folder.report_of(found.import_id)
        if not await asyncio.to_thread(path.exists):
            raise NotFound
        return path, found.report_bytes

    async def refused_rows(self, tenant_id: int, import_id: str, *, limit: int) -> list[RefusedLine]:
        """Return the first refused rows, or none if the report is on another machine or was deleted."""
        try:
            path, length = await self.report(tenant_id, import_id)
        except NotFound:
            return []
        return await asyncio.to_thread(read_refused, path, length, limit)

    async def resume_interrupted(self) -> None:
        """Continue imports that a stopped process left unfinished, if their files are on this machine."""
        for unfinished in await self._imports.unfinished():
            is_stale = self._clock.now() - unfinished.updated_at >= STALE_AFTER
            if not is_stale or unfinished.import_id in self._tasks:
                continue
            if await asyncio.to_thread(self._folder.file_of(unfinished.import_id).exists):
                self._run_in_background(unfinished)

    async def finish(self) -> None:
        """Wait for all imports that run in this process."""
        await asyncio.gather(*self._tasks.values())

    async def close(self) -> None:
        """Stop after the current batch, before the database is closed. The next process continues the imports."""
        self._is_closing = True
        await self.finish()

    async def _start(
        self, tenant_id: int, path: Path, options: ImportOptions, file_name: str, actor: str | None
    ) -> Import:
        started = await self._imports.begin(tenant_id, path, options, file_name=file_name, continues=False, actor=actor)
        await asyncio.to_thread(path.rename, self._folder.file_of(started.import_id))
        self._run_in_background(started)
        return started

    def _run_in_background(self, started: Import) -> None:
        self._tasks[started.import_id] = asyncio.create_task(self._run(started))

    async def _run(self, started: Import) -> None:
        try:
            async with self._one_at_a_time:
                is_done = await self._store(started)
            if is_done:
                # Delete the file, because it is a copy of personal data that is no longer needed.
                await asyncio.to_thread(self._folder.file_of(started.import_id).unlink, missing_ok=True)
        except (NotDurable, ImportRunsElsewhere, FileUnreadable) as error:
            log.warning("import_stopped", import_id=started.import_id, reason=str(error))
        finally:
            del self._tasks[started.import_id]

    async def _store(self, started: Import) -> bool:
        """Run the import. Return whether it is complete; False means that the process is closing."""
        if self._is_closing:
            return False
        file, report = self._folder.file_of(started.import_id), self._folder.report_of(started.import_id)
        async with contextlib.aclosing(self._imports.run(started, file, report)) as steps:
            async for progress in steps:
                log.debug("import_progress", import_id=progress.import_id, records=progress.records)
                if self._is_closing and progress.finished_at is None:
                    return False
        return True
