"""The report of an import: a CSV line for every row of the file, written with its batch.

The valid length of the file is stored with the batch. Bytes after that length come from a batch that was not committed,
and are overwritten.
"""

import csv
import io
import mmap
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from mailwright.audience.csv_cells import escape_formula, unescape_formula
from mailwright.audience.importing.store import RowOutcome

HEADER: Final = ("line", "email", "outcome", "why")
MAX_EMAIL_SHOWN: Final = 254
MOVE_REPORT: Final = "report.csv"
ReportLine = tuple[int, str, str, str]
# The number of the line in the imported file, the address as written, and the reason.
RefusedLine = tuple[int, str, str]


class ImportReport:
    """Writes report lines to a file. If the path is None, it only counts their bytes."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, at: int, lines: bytes) -> int:
        """Write at a position and return the new length."""
        if self._path is None:
            return at
        content = lines if at else _csv_line(HEADER).encode() + lines
        with self._path.open("r+b" if at and self._path.exists() else "wb") as file:
            file.seek(at)
            file.truncate()
            file.write(content)
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


def read_refused(path: Path, length: int, limit: int) -> list[RefusedLine]:
    """Read the first refused rows from the valid part of a report."""
    with path.open("rb") as file:
        rows = csv.reader(_lines(file, length))
        next(rows, None)
        refused = (
            (int(line), unescape_formula(email), why)
            for line, email, outcome, why in rows
            if outcome == RowOutcome.REFUSED
        )
        return list(islice(refused, limit))


def report_path(folder: Path, import_id: str) -> Path:
    """Return the path of the report of an upload."""
    return folder / f"{import_id}.report.csv"


def move_reports(folder: Path, tenant_id: int) -> list[Path]:
    """Return the reports of contacts that were moved from another product."""
    return list(folder.glob(f"{tenant_id}-*.move/{MOVE_REPORT}"))


def redact_address(path: Path, address: str) -> None:
    """Overwrite an address with stars, ignoring case. The length must not change, because it is stored."""
    whole = re.compile(rb"(?<![\w.+-])" + re.escape(address.encode()) + rb"(?![\w-]|\.\w)", re.IGNORECASE)
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        for begin, end in [match.span() for match in whole.finditer(content)]:
            content[begin:end] = b"*" * (end - begin)


def _lines(file: BinaryIO, length: int) -> Iterator[str]:
    for line in file:
        length -= len(line)
        if length < 0:
            return
        yield line.decode("utf-8", "replace")


def _csv_line(cells: Iterable[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
