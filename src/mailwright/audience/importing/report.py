"""The report of an import: a line for every row of the file, written with the portion that it tells of.

The length up to which it is true is stored with the portion. Whatever stands behind that was written by a portion that
did not come to its end, and is written over.
"""

import csv
import io
import mmap
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mailwright.audience.csv_cells import escape_formula

HEADER: Final = ("line", "email", "outcome", "why")
MAX_EMAIL_SHOWN: Final = 254
ReportLine = tuple[int, str, str, str]


class ImportReport:
    """None for a path writes nowhere, and counts all the same."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, at: int, told: bytes) -> int:
        """The length afterwards."""
        if self._path is None:
            return at
        content = told if at else _written(HEADER).encode() + told
        with self._path.open("r+b" if at and self._path.exists() else "wb") as file:
            file.seek(at)
            file.truncate()
            file.write(content)
        return at + len(content)


def format_report_lines(lines: Iterable[ReportLine]) -> bytes:
    """As CSV. Where nothing is remarked, all is well, and a good address needs no quotes."""
    return "".join(
        [
            f"{number},{email},{outcome},\n"
            if not why and email[:1].isalnum()
            else _written((number, escape_formula(email[:MAX_EMAIL_SHOWN]), outcome, why))
            for number, email, outcome, why in lines
        ]
    ).encode("utf-8", "replace")


def report_path(folder: Path, import_id: str) -> Path:
    """Where the report of a file that was handed in is kept."""
    return folder / f"{import_id}.report.csv"


def redact_address(path: Path, address: str) -> None:
    """Stars in place of an address, in any letters; as many as it was long, as the length of the file is stored."""
    whole = re.compile(rb"(?<![\w.+-])" + re.escape(address.encode()) + rb"(?![\w-]|\.\w)", re.IGNORECASE)
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        for begin, end in [found.span() for found in whole.finditer(content)]:
            content[begin:end] = b"*" * (end - begin)


def _written(cells: Iterable[object]) -> str:
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerow(cells)
    return made.getvalue()
