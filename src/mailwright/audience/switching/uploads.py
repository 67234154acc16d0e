"""Export files that users upload: kept for a preview, and moved in the background.

Each upload has a folder with its options, its files and, in the end, its result. The process that moves the contacts
locks a file in it, so that every process knows whether the move still runs or was interrupted.
"""

import asyncio
import fcntl
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from enum import StrEnum
from io import BufferedWriter
from pathlib import Path
from typing import Final

import orjson

from mailwright.audience.importing.file_format import FileUnreadable
from mailwright.audience.importing.report import MOVE_REPORT
from mailwright.audience.switching.archives import unpacked
from mailwright.audience.switching.exports import ExportFile
from mailwright.audience.switching.moving import SwitchOver, SwitchOvers
from mailwright.audience.switching.results import SwitchCounts
from mailwright.audience.switching.vendors import MemberStatus, Vendor
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.logs import logger

log = logger(__name__)

MAX_FILES: Final = 20
STAGED_SECONDS: Final = 6 * 3600
RESULT_SECONDS: Final = 7 * 24 * 3600
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_UNSAFE: Final = re.compile(r"[^\w.() -]")
_MAX_NAME: Final = 80
_ANY_STATUS: Final = "any"
_NEW_LIST: Final = "~new"  # stands for the new list in a preview; no list has this key


class MoveState(StrEnum):
    STAGED = "staged"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class MoveOptions:
    """The user's choices. A `new_list` is created when the move begins; its key is then `list_key`."""

    vendor: Vendor
    list_key: str | None = None
    new_list: str = ""
    is_confirmed: bool = False
    is_filtered: bool = False


@dataclass(frozen=True, slots=True)
class UploadedExport:
    name: str
    status: MemberStatus | None
    content: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Move:
    token: str
    options: MoveOptions
    state: MoveState
    names: tuple[str, ...] = ()
    counts: SwitchCounts | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Folder:
    """The files of one upload."""

    path: Path

    @property
    def files(self) -> Path:
        return self.path / "files"

    @property
    def options(self) -> Path:
        return self.path / "options.json"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def report(self) -> Path:
        return self.path / MOVE_REPORT

    def exports(self) -> list[ExportFile]:
        """Return the files in their order. The name of a file's folder is its number and its status."""
        return [ExportFile(path, _status(path)) for path in sorted(self.files.glob("*/*"))]

    def place(self, number: int, file: "UploadedExport") -> Path:
        """Create the folder of a file, and return the path of the file."""
        folder = self.files / f"{number:02}-{file.status or _ANY_STATUS}"
        folder.mkdir()
        return folder / _safe_name(file.name)

    def add(self, file: "UploadedExport", arrived: Path) -> None:
        """Add a file that has arrived completely."""
        if self.state() is not MoveState.STAGED:
            raise NotPossibleNow("The move has begun. Upload all files again for another move.")
        number = len(list(self.files.iterdir()))
        if number >= MAX_FILES:
            raise InvalidInput(f"A move has at most {MAX_FILES} files. Put them into a zip archive.", field="file")
        arrived.rename(self.place(number, file))

    def state(self) -> MoveState:
        if self.result.exists():
            return MoveState.FINISHED
        if not self.lock.exists():
            return MoveState.STAGED
        with self.lock.open("wb") as file:
            return MoveState.INTERRUPTED if _try_lock(file) else MoveState.RUNNING

    def read_options(self) -> MoveOptions:
        stored = orjson.loads(self.options.read_bytes())
        return MoveOptions(**{**stored, "vendor": Vendor(stored["vendor"])})

    def write_options(self, options: MoveOptions) -> None:
        self.options.write_bytes(orjson.dumps(asdict(options)))

    def read(self, token: str) -> Move:
        state, result = self.state(), {}
        if state is MoveState.FINISHED:
            result = orjson.loads(self.result.read_bytes())
        counts = SwitchCounts(**result["counts"]) if result.get("counts") else None
        names = tuple(file.path.name for file in self.exports())
        return Move(token, self.read_options(), state, result.get("names", names), counts, result.get("problem", ""))

    def finish(self, counts: SwitchCounts | None, problem: str) -> None:
        """Store the result, and delete the files, because they are copies of personal data."""
        names = [file.path.name for file in self.exports()]
        stored = {"counts": None if counts is None else asdict(counts), "problem": problem, "names": names}
        written = self.path / "result.part"
        written.write_bytes(orjson.dumps(stored))
        written.rename(self.result)
        shutil.rmtree(self.files, ignore_errors=True)


