"""The report of an import: a CSV line for every row of the file, written with its batch.

The valid length of the file is stored with the batch. Bytes after that length come from a batch that was not committed,
and are overwritten.
"""

import asyncio
import csv
import io
import mmap
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from mailwright.audience.csv_cells import escape_formula, unescape_formula
from mailwright.audience.importing.store import RowOutcome
from mailwright.domain.clock import Instant
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.stored_files import add_part, edit_part, read_parts

HEADER: Final = ("line", "email", "outcome", "why")
MAX_EMAIL_SHOWN: Final = 254
_CHUNK_BYTES: Final = 256 * 1024
MOVE_REPORT: Final = "report.csv"
ReportLine = tuple[int, str, str, str]
# The number of the line in the imported file, the address as written, and the reason.
RefusedLine = tuple[int, str, str]


class ImportReport(Protocol):
    """Where the lines of a report are written."""

    async def write(self, tx: Runner, at: int, content: bytes, now: Instant) -> None:
        """Write at a position, in the transaction of the batch."""


class ReportFile:
    """A report in a file of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def write(self, tx: Runner, at: int, content: bytes, now: Instant) -> None:
        with self._path.open("r+b" if at and self._path.exists() else "wb") as file:
            file.seek(at)
            file.truncate()
            file.write(content)


class StoredReport:
    """A report in the database, where all machines can read it."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def write(self, tx: Runner, at: int, content: bytes, now: Instant) -> None:
        await add_part(tx, self._name, at, content, now)


async def append_lines(report: ImportReport | None, tx: Runner, at: int, lines: bytes, now: Instant) -> int:
    """Append lines to a report of this length, and return its new length. The first ones follow the titles."""
    if report is None:
        return at
    content = lines if at else _csv_line(HEADER).encode() + lines
    await report.write(tx, at, content, now)
    return at + len(content)


def format_report_lines(lines: Iterable[ReportLine]) -> bytes:
    """Format lines as CSV. A line without a remark needs no quoting, because a valid address needs none."""
    return "".join(
        [
            f"{number},{email},{outcome},\n"
            if not why and email[:1].isalnum()
            else _csv_line((number, escape_formula(email[:MAX_EMAIL_SHOWN]), outcome, why))
            for number, email, outcome, why in lines
        ]
    ).encode("utf-8", "replace")


async def read_refused(content: AsyncIterator[bytes], limit: int) -> list[RefusedLine]:
    """Read the first refused rows of a report."""
    refused: list[RefusedLine] = []
    rest = b""
    async for chunk in content:
        unread = rest + chunk
        end = _end_of_rows(unread)
        refused += await asyncio.to_thread(_refused_rows, unread[:end])
        rest = unread[end:]
        if len(refused) >= limit:
            break
    return refused[:limit]


async def read_beginning(path: Path, length: int) -> AsyncGenerator[bytes, None]:
    """Read only the first `length` bytes, because the import may still be appending to the file."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while length > 0 and (chunk := await asyncio.to_thread(file.read, min(_CHUNK_BYTES, length))):
            length -= len(chunk)
            yield chunk


def report_name(import_id: str) -> str:
    """Return the name of the report of an uploaded file."""
    return f"{import_id}.report.csv"


def move_reports(folder: Path, tenant_id: int) -> list[Path]:
    """Return the reports of contacts that were moved from another product."""
    return list(folder.glob(f"{tenant_id}-*.move/{MOVE_REPORT}"))


def redact_address(path: Path, address: str) -> None:
    """Overwrite an address with stars, ignoring case. The length must not change, because it is stored."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        _overwrite(content, address)


async def redact_stored_address(database: Database, name: str, address: str) -> None:
    """Overwrite an address in a report in the database. A line is never in two parts."""
    redact = partial(_redacted, address)
    async for position, content in read_parts(database, name):
        if redact(content) != content:
            await edit_part(database, name, position, redact)


def _redacted(address: str, stored: bytes) -> bytes:
    content = bytearray(stored)
    _overwrite(content, address)
    return bytes(content)


def _overwrite(content: mmap.mmap | bytearray, address: str) -> None:
    whole = re.compile(rb"(?<![\w.+-])" + re.escape(address.encode()) + rb"(?![\w-]|\.\w)", re.IGNORECASE)
    for begin, end in [match.span() for match in whole.finditer(content)]:
        content[begin:end] = b"*" * (end - begin)


def _end_of_rows(content: bytes) -> int:
    """Return where the last complete row ends. A line break between an odd and an even quote is part of a cell."""
    end = content.rfind(b"\n") + 1
    while content.count(b'"', 0, end) % 2:
        end = content.rfind(b"\n", 0, end - 1) + 1
    return end


def _refused_rows(content: bytes) -> list[RefusedLine]:
    rows = csv.reader(io.StringIO(content.decode("utf-8", "replace"), newline="\n"))
    return [
        (int(line), unescape_formula(email), why) for line, email, outcome, why in rows if outcome == RowOutcome.REFUSED
    ]


def _csv_line(cells: Iterable[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
