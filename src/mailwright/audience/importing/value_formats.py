"""Number and date formats of columns: detected from the whole column, then applied to each cell.

`1.234,56` becomes 1234.56 and `12.10.1953` becomes 1953-10-12, so that filters can compare them. A format is used only
if the column's values allow no other. Otherwise the values stay as written, and a note asks the user to choose.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import date
from enum import StrEnum
from typing import Any, Final

from mailwright.domain.lazy_dataclass import dataclass


class ColumnFormat(StrEnum):
    DAY_FIRST = "dmy"
    MONTH_FIRST = "mdy"
    YEAR_FIRST = "ymd"
    DECIMAL_COMMA = "decimal-comma"
    DECIMAL_POINT = "decimal-point"
    TEXT = "text"


DATES: Final = (ColumnFormat.DAY_FIRST, ColumnFormat.MONTH_FIRST, ColumnFormat.YEAR_FIRST)
LABELS: Final[Mapping[ColumnFormat, str]] = {
    ColumnFormat.DAY_FIRST: "dates as day, month, year",
    ColumnFormat.MONTH_FIRST: "dates as month, day, year",
    ColumnFormat.YEAR_FIRST: "dates as year, month, day",
    ColumnFormat.DECIMAL_COMMA: "numbers with a decimal comma",
    ColumnFormat.DECIMAL_POINT: "numbers with a decimal point",
    ColumnFormat.TEXT: "text",
}


class _Kind(StrEnum):
    """The possible readings of one cell's text."""

    OTHER = "other"
    INTEGER = "integer"
    PLAIN_POINT = "plain point"  # 12.5, which filters read without conversion
    POINT = "point"  # 1,234.5
    COMMA = "comma"  # 1.234,5
    NUMBER = "number"  # 1,234 or 1 234
    NUMBER_WITH_POINT = "number with point"  # 1.234
    DAY_FIRST = "day first"  # 31.12.1953
    MONTH_FIRST = "month first"  # 12/31/1953
    DOTTED = "dotted"  # 12.10.1953
    DATE = "date"  # 10/12/1953 or 10-12-1953
    YEAR_FIRST = "year first"  # 1953-12-31
    SHORT_YEAR = "short year"  # 12.10.53


_NUMBERS: Final = (_Kind.INTEGER, _Kind.PLAIN_POINT, _Kind.POINT, _Kind.COMMA, _Kind.NUMBER, _Kind.NUMBER_WITH_POINT)
_DATES: Final = (_Kind.DAY_FIRST, _Kind.MONTH_FIRST, _Kind.DOTTED, _Kind.DATE, _Kind.YEAR_FIRST)
# If values prove both orders or both separators, the more frequent one must have at least this share.
_CLEAR_SHARE: Final = 0.8
_LINES_NAMED: Final = 5
# A column is skipped if it has this many values and few of them are numbers or dates.
_ENOUGH_VALUES: Final = 1_000
_MAX_DIGITS: Final = 15  # A float cannot store more digits exactly.
_MAX_LENGTH: Final = 40

_SPACES: Final = " \u00a0\u202f\u2009'\u2019"
_SIGN: Final = "[-+\u2212]?"
_TIME: Final = r"(?:[T ]+([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?))?"
_INTEGER: Final = re.compile(rf"{_SIGN}[0-9]+")
_DECIMAL: Final = {
    ",": re.compile(rf"({_SIGN})([0-9]+|[0-9]{{1,3}}(?:[.{_SPACES}][0-9]{{3}})+)(?:,([0-9]+))?"),
    ".": re.compile(rf"({_SIGN})([0-9]+|[0-9]{{1,3}}(?:[,{_SPACES}][0-9]{{3}})+)(?:\.([0-9]+))?"),
}
_PLAIN: Final = re.compile(rf"{_SIGN}[0-9]+\.[0-9]+")
_YEAR_LAST: Final = re.compile(rf"([0-9]{{1,2}})([./-])([0-9]{{1,2}})\2([0-9]{{4}}){_TIME}")
_YEAR_FIRST: Final = re.compile(rf"([0-9]{{4}})([./-])([0-9]{{1,2}})\2([0-9]{{1,2}}){_TIME}")
_SHORT_YEAR: Final = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{2})")
_NO_DIGITS: Final = re.compile(r"[^0-9]")


