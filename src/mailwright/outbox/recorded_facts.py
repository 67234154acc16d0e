"""Facts that the installation records about itself, for health checks: its size by day, its last backup and so on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Final

import orjson

from mailwright.domain.clock import DAY, HOUR, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.installation_values import load_value, store_value
from mailwright.storage.database import Database, Transaction

_SIZES: Final = "database_sizes"
_LAST_BACKUP: Final = "last_backup"
_CERTIFICATES: Final = "https_certificates"
# A size is recorded about once a day, and kept for a month.
SIZE_EVERY: Final = 20 * HOUR
_KEPT_SIZES: Final = 30
# A growth is computed only from sizes that are at least this far apart.
_MIN_SPAN: Final = 12 * HOUR


@dataclass(frozen=True, slots=True)
class RecordedBackup:
    at: Instant
    file: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RecordedSize:
    at: Instant
    size_bytes: int


class HttpsProblem(StrEnum):
    """Why visitors of a host get no page, or a warning in their browser."""

    EXPIRED = "expired"
    WRONG_NAME = "wrong_name"
    UNTRUSTED = "untrusted"
    NO_TLS = "no_tls"
    UNREACHABLE = "unreachable"  # From this machine; visitors may reach it.


@dataclass(frozen=True, slots=True)
class RecordedCertificate:
    """The certificate of a host at the time of the check: when it expires, or its problem."""

    at: Instant
    ends: Instant | None = None
    problem: HttpsProblem | None = None
    detail: str = ""


async def record_backup(database: Database, backup: RecordedBackup) -> None:
    async with database.write() as tx:
        await _store(tx, _LAST_BACKUP, {"at": backup.at, "file": backup.file, "bytes": backup.size_bytes})


async def find_backup(database: Database) -> RecordedBackup | None:
    """Return the last backup that was written and verified, or None."""
    async with database.read() as tx:
        found = await _load(tx, _LAST_BACKUP)
    return None if found is None else RecordedBackup(found["at"], found["file"], found["bytes"])


async def record_size(database: Database, now: Instant, size_bytes: int) -> None:
    """Record the size, unless one was recorded within the last day."""
    async with database.write() as tx:
        known = await _load(tx, _SIZES) or []
        if known and 0 <= now - known[-1][0] < SIZE_EVERY:
            return
        await _store(tx, _SIZES, [*known, [now, size_bytes]][-_KEPT_SIZES:])


async def load_sizes(database: Database) -> list[RecordedSize]:
    async with database.read() as tx:
        return [RecordedSize(*each) for each in await _load(tx, _SIZES) or []]


async def record_certificates(database: Database, certificates: Mapping[str, RecordedCertificate]) -> None:
    """Replace the certificates of all hosts."""
    async with database.write() as tx:
        await _store(tx, _CERTIFICATES, {host: asdict(each) for host, each in certificates.items()})


async def load_certificates(database: Database) -> dict[str, RecordedCertificate]:
    async with database.read() as tx:
        found = await _load(tx, _CERTIFICATES) or {}
    return {
        host: RecordedCertificate(**{**each, "problem": each["problem"] and HttpsProblem(each["problem"])})
        for host, each in found.items()
    }


def growth_per_day(sizes: Sequence[RecordedSize]) -> int | None:
    """Return the bytes by which the database grew per day, or None if too little is known."""
    if len(sizes) < 2 or sizes[-1].at - sizes[0].at < _MIN_SPAN:
        return None
    return (sizes[-1].size_bytes - sizes[0].size_bytes) * DAY // (sizes[-1].at - sizes[0].at)


async def _load(tx: Transaction, name: str) -> Any:
    value = await load_value(tx, name)
    return None if value is None else orjson.loads(value)


async def _store(tx: Transaction, name: str, value: Any) -> None:
    await store_value(tx, name, orjson.dumps(value).decode())
