"""Cells of exported files: escaped so that spreadsheets do not run them as formulas, and restored by imports."""

import csv
import io
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any, Final

# Lines per part of a file: smaller parts cost more writes, larger ones delay the first bytes.
_PART_LINES: Final = 500

# Characters that start a formula in a spreadsheet, also in their full-width forms.
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:[.,][0-9]+)?")


def escape_formula(text: str) -> str:
    """Prefix a quote to text that a spreadsheet would run as a formula. Plain numbers stay unchanged."""
    if text[:1].isalnum():  # A fast exit, because this is true for nearly every cell.
        return text
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unescape_formula(text: str) -> str:
    """Undo `escape_formula`."""
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Return lines of CSV. None is an empty cell, and cells that a spreadsheet would run as a formula are escaped."""
    text = io.StringIO()
    cells = ([escape_formula("" if cell is None else str(cell)) for cell in row] for row in rows)
    csv.writer(text, lineterminator="\r\n").writerows(cells)
    return text.getvalue()


async def csv_parts(titles: Sequence[str], rows: AsyncIterable[Sequence[Any]]) -> AsyncIterator[str]:
    """Yield CSV with these titles in parts."""
    part: list[Sequence[Any]] = [titles]
    async for row in rows:
        part.append(row)
        if len(part) >= _PART_LINES:
            yield csv_text(part)
            part = []
    if part:
        yield csv_text(part)
