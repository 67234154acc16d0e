"""The format of a backup: compressed JSON lines, the same for both engines.

The first line describes the database, then each table follows as a line with its columns and one line per row, then the
files. The last line has the number of rows and a digest of everything before it, so a truncated or changed file is
recognised before anything is restored from it.
"""

import gzip
import hashlib
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, field
from typing import IO, Any, Final

import orjson

from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass

FORMAT_VERSION: Final = 1
_ROWS: Final = 1_000
_COMPRESSION_LEVEL: Final = 3
_CHANGED: Final = "The backup was changed after it was written (wrong digest). Use another backup."


class BackupInvalid(MailwrightError):
    """The file is not a complete backup that this version can read."""

    code = "BACKUP_INVALID"


class BackupNotWritten(MailwrightError):
    """The backup could not be written. Nothing is left of it."""

    code = "BACKUP_NOT_WRITTEN"


@dataclass(frozen=True, slots=True)
class BackupHeader:
    """The first line: describes the database and the time of the snapshot."""

    created_at: int
    revision: str
    engine: str
    database_id: str
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class TableRows:
    """Some rows of a table, in the order of its columns."""

    table: str
    columns: tuple[str, ...]
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True)
class StoredFile:
    name: str
    content: bytes


@dataclass(slots=True)
class BackupContents:
    """The contents of a backup: the number of rows in each table, and the number of files."""

    rows: dict[str, int] = field(default_factory=dict)
    files: int = 0


class BackupWriter:
    """Writes the lines of a backup. `finish` completes it."""

    def __init__(self, target: IO[bytes], header: BackupHeader) -> None:
        self._stream = gzip.GzipFile(fileobj=target, mode="wb", compresslevel=_COMPRESSION_LEVEL, mtime=0)
        self._digest = hashlib.blake2b(digest_size=32)
        self.contents = BackupContents()
        self._write(orjson.dumps({"backup": asdict(header)}))

    def start_table(self, name: str, columns: Sequence[str]) -> None:
        self.contents.rows[str(name)] = 0  # orjson rejects SQLAlchemy's subclass of str as a key.
        self._write(orjson.dumps({"table": name, "columns": list(columns)}))

    def write_rows(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        lines = [orjson.dumps(list(row), default=_encoded) for row in rows]
        self.contents.rows[table] += len(lines)
        if lines:
            self._write(b"\n".join(lines))

    def write_file(self, name: str, content: bytes) -> None:
        self.contents.files += 1
        self._write(orjson.dumps({"file": name, "content": b64encode(content).decode()}))

    def finish(self) -> None:
        end = {**asdict(self.contents), "digest": self._digest.hexdigest()}
        self._stream.write(orjson.dumps({"end": end}) + b"\n")
        self._stream.close()

    def _write(self, lines: bytes) -> None:
        self._digest.update(lines + b"\n")
        try:
            self._stream.write(lines + b"\n")
        except OSError as error:  # An error of the file, not of the database transaction that is open at the same time.
            raise BackupNotWritten(f"The backup could not be written ({error.strerror or error}).") from error


class BackupReader:
    """Reads a backup from its beginning to its end, and raises `BackupInvalid` if it is not complete."""

    def __init__(self, source: IO[bytes]) -> None:
        self._lines = _lines(source)
        self._digest = hashlib.blake2b(digest_size=32)
        self._before_end = ""  # The digest of all lines before the last one.
        try:
            first = self._next()
        except BackupInvalid:
            first = None
        header = first.get("backup") if isinstance(first, dict) else None
        if not isinstance(header, dict):
            raise BackupInvalid("The file is not a backup of Mailwright. Use a file that a backup wrote.")
        if header.get("format_version") != FORMAT_VERSION:
            raise BackupInvalid(
                f"The backup has the format {header.get('format_version')}; this version of Mailwright reads format "
                f"{FORMAT_VERSION}. Restore it with the version that wrote it."
            )
        try:
            self.header = BackupHeader(**header)
        except TypeError as error:
            raise BackupInvalid(
                "The backup was written by another version of Mailwright. Restore it with that one."
            ) from error

    def tables(self) -> Iterator[TableRows]:
        return (part for part in self._parts() if isinstance(part, TableRows))

    def files(self) -> Iterator[StoredFile]:
        return (part for part in self._parts() if isinstance(part, StoredFile))

    def _parts(self) -> Iterator[TableRows | StoredFile]:
        """Yield all tables and files, then compare their digest and row count with the last line."""
        contents = BackupContents()
        table, columns = "", tuple[str, ...]()
        rows: list[list[Any]] = []
        line: Any = None
        while not (isinstance(line, dict) and "end" in line):
            line = self._next()
            if isinstance(line, list):
                rows.append(line)
            if rows and (len(rows) == _ROWS or not isinstance(line, list)):
                contents.rows[table] += len(rows)
                yield TableRows(table, columns, rows)
                rows = []
            if isinstance(line, dict) and "table" in line:
                table, columns = _table_of(line)
                contents.rows[table] = 0
            elif isinstance(line, dict) and "file" in line:
                contents.files += 1
                yield _file_of(line)
        if {**asdict(contents), "digest": self._before_end} != line["end"]:
            raise BackupInvalid(_CHANGED)
        self._require_end()

    def require_digest(self) -> None:
        """Read everything, and raise if it is not what was written. Nothing else is checked."""
        line: Any = None
        while not (isinstance(line, dict) and "end" in line):
            line = self._next()
        if not isinstance(line["end"], dict) or line["end"].get("digest") != self._before_end:
            raise BackupInvalid(_CHANGED)
        self._require_end()

    def _require_end(self) -> None:
        try:
            is_over = next(self._lines, None) is None
        except (OSError, EOFError, zlib.error):
            is_over = False
        if not is_over:
            raise BackupInvalid("The backup has no valid last line: it was truncated or changed. Use another backup.")

    def _next(self) -> Any:
        try:
            line = next(self._lines)
            parsed = orjson.loads(line)
        except StopIteration:
            raise BackupInvalid("The backup is incomplete: its end is missing. Use another backup.") from None
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise BackupInvalid(f"The file cannot be read as a backup ({error}). Use another file.") from error
        self._before_end = self._digest.hexdigest() if line.startswith(b'{"end"') else ""
        self._digest.update(line)
        return parsed


def _table_of(line: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the name and the columns of a table. A changed file can have anything in their place."""
    try:
        return str(line["table"]), tuple(map(str, line["columns"]))
    except (KeyError, TypeError) as error:
        raise BackupInvalid(_CHANGED) from error


def _file_of(line: dict[str, Any]) -> StoredFile:
    try:
        return StoredFile(str(line["file"]), b64decode(line["content"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BackupInvalid(_CHANGED) from error


def _lines(source: IO[bytes]) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=source, mode="rb") as stream:
        yield from stream


def _encoded(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return {"bytes": b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} cannot be stored in a backup")


def decoded(value: Any) -> Any:
    """Convert a JSON value of a backup row to the value that the database stores."""
    return b64decode(value["bytes"]) if isinstance(value, dict) else value
