"""Export rows to compressed JSON lines before retention deletes them.

Each batch is one gzip member. The length of the file is committed with the deletion, and the next batch overwrites
everything after it. So no row is lost or exported twice if the process is killed between the export and the deletion.
"""

import gzip
import os
import socket
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
from sqlalchemy import Boolean

from mailwright.domain.clock import Instant
from mailwright.domain.errors import MailwrightError
from mailwright.domain.retention import RetentionRule
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import metadata

FIND_RETENTION_EXPORT: Final = statement(__package__, "find_retention_export")
SAVE_RETENTION_EXPORT: Final = statement(__package__, "save_retention_export")

# After this size, the export continues in a new file.
MAX_FILE_BYTES: Final = 256 * 1024**2

Lines = Sequence[Mapping[str, Any]]

# SQLite returns booleans as numbers.
_BOOLEANS: Final = {
    table.name: [column.name for column in table.columns if isinstance(column.type, Boolean)]
    for table in metadata.sorted_tables
}


class ExportFailed(MailwrightError):
    """The rows could not be exported, so nothing was deleted."""

    code = "RETENTION_EXPORT_FAILED"


def export_line(table: str, row: Any) -> dict[str, Any]:
    """Return the line of a row, the same on both engines."""
    line = {"table": table, **row._asdict()}
    return line | {name: bool(line[name]) for name in _BOOLEANS[table] if line.get(name) is not None}


async def export_lines(tx: Runner, folder: Path, rule: RetentionRule, lines: Lines, now: Instant) -> None:
    """Append the lines to the rule's current file, and record the file's length in the caller's transaction."""
    host = socket.gethostname()
    whose = {"tenant_id": rule.tenant_id, "kind": rule.kind.value, "host": host}
    [found] = await tx.run(FIND_RETENTION_EXPORT, **whose, largest=MAX_FILE_BYTES)
    stamp = f"{datetime.fromtimestamp(now / 1000, UTC):%Y%m%dT%H%M%S}{now % 1000:03}Z"
    name = found.file or f"{found.tenant}-{rule.kind}-{host}-{stamp}.jsonl.gz"
    length = append_member(folder / name, found.bytes or 0, lines)
    await tx.count(SAVE_RETENTION_EXPORT, file=name, **whose, bytes=length, exported=len(lines), now=now)


def append_member(file: Path, committed: int, lines: Lines) -> int:
    """Write the lines after the committed bytes, flush them to the disk, read them back, and return the new length."""
    content = b"".join(orjson.dumps(line, default=_encoded) + b"\n" for line in lines)
    member = gzip.compress(content, compresslevel=6, mtime=0)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        is_new = not file.exists()
        if is_new and committed:
            raise ExportFailed(f"The export {file} is missing. Put it back, or change the rule to start a new file.")
        with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as target:
            if target.seek(0, os.SEEK_END) < committed:
                raise ExportFailed(f"The export {file} is shorter than recorded. Put the complete file back.")
            target.truncate(committed)
            target.seek(committed)
            target.write(member)
            target.flush()
            os.fsync(target.fileno())
            target.seek(committed)
            if gzip.decompress(target.read()) != content:
                raise ExportFailed(f"The export {file} could not be read back. Check the disk.")
        if is_new:
            flush_folder(file.parent)
    except OSError as error:
        raise ExportFailed(f"The export {file} could not be written ({error.strerror or error}).") from error
    return committed + len(member)


def flush_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _encoded(value: Any) -> str:
    if isinstance(value, (bytes, memoryview)):
        return b64encode(bytes(value)).decode()
    raise TypeError(type(value).__name__)
