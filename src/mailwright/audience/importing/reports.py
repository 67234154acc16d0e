"""The report of an import: a line for every row of the file, written with the portion that it tells of.

The length up to which it is true is stored with the portion. Whatever stands behind that was written by a portion that
did not come to its end, and is written over.
"""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mailwright.audience.cells import harmless

HEADER: Final = ("line", "email", "outcome", "why")
Line = tuple[int, str, str, str]


class Report:
    """None for a path writes nowhere, and counts all the same."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, at: int, lines: Iterable[Line]) -> int:
        """The length afterwards."""
        if self._path is None:
            return at
        made = io.StringIO()
        writer = csv.writer(made, lineterminator="\n")
        if at == 0:
            writer.writerow(HEADER)
        writer.writerows(lines)
        content = made.getvalue().encode("utf-8", "replace")
        with self._path.open("r+b" if at and self._path.exists() else "wb") as file:
            file.seek(at)
            file.truncate()
            file.write(content)
        return at + len(content)


def line_of(number: int, email: str, outcome: str, why: str) -> Line:
    """The address as the file has it, where it was refused: it may be anything at all."""
    return number, harmless(email[:254]), outcome, why
