"""Replace a SQLite file by another one. Keep the old file, and never apply its WAL to the new one."""

import os
import sqlite3
from pathlib import Path

from mailwright.domain.errors import NotPossibleNow


def replace_file(current: Path, new: Path, kept: Path) -> bool:
    """Rename `current` to `kept` and `new` to `current`; return whether there was a current file.

    Raise if another process has the current file open.
    """
    was_there = current.exists()
    if was_there:
        _merge_log(current)
        os.link(current, kept)
        for suffix in ("-wal", "-shm"):  # Left by a damaged file; SQLite must not apply them to the new file.
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
    """Write the WAL into the file and delete it. SQLite refuses this while another connection is open."""
    connection = sqlite3.connect(file, timeout=1)
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise NotPossibleNow(
                f"Another process uses {file}. Stop all Mailwright processes, then restore again."
            ) from error
        raise
    except sqlite3.DatabaseError:
        pass  # The file is damaged. Keep it as it is.
    finally:
        connection.close()