class SwitchUploads:
    def __init__(self, moving: SwitchOvers, folder: Path, *, largest: int) -> None:
        self._moving = moving
        self._folder = folder
        self._largest = largest
        self._one_at_a_time = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def stage(self, tenant_id: int, options: MoveOptions, files: Iterable[UploadedExport]) -> str:
        """Keep the files until the user has seen the preview. Return the token of the upload."""
        await asyncio.to_thread(self._delete_expired)
        token = secrets.token_hex(16)
        folder = _Folder(self._path(tenant_id, token))
        await asyncio.to_thread(folder.files.mkdir, parents=True)
        try:
            for number, file in enumerate(files):
                await self._write(await asyncio.to_thread(folder.place, number, file), file.content)
            await asyncio.to_thread(folder.write_options, options)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder.path, ignore_errors=True)
            raise
        return token

    async def add_file(self, tenant_id: int, token: str, file: UploadedExport) -> None:
        """Keep another file. Raise if the move has begun."""
        folder = await self._find(tenant_id, token)
        # A move that begins at this moment must not read an incomplete file.
        arriving = folder.path / f"arriving-{secrets.token_hex(8)}"
        try:
            await self._write(arriving, file.content)
            async with self._one_at_a_time:
                await asyncio.to_thread(folder.add, file, arriving)
        finally:
            await asyncio.to_thread(arriving.unlink, missing_ok=True)

    async def describe(self, tenant_id: int, token: str) -> tuple[Move, SwitchCounts | None, str]:
        """Return the upload with its counts and problem, which are a preview before the move begins."""
        found = await self.find(tenant_id, token)
        if found.state is not MoveState.STAGED:
            return found, found.counts, found.problem
        try:
            return found, await self.preview(tenant_id, token), ""
        except InvalidInput as error:
            return found, None, str(error)

    async def find(self, tenant_id: int, token: str) -> Move:
        folder = await self._find(tenant_id, token)
        return await asyncio.to_thread(folder.read, token)

    async def preview(self, tenant_id: int, token: str) -> SwitchCounts:
        """Return the counts, or raise the error that would stop the move. Nothing is stored."""
        folder = await self._find(tenant_id, token)
        async with self._one_at_a_time, self._wanted(tenant_id, folder) as wanted:
            return await self._moving.preview(wanted)

    async def begin(
        self, tenant_id: int, token: str, create_list: Callable[[str], Awaitable[str]] | None = None, *, actor: str
    ) -> None:
        """Move the contacts in the background, also after an interruption.

        A move that runs or is done does not begin again. `create_list` creates the new list and returns its key.
        """
        folder = await self._find(tenant_id, token)
        if create_list is None and (await asyncio.to_thread(folder.read_options)).new_list:
            raise NotPossibleNow("Start this move in the dashboard, which creates its new list.")
        lock = await asyncio.to_thread(folder.lock.open, "wb")
        if not _try_lock(lock) or folder.result.exists():
            lock.close()
            return
        options = await asyncio.to_thread(folder.read_options)
        if options.new_list and create_list is not None:
            options = replace(options, list_key=await create_list(options.new_list), new_list="")
            await asyncio.to_thread(folder.write_options, options)
        task = asyncio.create_task(self._run(tenant_id, folder, lock, actor))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def report(self, tenant_id: int, token: str) -> Path:
        path = (await self._find(tenant_id, token)).report
        if not await asyncio.to_thread(path.exists):
            raise NotFound
        return path

    async def finish(self) -> None:
        """Wait for all moves that run in this process."""
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """Stop before the database is closed. The user continues an interrupted move."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, tenant_id: int, folder: _Folder, lock: BufferedWriter, actor: str) -> None:
        counts, problem = None, ""
        with lock:
            try:
                async with self._one_at_a_time, self._wanted(tenant_id, folder) as wanted:
                    counts = await self._moving.run(wanted, actor=actor, report=folder.report)
            except InvalidInput as error:
                problem = str(error)
            except MailwrightError as error:
                log.warning("move_stopped", token=folder.path.stem, reason=str(error))
                return
            await asyncio.to_thread(folder.finish, counts, problem)

    @asynccontextmanager
    async def _wanted(self, tenant_id: int, folder: _Folder) -> AsyncIterator[SwitchOver]:
        options = await asyncio.to_thread(folder.read_options)
        archives = unpacked(await asyncio.to_thread(folder.exports), largest=self._largest)
        exports = await asyncio.to_thread(archives.__enter__)
        try:
            list_key = _NEW_LIST if options.new_list else options.list_key
            yield SwitchOver(tenant_id, options.vendor, exports, list_key, options.is_confirmed, options.is_filtered)
        finally:
            await asyncio.to_thread(archives.__exit__, None, None, None)

    async def _write(self, path: Path, content: AsyncIterator[bytes]) -> None:
        size = 0
        with await asyncio.to_thread(path.open, "xb") as file:
            async for chunk in content:
                size += len(chunk)
                if size > self._largest:
                    raise FileUnreadable(f"The file is larger than {self._largest // 1024**2} MB.", field="file")
                await asyncio.to_thread(file.write, chunk)

    async def _find(self, tenant_id: int, token: str) -> _Folder:
        folder = _Folder(self._path(tenant_id, token)) if _TOKEN.fullmatch(token) else None
        if folder is None or not await asyncio.to_thread(folder.options.exists):
            raise NotFound("The uploaded files have expired. Upload them again.")
        return folder

    def _path(self, tenant_id: int, token: str) -> Path:
        return self._folder / f"{tenant_id}-{token}.move"

    def _delete_expired(self) -> None:
        """Delete expired uploads. Use the clock of the file system, because the file times come from it."""
        for folder in self._all():
            with suppress(OSError):
                seconds = RESULT_SECONDS if folder.result.exists() else STAGED_SECONDS
                if time.time() - folder.path.stat().st_mtime > seconds and folder.state() is not MoveState.RUNNING:
                    shutil.rmtree(folder.path)

    def _all(self) -> Iterator[_Folder]:
        for path in self._folder.glob("*.move") if self._folder.is_dir() else ():
            yield _Folder(path)


def _try_lock(file: BufferedWriter) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _status(path: Path) -> MemberStatus | None:
    word = path.parent.name.partition("-")[2]
    return None if word == _ANY_STATUS else MemberStatus(word)


def _safe_name(name: str) -> str:
    """Return a name for the file system that still says what the file contains, with its suffix."""
    plain = _UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2])
    return plain[-_MAX_NAME:].lstrip(". ") or "export.csv"