def convert(text: str, format_: str) -> Any:
    """Convert text to a number or to a date such as `1953-10-12`. Return None if it does not have this format."""
    if len(text) > _MAX_LENGTH:
        return None
    if format_ == ColumnFormat.DECIMAL_COMMA:
        return _number(text, ",")
    if format_ == ColumnFormat.DECIMAL_POINT:
        return _number(text, ".")
    return _date(text, format_)


@dataclass(slots=True)
class ColumnValues:
    """Counts of the possible readings of one column's values."""

    title: str
    kinds: Counter[_Kind] = field(default_factory=Counter)
    examples: dict[_Kind, tuple[int, str]] = field(default_factory=dict)
    is_skipped: bool = False

    def add(self, line: int, text: str) -> None:
        kind = _kind(text)
        self.kinds[kind] += 1
        if kind not in self.examples:
            self.examples[kind] = (line, text)
            return
        if self.kinds.total() == _ENOUGH_VALUES and self._count(*_NUMBERS, *_DATES) * 10 < _ENOUGH_VALUES:
            self.is_skipped = True

    def judge(self) -> tuple[str, str | None]:
        """Return the format (empty to keep values as written), and a question to the user if it is uncertain."""
        half = self.kinds.total() / 2
        if self._count(*_DATES) > half:
            return self._judge_dates()
        if self._count(*_NUMBERS) > half:
            return self._judge_numbers()
        if self.kinds[_Kind.SHORT_YEAR] > half:
            example = self.examples[_Kind.SHORT_YEAR][1]
            return "", f"{self.title}: the years of dates such as {example} have two digits, so they stay text."
        return "", None

    def _judge_dates(self) -> tuple[str, str | None]:
        order = self._clear(_Kind.DAY_FIRST, _Kind.MONTH_FIRST)
        if order is not None:
            return (ColumnFormat.DAY_FIRST if order is _Kind.DAY_FIRST else ColumnFormat.MONTH_FIRST), None
        if not self._count(_Kind.DAY_FIRST, _Kind.MONTH_FIRST, _Kind.DATE):
            # Every language that writes dates with dots puts the day first.
            return (ColumnFormat.DAY_FIRST if self.kinds[_Kind.DOTTED] else ColumnFormat.YEAR_FIRST), None
        example = self._example(_Kind.DATE, _Kind.DOTTED, _Kind.DAY_FIRST, _Kind.MONTH_FIRST)
        return "", self._question(
            f"{example} can be read with the day or the month first", ColumnFormat.DAY_FIRST, ColumnFormat.MONTH_FIRST
        )

    def _judge_numbers(self) -> tuple[str, str | None]:
        if not self._count(_Kind.POINT, _Kind.COMMA, _Kind.NUMBER, _Kind.NUMBER_WITH_POINT):
            return "", None
        separator = self._clear(_Kind.COMMA, _Kind.POINT, also=_Kind.PLAIN_POINT)
        if separator is _Kind.COMMA:
            return ColumnFormat.DECIMAL_COMMA, None
        if separator is not None:
            return (ColumnFormat.DECIMAL_POINT if self._count(_Kind.POINT, _Kind.NUMBER) else ""), None
        example = self._example(_Kind.NUMBER, _Kind.NUMBER_WITH_POINT, _Kind.COMMA, _Kind.POINT)
        return "", self._question(
            f"{example} can be read in several ways", ColumnFormat.DECIMAL_COMMA, ColumnFormat.DECIMAL_POINT
        )

    def _clear(self, one: _Kind, other: _Kind, also: _Kind | None = None) -> _Kind | None:
        """Return the kind that the column's values prove, or None.

        Values of the kind `also` prove the kind `other` as well.
        """
        counts = {one: self.kinds[one], other: self.kinds[other] + (self.kinds[also] if also else 0)}
        most = max(counts, key=counts.__getitem__)
        return most if counts[most] and counts[most] >= _CLEAR_SHARE * sum(counts.values()) else None

    def _question(self, problem: str, *formats: ColumnFormat) -> str:
        options = " or ".join(f"{LABELS[each]} ({each})" for each in formats)
        return f"{self.title}: {problem}, so the values stay text. Choose the format of the column: {options}."

    def _example(self, *kinds: _Kind) -> str:
        return next((self.examples[kind][1] for kind in kinds if kind in self.examples), "")

    def _count(self, *kinds: _Kind) -> int:
        return sum(self.kinds[kind] for kind in kinds)


