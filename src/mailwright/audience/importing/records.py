"""Records: the rows of a file, one after another, in memory that does not grow with the file."""

import csv
import io
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from mailwright.audience.importing.forms import Form
from mailwright.domain.errors import InvalidInput

LONGEST_RECORD: Final = 64 * 1024
# A quote that is not closed swallows what follows. Once or twice is a mistake in a row; more is a file of another form.
MOST_OPEN_QUOTES: Final = 100


class FileUnreadable(InvalidInput):
    """The file cannot be read as rows."""

    code = "FILE_UNREADABLE"


class Record(NamedTuple):
    line: int  # on which it begins, from 1
    cells: list[str]
    problem: str | None = None  # why it cannot be read; there are no cells then


class _TooLong(Exception):
    """The record that is being read does not end within the limit."""


class Records:
    """Iterate once, inside `with`. `read_bytes` tells how far the file has been read; closing it is not done here."""

    def __init__(self, file: BinaryIO, form: Form) -> None:
        self._file = file
        self._form = form
        # What is no text in this encoding comes as halves of surrogates, and only its own row is refused.
        self._text = io.TextIOWrapper(file, form.encoding, errors="surrogateescape", newline="")
        self._lines = _Lines(self._text)

    @property
    def read_bytes(self) -> int:
        return self._file.tell()

    def __enter__(self) -> "Records":
        return self

    def __exit__(self, *_: object) -> None:
        self._text.detach()

    def __iter__(self) -> Iterator[Record]:
        lines, open_quotes = self._lines, 0
        reader = self._reader()
        while True:
            line = lines.number + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except (_TooLong, csv.Error):
                reader = self._reader()
                open_quotes += lines.take_back_all_but_first()
                if open_quotes > MOST_OPEN_QUOTES:
                    raise FileUnreadable(
                        f"quotes stay open in more than {MOST_OPEN_QUOTES} rows, the last of them on line {line}; "
                        "is this the right quote character?",
                        field="file",
                    ) from None
                yield Record(line, [], f"longer than {LONGEST_RECORD // 1024} KB, or a quote is not closed")
                continue
            except UnicodeDecodeError as error:
                raise FileUnreadable(f"is not {self._form.encoding} after line {line}", field="file") from error
            lines.forget()
            if cells:
                yield Record(line, cells)

    def _reader(self) -> Iterator[list[str]]:
        return csv.reader(self._lines, delimiter=self._form.delimiter, quotechar=self._form.quote)


class _Lines:
    """Hands out lines, and remembers those of the record under way."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._read = text.readline
        self._again: deque[str] = deque()
        self._kept: list[str] = []
        self._size = 0
        self.number = 0  # of the last line that was handed out

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else self._read(LONGEST_RECORD + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self._kept.append(line)
        self._size += len(line)
        if self._size > LONGEST_RECORD:
            raise _TooLong
        return line

    def forget(self) -> None:
        self._kept.clear()
        self._size = 0

    def take_back_all_but_first(self) -> bool:
        """Whether there was more than one line: then the first one has left a quote open."""
        first, *others = self._kept
        while first and not first.endswith(("\n", "\r")) and not others:
            first = self._read(LONGEST_RECORD)  # the rest of a line that is too long by itself
        self._again.extendleft(reversed(others))
        self.number -= len(others)
        self.forget()
        return bool(others)
