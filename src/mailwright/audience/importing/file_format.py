"""Detect the encoding, delimiter and header of a file from its first bytes. Warn if the result is uncertain."""

import codecs
import csv
import re
from collections import Counter
from typing import Final

from mailwright.audience.contact_fields import is_address
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass

SAMPLE_BYTES: Final = 256 * 1024
MAX_RECORD_LENGTH: Final = 64 * 1024
DELIMITERS: Final = ",;\t|"
DELIMITER_NAMES: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_SAMPLE_RECORDS: Final = 50
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f\ufffd]")
_SINGLE_QUOTED: Final = re.compile(r"(?:^|[,;\t|])'[^']*'(?:$|[,;\t|])")
_HIGH_RUN: Final = re.compile(rb"[\x80-\xff]+")


class FileUnreadable(InvalidInput):
    """The file cannot be read as rows."""

    code = "FILE_UNREADABLE"


@dataclass(frozen=True, slots=True)
class FileFormat:
    encoding: str
    delimiter: str
    quote: str
    has_header: bool
    warnings: tuple[str, ...] = ()


def detect_format(sample: bytes) -> FileFormat:
    """Detect the format from the first `SAMPLE_BYTES` of a file."""
    encoding, warning = _encoding(sample)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(sample)
    if len(_CONTROL.findall(text)) > len(text) // 50:
        raise FileUnreadable(
            "The file is not text: it contains NUL or other control characters. Save the contacts as CSV or .xlsx.",
            field="file",
        )
    lines = text.splitlines()[: _SAMPLE_RECORDS + 1]
    if len(lines) > 1 and len(sample) >= SAMPLE_BYTES:
        lines.pop()  # may be incomplete
    if lines and len(lines[0]) > MAX_RECORD_LENGTH:
        raise FileUnreadable(
            "The first line is longer than {kilobytes} KB. It must contain the titles of at most 200 columns.",
            field="file",
            kilobytes=MAX_RECORD_LENGTH // 1024,
        )
    lines = [line for line in lines if len(line) <= MAX_RECORD_LENGTH]
    quote = _quote(lines)
    try:
        delimiter = _delimiter(lines, quote)
        first = next(csv.reader(lines, delimiter=delimiter, quotechar=quote), [])
    except csv.Error as error:
        raise FileUnreadable("A quote at the beginning of the file is not closed.", field="file") from error
    has_header = not any(is_address(cell.strip()) for cell in first)
    warnings = [warning] if warning else []
    if not has_header:
        warnings.append("The first line contains an address, so the file is read without a header.")
    return FileFormat(encoding, delimiter, quote, has_header, tuple(warnings))


def _encoding(sample: bytes) -> tuple[str, str | None]:
    for mark, encoding in _BOMS:
        if sample.startswith(mark):
            return encoding, None
    # In UTF-16, each ASCII character has a zero byte: the first in big-endian, the second in little-endian.
    first, second = sample[::2].count(0), sample[1::2].count(0)
    if max(first, second) * 10 > len(sample):
        encoding = "utf-16-le" if second > first else "utf-16-be"
        return encoding, f"The file does not state its encoding; it looks like {encoding.upper()}."
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        encoding = _eight_bit(sample)
        return encoding, f"The text is not UTF-8; it is read as {encoding}."
    return "utf-8", None


def _eight_bit(sample: bytes) -> str:
    """Guess the 8-bit encoding: Cyrillic words consist of bytes above 127, and Latin words contain only a few."""
    runs = Counter(min(len(run), 3) for run in _HIGH_RUN.findall(sample))
    return "cp1251" if runs[3] + runs[2] > runs[1] else "cp1252"


def _quote(lines: list[str]) -> str:
    """Return the quote character: `'` if it encloses cells in the header and most lines and no `"` occurs, else `"`."""
    quoted = [bool(_SINGLE_QUOTED.search(line)) for line in lines]
    is_single = bool(quoted) and quoted[0] and sum(quoted) * 2 > len(lines)
    return "'" if is_single and not any('"' in line for line in lines) else '"'


def _delimiter(lines: list[str], quote: str) -> str:
    """Choose the delimiter that splits most lines into the same number of cells as the header, and more than one."""

    def fitness(delimiter: str) -> tuple[float, int]:
        widths = [len(cells) for cells in csv.reader(lines, delimiter=delimiter, quotechar=quote) if cells]
        if not widths or widths[0] < 2:
            return 0, 0
        return sum(width == widths[0] for width in widths) / len(widths), widths[0]

    best = max(DELIMITERS, key=fitness)
    return best if fitness(best) > (0, 0) else ","
