"""Replace a SQLite file by another one, without losing it and without mixing the two."""

import os
import sqlite3
from pathlib import Path

from mailwright.domain.errors import NotPossibleNow


def replace_file(current: Path, new: Path, kept: Path) -> bool:
    """Put `new` in the place of `current`, which is kept under another name; return whether there was one.

    Raise if another process has it open.
    """
    was_there = current.exists()
    if was_there:
        _merge_log(current)
        os.link(current, kept)
        for suffix in ("-wal", "-shm"):  # Only a damaged file still has them; they must not be applied to the new one.
            log = Path(f"{current}{suffix}")
            if log.exists():
                log.rename(f"{kept}{suffix}")
    new.replace(current)
    folder = os.open(current.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return was_there


def _merge_log(file: Path) -> None:
    """Write the log into the file and remove it, which SQLite refuses while another connection is open."""
    connection = sqlite3.connect(file, timeout=1)
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise NotPossibleNow(
                f"Another process uses {file}. Stop all processes of Mailwright, then restore again."
            ) from error
        raise
    except sqlite3.DatabaseError:
        pass  # A damaged file: keep it as it is.
    finally:
        connection.close()
