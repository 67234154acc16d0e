"""Export rows to compressed JSON lines before retention deletes them.

Each batch is one gzip member. The length of the file is committed with the deletion, and the next batch overwrites
everything after it. A process that is killed between the export and the deletion therefore loses and repeats no row.
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
from sqlalchemy import insert, select, update

from mailwright.domain.clock import Instant
from mailwright.domain.errors import MailwrightError
from mailwright.domain.retention import RetentionRule
from mailwright.storage.database import Transaction
from mailwright.storage.tables import retention_exports, tenants

# A larger file is continued in the next one.
MAX_FILE_BYTES: Final = 256 * 1024**2

Lines = Sequence[Mapping[str, Any]]


class ExportFailed(MailwrightError):
    """The rows could not be exported, so nothing was deleted."""

    code = "RETENTION_EXPORT_FAILED"


async def export_lines(tx: Transaction, folder: Path, rule: RetentionRule, lines: Lines, now: Instant) -> Path:
    """Append the lines to the rule's current file, and record the file's length in the caller's transaction."""
    c = retention_exports.c
    host = socket.gethostname()
    mine = select(c.file, c.bytes).where(c.tenant_id == rule.tenant_id, c.kind == rule.kind, c.bytes < MAX_FILE_BYTES)
    rows = await tx.execute(mine.where(c.file.contains(f"-{host}-", autoescape=True)).order_by(c.created_at.desc()))
    [tenant] = await tx.execute(select(tenants.c.name).where(tenants.c.id == rule.tenant_id))
    stamp = f"{datetime.fromtimestamp(now / 1000, UTC):%Y%m%dT%H%M%S}{now % 1000:03}Z"
    name = rows[0].file if rows else f"{tenant.name}-{rule.kind}-{host}-{stamp}.jsonl.gz"
    length = append_member(folder / name, rows[0].bytes if rows else 0, lines)
    if rows:
        changes = {"bytes": length, "exported": c.exported + len(lines), "updated_at": now}
        await tx.execute(update(retention_exports).where(c.file == name).values(**changes))
    else:
        values = {"file": name, "tenant_id": rule.tenant_id, "kind": rule.kind.value, "bytes": length}
        times = {"created_at": now, "updated_at": now}
        await tx.execute(insert(retention_exports).values(**values, exported=len(lines), **times))
    return folder / name


def append_member(file: Path, committed: int, lines: Lines) -> int:
    """Write the lines after the committed bytes, flush them to the disk, read them back, and return the new length."""
    content = b"".join(
        orjson.dumps({str(name): value for name, value in line.items()}, default=_encoded) + b"\n" for line in lines
    )
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
            _flush_folder(file.parent)
    except OSError as error:
        raise ExportFailed(f"The export {file} could not be written ({error.strerror or error}).") from error
    return committed + len(member)


def _flush_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _encoded(value: Any) -> str:
    if isinstance(value, (bytes, memoryview)):
        return b64encode(bytes(value)).decode()
    raise TypeError(type(value).__name__)
