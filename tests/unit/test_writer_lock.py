"""Processes write to one SQLite file in turns. A lock belongs to its object, so two of them act like two processes."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mailwright.storage.writer_lock import WriterLock


def a_lock(folder: Path, wait_seconds: float = 30.0) -> WriterLock:
    return WriterLock(folder / "mailwright.db-writer", wait_seconds)


def test_lock_that_is_held_too_long_is_reported(tmp_path: Path) -> None:
    with a_lock(tmp_path), pytest.raises(sqlite3.OperationalError, match="database is locked"):
        a_lock(tmp_path, wait_seconds=0.01).acquire()


def test_waiting_process_gets_the_lock_when_it_is_released(tmp_path: Path) -> None:
    first, second = a_lock(tmp_path), a_lock(tmp_path)
    with ThreadPoolExecutor(1) as thread:
        with first:
            waiting = thread.submit(second.acquire)
        waiting.result()
    with pytest.raises(sqlite3.OperationalError):
        a_lock(tmp_path, wait_seconds=0.01).acquire()
    second.release()
    first.acquire()


def test_waiting_that_was_given_up_does_not_keep_the_lock(tmp_path: Path) -> None:
    holder, impatient = a_lock(tmp_path), a_lock(tmp_path, wait_seconds=0.01)
    for _ in range(3):
        holder.acquire()
        with pytest.raises(sqlite3.OperationalError):
            impatient.acquire()
        holder.release()
    with a_lock(tmp_path):
        pass


def test_lock_can_be_released_without_being_held(tmp_path: Path) -> None:
    lock = a_lock(tmp_path)
    lock.release()
    with lock:
        pass
    lock.release()
