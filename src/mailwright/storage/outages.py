"""Say why a database cannot be reached or cannot store, as far as its error and its file system tell."""

import os
import re
import shutil
import ssl
from pathlib import Path
from typing import Final

from sqlalchemy import URL

from mailwright.domain.errors import DatabaseBlocked, DatabaseDamaged, DatabaseNotReady, NotDurable

_DAMAGED: Final = re.compile(
    r"malformed|file is not a database|invalid page in block|could not read block|missing chunk number"
)
# PostgreSQL first writes a cache file, so that the cause of its failure is not in the error.
_DISK_FULL: Final = re.compile(
    r"database or disk is full|No space left on device|could not extend file|could not write init file"
)
_DENIED: Final = "42501"  # PostgreSQL's code. Its messages also contain values.
_READ_ONLY: Final = re.compile(r"in a read-only transaction")
# What to do if the server refuses the address, by the code of PostgreSQL.
_ADVICE: Final = {
    "28P01": "Correct the password of {user} in the address, in the password file or in PGPASSWORD.",
    "28000": "Correct the address, or allow it in pg_hba.conf of the server.",
    "3D000": "Create the database {database}, or correct its name in the address.",
}
_NOISE: Final = re.compile(r"<class '[^']*'>: |\s*\(Background on this error.*", re.DOTALL)
_LITTLE_SPACE: Final = 1_000_000  # bytes


def explain_outage(message: str, url: URL, error: BaseException) -> NotDurable:
    """Return the error for people: what is wrong, and what to do. `message` says what was not possible."""
    reason = _plain_reason(error)
    if _DAMAGED.search(reason):
        return DatabaseDamaged(
            f"The database {url.database} is damaged ({reason}). Retrying does not help. Stop all Mailwright "
            "processes, keep a copy of it, restore the latest backup and check the installation. For a SQLite file, "
            "`sqlite3 FILE .recover` saves what is still readable."
        )
    if _DISK_FULL.search(reason):
        return _disk_full(url)
    if _READ_ONLY.search(reason):
        return DatabaseBlocked(
            "The PostgreSQL server accepts no writes: it is a standby, or default_transaction_read_only is on. Nothing "
            "was stored."
        )
    if url.get_backend_name() == "sqlite" and (found := _file_problem(url, reason)) is not None:
        return found
    return _refused(message, url, error) or NotDurable(f"{message} ({reason}). Retry shortly.")


def _refused(message: str, url: URL, error: BaseException) -> DatabaseNotReady | None:
    """Return the error if the server, or the check of its certificate, refuses the address itself."""
    origin = getattr(error, "orig", None) or error
    reason = _plain_reason(error)
    if isinstance(origin, ssl.SSLCertVerificationError):
        advice = "Correct sslrootcert, or the name of the server in the address."
    elif (state := getattr(origin, "sqlstate", None)) in _ADVICE:
        advice = _ADVICE[state].format(user=url.username or "the user", database=url.database)
    else:
        return None
    return DatabaseNotReady(f"{message} ({reason}). {advice}")


def is_denied(error: BaseException) -> bool:
    """Return whether the database user lacks a right."""
    return getattr(getattr(error, "orig", None) or error, "sqlstate", None) == _DENIED


def access_denied(url: URL, error: BaseException) -> DatabaseNotReady:
    return DatabaseNotReady(
        f"The database user {url.username or 'of this connection'} lacks a right ({_plain_reason(error)}). Connect as "
        "the owner of the tables, or let the owner grant the rights."
    )


def _disk_full(url: URL) -> DatabaseBlocked:
    return DatabaseBlocked(f"The disk of the database {url.database} is full. Nothing was stored. Free some space.")


def _file_problem(url: URL, reason: str) -> NotDurable | None:
    """Return what keeps SQLite from its file. It also writes files beside it, even to read."""
    file = Path(str(url.database)).absolute()
    if "database is locked" in reason:
        return DatabaseBlocked(
            f"Another process keeps the database {file.name} locked. Nothing was stored. Retry shortly. If the process "
            "does not belong to Mailwright, such as a SQLite shell with an open transaction, end it."
        )
    if not file.parent.is_dir():
        return DatabaseNotReady(f"The folder of the database {url.database} does not exist. Create it.")
    if file.is_dir():
        return DatabaseNotReady(f"The database {url.database} is a folder. Set MAILWRIGHT_DATABASE_URL to a file.")
    if not os.access(file.parent, os.W_OK) or (file.exists() and not os.access(file, os.W_OK)):
        return DatabaseNotReady(
            f"This user may not write the database {url.database} and its folder. Start Mailwright as the user that "
            "owns them, or mount the disk writable."
        )
    if "disk I/O error" in reason and shutil.disk_usage(file.parent).free < _LITTLE_SPACE:
        return _disk_full(url)
    return None


def _plain_reason(error: BaseException) -> str:
    origin = getattr(error, "orig", None) or error
    if isinstance(origin, TimeoutError) and not str(origin):
        return "no answer in time: the server is overloaded, or another session holds a lock"
    reason = _NOISE.sub("", str(origin)).strip() or type(origin).__name__
    return reason[:200]
