"""The desk where files of contacts are handed in: stored first, then imported one after another beside all else."""

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from mailwright.audience.importing.imports import Import, ImportRunsElsewhere, Imports
from mailwright.audience.importing.plan import ImportOptions, ImportPreview, read_column_titles
from mailwright.audience.importing.records import FileUnreadable
from mailwright.audience.importing.report import report_path
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.errors import NotDurable, NotFound
from mailwright.ops.logs import logger

# Whoever works on an import tells so with every portion. One of which nothing is heard for so long was cut off.
STALE_AFTER: Final[Instant] = MINUTE
# A file that somebody handed in to look at first is kept for so long; then nobody comes back for it.
CACHE_SECONDS: Final = 6 * 3600

_TOKEN: Final = re.compile(r"[0-9a-f]{32}")

log = logger(__name__)


class ImportUploads:
    def __init__(self, imports: Imports, clock: Clock, folder: Path, *, largest: int) -> None:
        self._imports = imports
        self._clock = clock
        self._folder = folder
        self._largest = largest
        self._one_at_a_time = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_closing = False

    async def receive(
        self,
        tenant_id: int,
        content: AsyncIterator[bytes],
        purpose: ImportOptions,
        *,
        file_name: str,
        actor: str | None = None,
    ) -> Import:
        """The file is whole and can be read, or nothing is kept of it. The work is done after the answer."""
        async with self._handed_in(content) as path:
            begun = await self._imports.begin(
                tenant_id, path, purpose, file_name=file_name, continues=False, actor=actor
            )
            await asyncio.to_thread(path.rename, self._file(begun))
        self._work_on(begun)
        return begun

    async def preview(self, tenant_id: int, content: AsyncIterator[bytes], purpose: ImportOptions) -> ImportPreview:
        async with self._handed_in(content) as path:
            return await self._imports.preview(tenant_id, path, purpose)

    async def stage(self, tenant_id: int, content: AsyncIterator[bytes]) -> str:
        """Keeps a file to be looked at before anything is done with it; answers what it is asked for by."""
        await asyncio.to_thread(self._forget_kept)
        token = secrets.token_hex(16)
        async with self._handed_in(content) as path:
            await asyncio.to_thread(path.rename, self._kept(tenant_id, token))
        return token

    async def preview_staged(self, tenant_id: int, token: str, purpose: ImportOptions) -> ImportPreview:
        return await self._imports.preview(tenant_id, await self._known(tenant_id, token), purpose)

    async def staged_titles(self, tenant_id: int, token: str) -> tuple[str, ...]:
        return await asyncio.to_thread(read_column_titles, await self._known(tenant_id, token))

    async def receive_staged(
        self, tenant_id: int, token: str, purpose: ImportOptions, *, file_name: str, actor: str | None = None
    ) -> Import:
        """As if it were handed in now."""
        path = await self._known(tenant_id, token)
        begun = await self._imports.begin(tenant_id, path, purpose, file_name=file_name, continues=False, actor=actor)
        await asyncio.to_thread(path.rename, self._file(begun))
        self._work_on(begun)
        return begun

    async def find(self, tenant_id: int, import_id: str) -> Import:
        await self.resume_interrupted()
        return await self._imports.find(tenant_id, import_id)

    async def latest(self, tenant_id: int, *, limit: int) -> list[Import]:
        await self.resume_interrupted()
        return await self._imports.latest(tenant_id, limit=limit)

    async def report(self, tenant_id: int, import_id: str) -> tuple[Path, int]:
        """The file, and how much of it is true."""
        found = await self._imports.find(tenant_id, import_id)
        path = self._report(found)
        if not await asyncio.to_thread(path.exists):
            raise NotFound
        return path, found.report_bytes

    async def resume_interrupted(self) -> None:
        """What another process was cut off from, if its file is here."""
        for begun in await self._imports.unfinished():
            is_silent = self._clock.now() - begun.updated_at >= STALE_AFTER
            if is_silent and begun.import_id not in self._tasks and await asyncio.to_thread(self._file(begun).exists):
                self._work_on(begun)

    async def finish(self) -> None:
        """Waits for everything that was handed in here."""
        await asyncio.gather(*self._tasks.values())

    async def close(self) -> None:
        """Ends with the portion that is being stored, before the database is closed; whoever serves next goes on."""
        self._is_closing = True
        await self.finish()

    def _work_on(self, begun: Import) -> None:
        self._tasks[begun.import_id] = asyncio.create_task(self._work(begun))

    async def _work(self, begun: Import) -> None:
        try:
            async with self._one_at_a_time:
                is_done = await self._store(begun)
            if is_done:
                # The file is a copy of people's data that nobody needs any more.
                await asyncio.to_thread(self._file(begun).unlink, missing_ok=True)
        except (NotDurable, ImportRunsElsewhere, FileUnreadable) as error:
            log.warning("import_stopped", import_id=begun.import_id, reason=str(error))
        finally:
            del self._tasks[begun.import_id]

    async def _store(self, begun: Import) -> bool:
        """Whether to the end; not where the desk closes before that."""
        if self._is_closing:
            return False
        async with contextlib.aclosing(self._imports.run(begun, self._file(begun), self._report(begun))) as steps:
            async for done in steps:
                log.debug("import_moved", import_id=done.import_id, records=done.records)
                if self._is_closing and done.finished_at is None:
                    return False
        return True

    @contextlib.asynccontextmanager
    async def _handed_in(self, content: AsyncIterator[bytes]) -> AsyncIterator[Path]:
        path = self._folder / f"{secrets.token_hex(16)}.part"
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
        try:
            await self._write(path, content)
            yield path
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    async def _write(self, path: Path, content: AsyncIterator[bytes]) -> None:
        size = 0
        with await asyncio.to_thread(path.open, "wb") as file:
            async for chunk in content:
                size += len(chunk)
                if size > self._largest:
                    limit = self._largest // 1024**2
                    raise FileUnreadable(f"is larger than {limit} MB, the most that is taken", field="file")
                await asyncio.to_thread(file.write, chunk)

    async def _known(self, tenant_id: int, token: str) -> Path:
        path = self._kept(tenant_id, token) if _TOKEN.fullmatch(token) else None
        if path is None or not await asyncio.to_thread(path.exists):
            raise NotFound("The file is no longer here. Choose it once more.")
        return path

    def _forget_kept(self) -> None:
        """By the clock of the file system, which is the one that their times are of."""
        for path in self._folder.glob("*.kept") if self._folder.is_dir() else ():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > CACHE_SECONDS:
                    path.unlink()

    def _kept(self, tenant_id: int, token: str) -> Path:
        return self._folder / f"{tenant_id}-{token}.kept"

    def _file(self, begun: Import) -> Path:
        return self._folder / f"{begun.import_id}.csv"

    def _report(self, begun: Import) -> Path:
        return report_path(self._folder, begun.import_id)
