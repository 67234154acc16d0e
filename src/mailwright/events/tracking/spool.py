"""A local append-only file of opens and clicks. Each is written before the response, and later stored in the database.

Each process locks its own file. A process that can lock a file may store its lines and delete it. This is the writing
process itself, after it has begun the next file, or another process after a crash.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType

SUFFIX: Final = ".spool"


@dataclass(frozen=True, slots=True)
class TrackedHit:
    """A click, or an open if `url` is None and the link is visible.

    `outbox_id` is None if the link does not identify a recipient.
    """

    at: Instant
    campaign_key: int | None
    outbox_id: str | None
    url: str | None
    is_machine: bool
    is_invisible_link: bool = False

    @property
    def type(self) -> EventType:
        return EventType.OPENED if self.url is None and not self.is_invisible_link else EventType.CLICKED

    def as_line(self) -> bytes:
        return orjson.dumps([getattr(self, name) for name in self.__slots__], option=orjson.OPT_APPEND_NEWLINE)


class Spool:
    """The file of this process. It is created with the first line."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None

    def append(self, hit: TrackedHit) -> None:
        """Write a line. It survives a crash of the process, but a power failure can lose the last second."""
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{uuid7(hit.at)}{SUFFIX}"
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        os.write(self._file, hit.as_line())

    def close(self) -> None:
        """End the file. The next line begins another one."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def hits_of(self, outbox_id: str) -> list[TrackedHit]:
        """Return the opens and clicks of a message that no process of this server has stored yet."""
        found: list[TrackedHit] = []
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with contextlib.suppress(FileNotFoundError):  # Its lines have just been stored.
                found += FinishedFile(path).hits(about=outbox_id.encode())
        return found

    def finished(self) -> Iterator["FinishedFile"]:
        """Yield the files that no process writes any more, oldest first, each locked while it is used."""
        self.close()
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with _locked(path) as file:
                if file is not None:
                    yield FinishedFile(path)


@dataclass(frozen=True, slots=True)
class FinishedFile:
    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    def hits(self, about: bytes = b"") -> list[TrackedHit]:
        """Return the lines that contain `about`, without a line that was cut off by a full disk."""
        lines = self.path.read_bytes().split(b"\n")
        return [hit for line in lines if about in line and (hit := _read(line)) is not None]

    def delete(self) -> None:
        self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """Lock a file. Yield None if another process has locked or deleted it."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield file if path.exists() else None
    except BlockingIOError:
        yield None
    finally:
        os.close(file)


def _read(line: bytes) -> TrackedHit | None:
    try:
        values: Any = orjson.loads(line)
        return TrackedHit(*values)
    except (orjson.JSONDecodeError, TypeError):
        return None
