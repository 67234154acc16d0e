"""The folder in which the processes of one supervisor keep their metrics.

A lock on the folder shows whether it is in use. The supervisor passes the lock on to its processes, so the lock ends
with the last of them. A supervisor that was killed cannot delete its folder; the next one that starts does.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PREFIX: Final = "mailwright-metrics-"


@dataclass(frozen=True, slots=True)
class MetricsFolder:
    path: Path
    lock: int  # A file descriptor. The folder is in use while any process has it open.


@contextlib.contextmanager
def open_metrics_folder() -> Iterator[MetricsFolder]:
    """Create a folder, and delete it at the end. First delete the folders that no process uses any longer."""
    _delete_unused()
    folder = _create()
    try:
        yield folder
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)
        os.close(folder.lock)


def _create() -> MetricsFolder:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Another supervisor that starts now may delete the folder before the lock.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():
                return MetricsFolder(path, lock)
            os.close(lock)


def _delete_unused() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # In use, of another user, or deleted just now.
            _delete_if_unused(path)


def _delete_if_unused(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid == os.geteuid():
            shutil.rmtree(path)
    finally:
        os.close(descriptor)
