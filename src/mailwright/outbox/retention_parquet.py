"""Rewrite the exports of retention as Parquet, one file for each table.

A Parquet file cannot be continued after a crash, so each batch is first written as JSON lines. At the end of a pass,
these are rewritten and deleted. A process that is killed in between leaves them, and the next pass rewrites them.
"""

import asyncio
import gzip
import mmap
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from sqlalchemy import Boolean, Double, Integer, select

from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.retention import RetentionRule
from mailwright.outbox.retention_export import ExportFailed, flush_folder
from mailwright.outbox.retention_rules import lock_rule
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import metadata, retention_exports

if TYPE_CHECKING:
    from arro3.core import DataType, Schema

REPLACE_RETENTION_EXPORT: Final = statement(__package__, "replace_retention_export")

# The writer keeps one row group in memory, and holds the interpreter lock while it compresses one.
_GROUP_ROWS: Final = 20_000
_GROUP_BYTES: Final = 16 * 1024**2
_BATCH_ROWS: Final = 1_000


def require_parquet() -> None:
    """Raise an error if the package that writes Parquet is not installed."""
    try:
        import arro3.io  # noqa: F401, PLC0415 - 30 MB, needed only for this
    except ImportError as error:
        raise InvalidInput(
            "Exports as Parquet need `mailwright[parquet]`. Install it, or set MAILWRIGHT_RETENTION_EXPORT_FORMAT to "
            "`jsonl`.",
            field="exports",
        ) from error


async def rewrite_exports(database: Database, folder: Path, rule: RetentionRule, now: Instant) -> None:
    """Rewrite all files that the rule has exported on this machine."""
    e = retention_exports.c
    mine = (e.tenant_id == rule.tenant_id, e.kind == rule.kind, e.host == socket.gethostname())
    async with database.read() as tx:
        exports = await tx.execute(select(e.file, e.bytes, e.replaced_at).where(*mine).order_by(e.created_at))
    for export in exports:
        lines = folder / export.file
        if export.replaced_at is not None or await _rewrite(database, lines, export.bytes, rule, now):
            lines.unlink(missing_ok=True)


async def _rewrite(database: Database, lines: Path, length: int, rule: RetentionRule, now: Instant) -> bool:
    """Replace a file with Parquet files. Return False if another process has changed the export meanwhile."""
    written = await asyncio.to_thread(_write_tables, lines, length)

    async def publish(tx: Runner) -> bool:
        # A batch holds the lock of its rule too, so no other process appends to the file now.
        is_same = await lock_rule(tx, rule)
        if not is_same or not await tx.count(REPLACE_RETENTION_EXPORT, file=lines.name, bytes=length, now=now):
            return False
        _publish(lines.parent, written)
        return True

    try:
        return await database.transact(publish)
    finally:
        for partial in lines.parent.glob(f".{_stem(lines)}.*.partial"):  # Also those of a killed process.
            partial.unlink(missing_ok=True)


def _publish(folder: Path, written: dict[Path, Path]) -> None:
    try:
        for target, partial in written.items():
            if partial.exists():  # A transaction that is repeated has renamed it.
                partial.replace(target)
        flush_folder(folder)
    except OSError as error:  # Not an error of the database.
        raise ExportFailed(f"The export in {folder} could not be written ({error.strerror or error}).") from error


def _stem(lines: Path) -> str:
    return lines.name.removesuffix(".jsonl.gz")


@dataclass(slots=True)
class _TableLines:
    """Statistics about the lines of one table."""

    columns: dict[str, None]  # An ordered set.
    last: bytes = b""
    rows: int = 0
    size: int = 0


def _write_tables(lines: Path, length: int) -> dict[Path, Path]:
    """Write a temporary Parquet file for each table, and return them by their final paths."""
    written: dict[Path, Path] = {}
    try:
        for table, found in _survey(lines, length).items():
            target = lines.with_name(f"{_stem(lines)}.{table}.parquet")
            written[target] = target.with_name(f".{target.name}.{os.getpid()}.partial")
            _write_table(lines, length, table, found, written[target])
    except Exception as error:
        for partial in written.values():
            partial.unlink(missing_ok=True)
        # The message leaves out the error's text, which could quote a value.
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise ExportFailed(
            f"The export {lines} could not be rewritten as Parquet ({reason}). Its JSON lines are complete."
        ) from error
    return written


def _survey(lines: Path, length: int) -> dict[str, _TableLines]:
    """Count the lines of each table. The columns change at most once in a file, when Mailwright is upgraded."""
    tables: dict[str, _TableLines] = {}
    for line in _read_lines(lines, length):
        name = line.split(b'"', 4)[3].decode()
        if name not in tables:
            tables[name] = _TableLines(_columns(line))
        found = tables[name]
        found.last = line
        found.rows += 1
        found.size += len(line)
    for found in tables.values():
        found.columns |= _columns(found.last)
    return tables


def _columns(line: bytes) -> dict[str, None]:
    return {name: None for name in orjson.loads(line) if name != "table"}


def _write_table(lines: Path, length: int, table: str, found: _TableLines, target: Path) -> None:
    from arro3.io import read_json, read_parquet, write_parquet  # noqa: PLC0415 - 30 MB, needed only for this

    group = max(1, min(_GROUP_ROWS, _GROUP_BYTES * found.rows // found.size))
    batch = min(_BATCH_ROWS, group)
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    source = BufferedReader(_LinesOfTable(_read_lines(lines, length), table), 2**20)
    reader = read_json(source, _schema(table, found), batch_size=batch)
    with target.open("wb") as stream:
        write_parquet(reader, stream, compression="zstd(3)", max_row_group_size=group)
        stream.flush()
        os.fsync(stream.fileno())
    if sum(part.num_rows for part in read_parquet(target, batch_size=batch)) != found.rows:
        raise ExportFailed(f"The export {target} could not be read back. Check the disk.")


def _schema(table: str, found: _TableLines) -> "Schema":
    from arro3.core import Field, Schema  # noqa: PLC0415 - 30 MB, needed only for this

    columns = metadata.tables[table].columns
    return Schema([Field(name, _type(columns.get(name))) for name in found.columns])


def _type(column: Any) -> "DataType":
    from arro3.core import DataType  # noqa: PLC0415 - 30 MB, needed only for this

    kind = None if column is None else column.type
    if isinstance(kind, Boolean):
        return DataType.bool()
    if isinstance(kind, Integer):
        return DataType.int64()
    return DataType.float64() if isinstance(kind, Double) else DataType.string()


def _read_lines(lines: Path, length: int) -> Iterator[bytes]:
    """Read the committed part of a file. Another process may be writing after it."""
    with lines.open("rb") as stream, closing(mmap.mmap(stream.fileno(), length, access=mmap.ACCESS_READ)) as committed:
        yield from gzip.GzipFile(fileobj=committed)


class _LinesOfTable(RawIOBase):
    """Reads only the lines of one table."""

    def __init__(self, lines: Iterator[bytes], table: str) -> None:
        self._start = f'{{"table":"{table}",'.encode()
        self._lines = lines
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = memoryview(next((line for line in self._lines if line.startswith(self._start)), b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
