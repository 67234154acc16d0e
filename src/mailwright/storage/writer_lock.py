"""A file lock that lets the processes that write to one SQLite file take fair turns.

SQLite itself polls with growing pauses, during which other processes can overtake a waiting process for seconds. With
a file lock, the kernel wakes the waiting process at once, and releases the lock of a process that was killed.
"""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class WriterLock:
    """A lock on a file beside the database.

    It must not be the database file, because closing that file would release SQLite's own locks in this process. Each
    holder has a file descriptor of its own: a cancelled write may still end in its thread while the next one waits.
    """

    def __init__(self, file: Path, wait_seconds: float) -> None:
        self._file = file
        self._wait_seconds = wait_seconds

    @contextmanager
    def held(self) -> Iterator[None]:
        descriptor = self.acquire()
        try:
            yield
        finally:
            os.close(descriptor)

    def acquire(self) -> int:
        """Wait for the lock, and return the file descriptor whose closing releases it.

        On timeout, raise SQLite's "database is locked" error.
        """
        descriptor = os.open(self._file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _Waiting(descriptor).has_lock_within(self._wait_seconds):
                raise sqlite3.OperationalError("database is locked") from None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


class _Waiting:
    """Waits for a file lock in a thread, because `flock` has no timeout and the lock's holder may be frozen."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_ended = threading.Event()
        self._decision = threading.Lock()
        self._has_lock = self._is_abandoned = False
        threading.Thread(target=self._wait, name="writer-lock", daemon=True).start()

    def has_lock_within(self, seconds: float) -> bool:
        self._is_ended.wait(seconds)
        with self._decision:
            self._is_abandoned = not self._has_lock
            return self._has_lock

    def _wait(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            with self._decision:
                self._has_lock = not self._is_abandoned
        finally:
            if not self._has_lock:
                os.close(self._descriptor)
            self._is_ended.set()
