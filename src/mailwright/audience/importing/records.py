"""Records: the rows of a file, one after another, in memory that does not grow with the file."""

import csv
import io
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice, repeat
from typing import BinaryIO, Final

from mailwright.audience.importing.file_format import FileFormat
from mailwright.domain.errors import InvalidInput

MAX_RECORD_LENGTH: Final = 64 * 1024
# A quote that is not closed swallows what follows. Once or twice is a mistake in a row; more is a file of another form.
MAX_OPEN_QUOTES: Final = 100
# So many lines are looked at together: where each is a row, as nearly always, they are read at the speed of C.
_AT_ONCE: Final = 1_000

# The line on which it begins, from 1; its cells; why it cannot be read, and then there are none.
Record = tuple[int, list[str], str | None]


class FileUnreadable(InvalidInput):
    """The file cannot be read as rows."""

    code = "FILE_UNREADABLE"


class _Endless(Exception):
    """The record that is being read does not end within the limit, or not at all."""


class RecordReader:
    """Iterate once, inside `with`. `read_bytes` tells how far the file has been read; closing it is not done here."""

    def __init__(self, file: BinaryIO, form: FileFormat) -> None:
        self._file = file
        self._form = form
        # What is no text in this encoding comes as halves of surrogates, and only its own row is refused.
        self._text = io.TextIOWrapper(file, form.encoding, errors="surrogateescape", newline="")
        self._lines = _Lines(self._text)
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
            while some := lines.some():
                rows = self._rows_of(some)
                if rows is None:
                    lines.put_back(some)
                    yield from self._one_by_one()
                    continue
                first = lines.number + 1
                lines.number += len(some)
                found = zip(range(first, first + len(rows)), rows, repeat(None))
                yield from found if all(rows) else (record for record in found if record[1])
        except UnicodeDecodeError as error:
            raise FileUnreadable(f"is not {self._form.encoding} after line {lines.number}", field="file") from error

    def _rows_of(self, some: list[str]) -> list[list[str]] | None:
        """None unless each of the lines is a row of its own. As many rows as lines can only be that."""
        if max(map(len, some)) > MAX_RECORD_LENGTH:
            return None
        try:
            rows = list(self._reader(iter(some)))
            is_closed = len(list(self._reader(iter([some[-1], "\n"])))) == 2
        except csv.Error:
            return None
        return rows if is_closed and len(rows) == len(some) else None

    def _one_by_one(self) -> Iterator[Record]:
        """Until all lines that were put back are in records."""
        lines = self._lines
        reader = self._reader(lines)
        while lines.has_some_again:
            line = lines.number + 1
            try:
                cells = next(reader)
            except (_Endless, csv.Error):
                reader = self._reader(lines)
                self._count_open_quote(lines.take_back_all_but_first(), line)
                yield line, [], f"longer than {MAX_RECORD_LENGTH // 1024} KB, or a quote is not closed"
                continue
            lines.forget()
            if cells:
                yield line, cells, None

    def _count_open_quote(self, is_open: bool, line: int) -> None:
        self._open_quotes += is_open
        if self._open_quotes > MAX_OPEN_QUOTES:
            raise FileUnreadable(
                f"quotes stay open in more than {MAX_OPEN_QUOTES} rows, the last of them on line {line}; "
                "is this the right quote character?",
                field="file",
            )

    def _reader(self, lines: Iterator[str]) -> Iterator[list[str]]:
        return csv.reader(lines, delimiter=self._form.delimiter, quotechar=self._form.quote)


class _Lines:
    """Hands out lines, and remembers those of the record under way."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        # A line that is too long comes in pieces, so that none costs more memory than the limit.
        self._unread = iter(partial(text.readline, MAX_RECORD_LENGTH + 1), "")
        self._again: deque[str] = deque()
        self._kept: list[str] = []
        self._size = 0
        self._problem: UnicodeDecodeError | None = None
        self.number = 0  # of the last line that was handed out

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._next_piece()
        if not line:
            if self._kept:
                raise _Endless
            raise StopIteration
        self.number += 1
        self._kept.append(line)
        self._size += len(line)
        if self._size > MAX_RECORD_LENGTH:
            raise _Endless
        return line

    @property
    def has_some_again(self) -> bool:
        return bool(self._again)

    def some(self) -> list[str]:
        """The next lines, not counted as handed out. What comes before bytes that are no text is still told."""
        if self._problem is not None:
            raise self._problem
        taken: list[str] = []
        try:
            taken.extend(islice(self._unread, _AT_ONCE))
        except UnicodeDecodeError as error:
            if not taken:
                raise
            self._problem = error
        return taken

    def put_back(self, lines: list[str]) -> None:
        self._again.extendleft(reversed(lines))

    def forget(self) -> None:
        self._kept.clear()
        self._size = 0

    def take_back_all_but_first(self) -> bool:
        """Whether there was more than one line: then the first one has left a quote open."""
        first, *others = self._kept
        is_open = bool(others)
        while first and not first.endswith(("\n", "\r")) and not others:
            first = self._next_piece()  # the rest of a line that is too long by itself
        self.put_back(others)
        self.number -= len(others)
        self.forget()
        return is_open

    def _next_piece(self) -> str:
        if self._again:
            return self._again.popleft()
        if self._problem is not None:
            raise self._problem
        return next(self._unread, "")
