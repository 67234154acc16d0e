"""Count the rows of a file, and find addresses that occur more than once in it."""

from collections.abc import Iterable, Iterator
from typing import Final

from mailwright.audience.csv_cells import unescape_formula
from mailwright.audience.importing.records import Record
from mailwright.domain import address

# Only hashes of addresses are kept, so that the largest file takes about 150 MB. Later addresses are not compared.
MAX_COMPARED: Final = 2_000_000
_LINES_NAMED: Final = 10


class RowCounter:
    """Counts the records that pass through it, and notes the lines of repeated addresses."""

    def __init__(self, email_at: int) -> None:
        self.rows = 0
        self._email_at = email_at
        self._seen: set[int] = set()
        self._repeated: set[int] = set()
        self._lines: list[int] = []

    def watch(self, records: Iterable[Record]) -> Iterator[Record]:
        email_at, seen = self._email_at, self._seen
        for record in records:
            self.rows += 1
            line, cells, _ = record
            if email_at < len(cells):
                text = cells[email_at].strip()
                key = hash(text.lower() if text.isascii() and text[-1:] != ">" else _normal(text))
                if key in seen:
                    self._add(line, key, text)
                elif len(seen) < MAX_COMPARED:
                    seen.add(key)
            yield record

    def note(self) -> str | None:
        """Return a sentence about the repeated addresses, or None if there are none."""
        count = len(self._repeated)
        if not count:
            return None
        lines = ", ".join(map(str, self._lines[:_LINES_NAMED])) + (" …" if len(self._lines) > _LINES_NAMED else "")
        words = "1 address occurs" if count == 1 else f"{count:,} addresses occur"
        is_one = len(self._lines) == 1
        where = f"line {lines} repeats an earlier address" if is_one else f"lines {lines} repeat earlier addresses"
        return f"{words} more than once in the file; the last row is used ({where})."

    def _add(self, line: int, key: int, text: str) -> None:
        if _normal(text) is None:
            return  # Rows without a valid address are refused anyway.
        self._repeated.add(key)
        if len(self._lines) <= _LINES_NAMED:
            self._lines.append(line)


def _normal(text: str) -> str | None:
    return address.normal_mailbox(unescape_formula(address.trim(text)))