@dataclass(slots=True)
class OddCells:
    """The cells that do not have the format of their column."""

    title: str
    stay: str  # how these cells are stored: as text or empty
    problem: str = ""  # the problem with the first such cell
    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int, problem: str) -> None:
        self.problem = self.problem or problem
        self.count += 1
        if len(self.lines) < _LINES_NAMED:
            self.lines.append(line)

    def note(self) -> str | None:
        if not self.count:
            return None
        lines = ", ".join(map(str, self.lines)) + (" …" if self.count > len(self.lines) else "")
        words = f"line {lines} stays" if self.count == 1 else f"lines {lines} stay"
        return f"{self.title}: {self.problem}; {words} {self.stay}."


def odd_cell_remark(title: str, text: str, format_: str) -> str:
    """Return the remark for the report about a cell that does not have its column's format."""
    what = "date" if format_ in DATES else "number"
    return f"{title}: {text[:_MAX_LENGTH]!r} is not a {what} like the others; stored as text"


def judge_columns(titles: Mapping[int, str], rows: Iterable[tuple[int, Sequence[str]]]) -> dict[int, ColumnValues]:
    """Read all rows and collect the values of the columns at these positions."""
    values = {position: ColumnValues(title) for position, title in titles.items()}
    open_ = dict(values)
    for line, cells in rows:
        for position in [position for position, column in open_.items() if column.is_skipped]:
            del open_[position]
        width = len(cells)
        for position, column in open_.items():
            if position < width and (text := cells[position].strip()):
                column.add(line, text)
    return {position: column for position, column in values.items() if not column.is_skipped}


def _kind(text: str) -> _Kind:
    """Return how a cell can be read. For most cells, checking the first character is enough."""
    first = text[0]
    if not (first.isdecimal() or first in "+-\u2212") or len(text) > _MAX_LENGTH:
        return _Kind.OTHER
    if _INTEGER.fullmatch(text):
        return _Kind.INTEGER
    if found := _YEAR_LAST.fullmatch(text):
        return _kind_of_date(int(found[1]), int(found[3]), found[2])
    if _YEAR_FIRST.fullmatch(text):
        return _Kind.YEAR_FIRST if _date(text, ColumnFormat.YEAR_FIRST) else _Kind.OTHER
    if _SHORT_YEAR.fullmatch(text):
        return _Kind.SHORT_YEAR
    return _kind_of_number(text)


def _kind_of_date(first: int, second: int, separator: str) -> _Kind:
    if not (1 <= first <= 31 and 1 <= second <= 31) or (first > 12 and second > 12):
        return _Kind.OTHER
    if first > 12:
        return _Kind.DAY_FIRST
    if second > 12:
        return _Kind.MONTH_FIRST
    return _Kind.DOTTED if separator == "." else _Kind.DATE


def _kind_of_number(text: str) -> _Kind:
    with_comma, with_point = _number(text, ","), _number(text, ".")
    if with_comma is None and with_point is None:
        return _Kind.OTHER
    if with_comma is None:
        return _Kind.PLAIN_POINT if _PLAIN.fullmatch(text) else _Kind.POINT
    if with_point is None:
        return _Kind.COMMA
    if text.lstrip("+-\u2212")[0] == "0":  # A number with a thousands separator does not begin with 0.
        return _Kind.COMMA if "," in text else _Kind.PLAIN_POINT
    return _Kind.NUMBER_WITH_POINT if "." in text else _Kind.NUMBER


def _number(text: str, decimal: str) -> int | float | None:
    found = _DECIMAL[decimal].fullmatch(text)
    if found is None:
        return None
    sign, whole, fraction = found.groups()
    digits = _NO_DIGITS.sub("", whole)
    if len(digits) + len(fraction or "") > _MAX_DIGITS:
        return None
    # Store 12.000,00 as an integer, because an email would show a float as 12000.0.
    value = float(f"{digits}.{fraction}") if fraction and fraction.strip("0") else int(digits)
    return -value if sign in ("-", "\u2212") else value


def _date(text: str, order: str) -> str | None:
    if found := _YEAR_FIRST.fullmatch(text):
        year, _, month, day, time = found.groups()
    elif order != ColumnFormat.YEAR_FIRST and (found := _YEAR_LAST.fullmatch(text)):
        day, _, month, year, time = found.groups()
        if order == ColumnFormat.MONTH_FIRST:
            day, month = month, day
    else:
        return None
    try:
        found_day = date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None
    return f"{found_day} {time}" if time else found_day
