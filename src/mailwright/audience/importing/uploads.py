"""Receive uploaded files of contacts, and import them one after another in the background."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from mailwright.audience.importing.file_format import FileUnreadable
from mailwright.audience.importing.imports import Import, ImportRunsElsewhere, Imports
from mailwright.audience.importing.plan import ImportOptions, ImportPreview, read_column_titles
from mailwright.audience.importing.report import RefusedLine, read_refused, report_name
from mailwright.audience.importing.upload_files import FolderFiles, UploadFiles, delete_abandoned_files
from mailwright.audience.importing.upload_folder import StagedFile, UploadFolder, import_name
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.errors import NotDurable, NotFound
from mailwright.domain.ids import uuid7
from mailwright.ops.logs import logger

# Every batch updates the time of its import. An import without an update for this long was interrupted.
STALE_AFTER: Final[Instant] = MINUTE

log = logger(__name__)


class ImportUploads:
    def __init__(
        self, imports: Imports, clock: Clock, folder: Path, *, largest: int, files: UploadFiles | None = None
    ) -> None:
        """Create the service. `files` keeps the files; without it, they are in the folder."""
        self._imports = imports
        self._clock = clock
        self._files = FolderFiles(folder) if files is None else files
        self._path = folder
        self._folder = UploadFolder(folder, self._files, largest=largest)
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
        async with self._folder.opened_staged(tenant_id, token) as path:
            return await self._imports.preview(tenant_id, path, options)

    async def staged_titles(self, tenant_id: int, token: str, encoding: str | None = None) -> tuple[str, ...]:
        async with self._folder.opened_staged(tenant_id, token) as path:
            return await asyncio.to_thread(read_column_titles, path, encoding)

    async def receive_staged(
        self, tenant_id: int, token: str, options: ImportOptions, *, file_name: str, actor: str | None = None
    ) -> Import:
        async with self._folder.opened_staged(tenant_id, token) as path:
            started = await self._start(tenant_id, path, options, file_name, actor)
        await self._folder.remove_staged(tenant_id, token)
        return started

    async def find(self, tenant_id: int, import_id: str) -> Import:
        await self.resume_interrupted()
        return await self._imports.find(tenant_id, import_id)

    async def latest(self, tenant_id: int, *, limit: int) -> list[Import]:
        await self.resume_interrupted()
        return await self._imports.latest(tenant_id, limit=limit)

    async def report(self, tenant_id: int, import_id: str) -> AsyncIterator[bytes]:
        """Return the content of the report, without the batch that is being imported."""
        found = await self._imports.find(tenant_id, import_id)
        if not await self._files.exists(report_name(found.import_id)):
            raise NotFound
        return self._files.read(report_name(found.import_id), found.report_bytes)

    async def refused_rows(self, tenant_id: int, import_id: str, *, limit: int) -> list[RefusedLine]:
        """Return the first refused rows, or none if the report is on another machine or was deleted."""
        found = await self._imports.find(tenant_id, import_id)
        async with contextlib.aclosing(self._files.read(report_name(found.import_id), found.report_bytes)) as content:
            try:
                return await read_refused(content, limit)
            except NotFound:
                return []

    async def resume_interrupted(self) -> None:
        """Continue imports that a stopped process left unfinished, if this machine can read their files."""
        for unfinished in await self._imports.unfinished():
            is_stale = self._clock.now() - unfinished.updated_at >= STALE_AFTER
            if not is_stale or unfinished.import_id in self._tasks:
                continue
            if await self._files.exists(import_name(unfinished.import_id)):
                self._run_in_background(unfinished)

    async def delete_abandoned_files(self) -> None:
        """Delete the copies of contacts that killed processes left in the folder."""
        await delete_abandoned_files(self._path)

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
        """Store the import together with its file, because an import without its file would never end."""
        import_id = uuid7(self._clock.now())
        name = import_name(import_id)
        try:
            started = await self._imports.begin(
                tenant_id,
                path,
                options,
                file_name=file_name,
                continues=False,
                actor=actor,
                import_id=import_id,
                keep=partial(self._files.put, name, path),
            )
        except Exception:
            await self._files.put_back(name, path)
            raise
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
                await self._files.remove(import_name(started.import_id))
        except (NotDurable, ImportRunsElsewhere, FileUnreadable) as error:
            log.warning("import_stopped", import_id=started.import_id, reason=str(error))
        finally:
            del self._tasks[started.import_id]

    async def _store(self, started: Import) -> bool:
        """Run the import. Return whether it is complete; False means that the process is closing."""
        if self._is_closing:
            return False
        report = self._files.report(report_name(started.import_id))
        async with (
            self._files.opened(import_name(started.import_id)) as file,
            contextlib.aclosing(self._imports.run(started, file, report)) as steps,
        ):
            async for progress in steps:
                log.debug("import_progress", import_id=progress.import_id, records=progress.records)
                if self._is_closing and progress.finished_at is None:
                    return False
        return True
