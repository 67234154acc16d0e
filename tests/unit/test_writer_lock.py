"""Processes write to one SQLite file in turns. Each holder has a file descriptor of its own, as in two processes."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mailwright.storage.writer_lock import WriterLock


def a_lock(folder: Path, wait_seconds: float = 30.0) -> WriterLock:
    return WriterLock(folder / "mailwright.db-writer", wait_seconds)


def test_lock_that_is_held_too_long_is_reported(tmp_path: Path) -> None:
    with a_lock(tmp_path).held(), pytest.raises(sqlite3.OperationalError, match="database is locked"):
        a_lock(tmp_path, wait_seconds=0.01).acquire()


def test_waiting_process_gets_the_lock_when_it_is_released(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:
        with a_lock(tmp_path).held():
            waiting = thread.submit(a_lock(tmp_path).acquire)
        second = waiting.result()
    with pytest.raises(sqlite3.OperationalError):
        a_lock(tmp_path, wait_seconds=0.01).acquire()
    os.close(second)
    with a_lock(tmp_path).held():
        pass


def test_waiting_that_was_given_up_does_not_keep_the_lock(tmp_path: Path) -> None:
    for _ in range(3):
        with a_lock(tmp_path).held(), pytest.raises(sqlite3.OperationalError):
            a_lock(tmp_path, wait_seconds=0.01).acquire()
    with a_lock(tmp_path).held():
        pass


def test_threads_with_one_lock_release_only_their_own(tmp_path: Path) -> None:
    lock = a_lock(tmp_path)

    def write(_: int) -> None:
        for _ in range(50):
            with lock.held():
                pass

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    with a_lock(tmp_path, wait_seconds=1).held():  # The lock is free.
        pass
