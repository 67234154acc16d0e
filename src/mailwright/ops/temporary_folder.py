"""Temporary folders that are deleted even if the process that created one is killed.

A lock on the folder shows whether it is in use. A supervisor passes the lock on to its processes, so the lock ends
with the last of them. A process that was killed cannot delete its folder; the next one with the same prefix does.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mailwright.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TemporaryFolder:
    path: Path
    lock: int  # A file descriptor. The folder is in use while any process has it open.


@contextlib.contextmanager
def open_temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[TemporaryFolder]:
    """Create a folder, and delete it at the end. First delete the folders that no process uses any longer.

    `parent` is the folder of the operating system for temporary files if it is None.
    """
    inside = Path(tempfile.gettempdir()) if parent is None else parent
    delete_unused_folders(prefix, inside)
    folder = _create(inside, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)
        os.close(folder.lock)


def delete_unused_folders(prefix: str, parent: Path) -> None:
    """Delete the folders that no process uses any longer."""
    for path in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # In use, of another user, or deleted just now.
            _delete_if_unused(path)


def _create(parent: Path, prefix: str) -> TemporaryFolder:
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        # Another process that starts now may delete the folder before the lock.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():
                return TemporaryFolder(path, lock)
            os.close(lock)


def _delete_if_unused(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid == os.geteuid():
            shutil.rmtree(path)
    finally:
        os.close(descriptor)
