"""Read the rows of a file one after another, with constant memory use."""

import csv
import io
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice, repeat
from typing import BinaryIO, Final

from mailwright.audience.importing.file_format import DELIMITERS, MAX_RECORD_LENGTH, FileFormat, FileUnreadable

# A quote that is not closed includes the following lines in its cell. A few such rows are mistakes; more of them mean
# that the file has another format.
MAX_OPEN_QUOTES: Final = 100
# Number of lines that are parsed together. Nearly always each line is a row, so the C parser can read them all at once.
_LINES_AT_ONCE: Final = 1_000
_SHOWN: Final = 60  # characters of a line in a reason

# The number of the first line (from 1), the cells, and the problem if the record cannot be read (then without cells).
Record = tuple[int, list[str], str | None]


class _RecordTooLong(Exception):
    """The current record does not end within the limit."""


class RecordReader:
    """Reads records. Iterate once, inside `with`. `read_bytes` is the progress. The caller closes the file."""

    def __init__(self, file: BinaryIO, format_: FileFormat) -> None:
        self._file = file
        self._format = format_
        # Decode invalid bytes as surrogates, so that only the row that contains them is refused.
        self._text = io.TextIOWrapper(file, format_.encoding, errors="surrogateescape", newline="")
        self._lines = _LineSource(self._text)
        self._open_quotes = 0

    @property
    def read_bytes(self) -> int:
        return self._file.tell()

    def __enter__(self) -> "RecordReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._text.detach()

    def __iter__(self) -> Iterator[Record]:
        lines = self._lines
        try:
            while some := lines.next_lines():
                rows = self._rows_of(some)
                if rows is None:
                    lines.put_back(some)
                    yield from self._one_by_one()
                    continue
                first = lines.number + 1
                lines.number += len(some)
                numbered = zip(range(first, first + len(rows)), rows, repeat(None))
                yield from numbered if all(rows) else (record for record in numbered if record[1])
        except UnicodeDecodeError as error:
            raise FileUnreadable(
                "The file is not {encoding} after line {number}.",
                field="file",
                encoding=self._format.encoding,
                number=lines.number,
            ) from error

    def _rows_of(self, some: list[str]) -> list[list[str]] | None:
        """Parse the lines. Return None unless each line is exactly one row."""
        if max(map(len, some)) > MAX_RECORD_LENGTH:
            return None
        try:
            rows = list(self._reader(iter(some)))
            is_closed = len(list(self._reader(iter([some[-1], "\n"])))) == 2
        except csv.Error:
            return None
        return rows if is_closed and len(rows) == len(some) else None

    def _one_by_one(self) -> Iterator[Record]:
        """Read single records until all lines that were put back have been read again."""
        lines = self._lines
        reader = self._reader(lines)
        while lines.has_some_returned:
            line = lines.number + 1
            try:
                cells = next(reader)
            except (_RecordTooLong, csv.Error):
                reader = self._reader(lines)
                start, is_open = lines.take_back_all_but_first()
                self._count_open_quote(is_open, line)
                yield line, [], _problem(start)
                continue
            lines.forget()
            if cells:
                yield line, cells, None

    def _count_open_quote(self, is_open: bool, line: int) -> None:
        self._open_quotes += is_open
        if self._open_quotes > MAX_OPEN_QUOTES:
            raise FileUnreadable(
                "Quotes are not closed in more than {max_open_quotes} rows, the last of them on line "
                "{number}. Check the quote character.",
                field="file",
                max_open_quotes=MAX_OPEN_QUOTES,
                number=line,
            )

    def _reader(self, lines: Iterator[str]) -> Iterator[list[str]]:
        return csv.reader(lines, delimiter=self._format.delimiter, quotechar=self._format.quote)


class _LineSource:
    """Iterates over lines, and remembers the lines of the current record."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        # Read a long line in pieces, so that no piece takes more memory than the limit.
        self._unread = iter(partial(text.readline, MAX_RECORD_LENGTH + 1), "")
        self._returned: deque[str] = deque()
        self._current: list[str] = []
        self._size = 0
        self._problem: UnicodeDecodeError | None = None
        self.number = 0  # of the last returned line

    def __iter__(self) -> "_LineSource":
        return self

    def __next__(self) -> str:
        line = self._next_piece()
        if not line:
            if self._current:
                raise _RecordTooLong
            raise StopIteration
        self.number += 1
        self._current.append(line)
        self._size += len(line)
        if self._size > MAX_RECORD_LENGTH:
            raise _RecordTooLong
        return line

    @property
    def has_some_returned(self) -> bool:
        return bool(self._returned)

    def next_lines(self) -> list[str]:
        """Return the next lines without counting them. If invalid bytes follow, first return the lines before them."""
        if self._problem is not None:
            raise self._problem
        taken: list[str] = []
        try:
            taken.extend(islice(self._unread, _LINES_AT_ONCE))
        except UnicodeDecodeError as error:
            if not taken:
                raise
            self._problem = error
        return taken

    def put_back(self, lines: list[str]) -> None:
        self._returned.extendleft(reversed(lines))

    def forget(self) -> None:
        self._current.clear()
        self._size = 0

    def take_back_all_but_first(self) -> tuple[str, bool]:
        """Put back all lines of the record except the first. Return that one, and whether a quote is open in it.

        If the record has only one line, the quote is counted as closed.
        """
        first, *others = self._current
        start, is_open = first, bool(others)
        while first and not first.endswith(("\n", "\r")) and not others:
            first = self._next_piece()  # Skip the rest of a line that is too long.
        self.put_back(others)
        self.number -= len(others)
        self.forget()
        return start, is_open

    def _next_piece(self) -> str:
        if self._returned:
            return self._returned.popleft()
        if self._problem is not None:
            raise self._problem
        return next(self._unread, "")


def _problem(line: str) -> str:
    """Return the reason why a record cannot be read, with the beginning of its first line."""
    text = line.rstrip("\r\n")
    shown = text[:_SHOWN]
    if len(text) > _SHOWN:
        # Show only whole cells, because an erasure finds whole addresses in the report.
        shown = shown[: max(map(shown.rfind, f"{DELIMITERS} ")) + 1] + "…"
    is_long = len(text) > MAX_RECORD_LENGTH
    why = f"longer than {MAX_RECORD_LENGTH // 1024} KB" if is_long else "a quote is not closed"
    return f"{why}; the line begins with {shown!r}"
