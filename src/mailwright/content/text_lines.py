"""Convert a text with marks to plain text: blank lines between blocks, lists with bullets, tables with columns.

A mark is `BREAK` and one character. It ends the line; the character is the kind of block that begins or ends there.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count, repeat, zip_longest

BREAK, LINK_START, LINK_TEXT, LINK_END = MARKS = ("\x01", "\x02", "\x03", "\x04")

_SPACED = ("p", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "dl")
_NAMES_OF_BLOCKS = """
    address article aside body caption center dd details div dt fieldset figcaption footer form header hgroup html
    legend main nav option section summary
"""
_LEVELS = {"ul": "u", "ol": "o", "blockquote": "q"}
# The marks for the start and end tags of elements that begin or end a line.
_BOTH = {**dict.fromkeys(_SPACED, f"{BREAK}p"), **dict.fromkeys(_NAMES_OF_BLOCKS.split(), f"{BREAK}b"), "q": '"'}
START_MARKS = {
    **_BOTH,
    **{name: f"{BREAK}{sign}" for name, sign in _LEVELS.items()},
    **dict.fromkeys(["td", "th"], f"{BREAK}c"),
    **dict.fromkeys(["pre", "listing", "xmp"], f"{BREAK}v"),
    "br": f"{BREAK}n",
    "li": f"{BREAK}i",
    "table": f"{BREAK}t",
    "tr": f"{BREAK}r",
}
END_MARKS = {
    **_BOTH,
    **{name: f"{BREAK}{sign.upper()}" for name, sign in _LEVELS.items()},
    **dict.fromkeys(["pre", "listing", "xmp"], f"{BREAK}V"),
    "a": LINK_END,
    "br": f"{BREAK}n",
    "li": f"{BREAK}b",
    "table": f"{BREAK}T",
}
# The marks of a cell over several columns are its number of columns.
SPANS = frozenset("23456789")
_TABLE, _ROW, _CELL = f"{BREAK}t", f"{BREAK}r", f"{BREAK}c"
_FLAT_TABLE = re.compile(rf"{_TABLE}\s*+{_ROW}\s*+((?:{_CELL}[^{BREAK}]*+|{_ROW}\s*+)*+){BREAK}T")
# Characters without a width, which fill preview texts and spacers. Inside a word they can change its meaning.
_FILLERS = "\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2800\u3164\ufeff"
_SPACES = ("\n", "  ", "\t", "\r", "\xa0")
_BULLETS = ("* ", "+ ", "o ", "- ")
_INDENT, _QUOTE = "    ", "> "
# Deeper levels are not indented further, because a thousand nested lists would need a megabyte of spaces.
_MAX_LEVELS = 12
# Wider tables are not aligned, because email programs would wrap the padding.
_MAX_TABLE_WIDTH = 100


def write(marked: str) -> str:
    """Convert a marked text to plain text."""
    if _TABLE in marked:
        marked = _FLAT_TABLE.sub(_write_flat_table, marked)
    return _Lines().write(marked)


def words_of(text: str) -> str:
    """Return the words with one space between them, without words that consist of characters without a width."""
    words = " ".join(text.split())
    return words if words.isascii() else " ".join([word for word in words.split(" ") if word.strip(_FILLERS)])


def _write_flat_table(table: re.Match[str]) -> str:
    """Write a table whose cells contain only text. `_Lines` would give the same result in several times the time."""
    body = table[1].rstrip().replace(f"\n{BREAK}", BREAK)
    if not body.isascii() and any(filler in body for filler in _FILLERS):
        return table[0]
    rows = body.split(_ROW)
    lines: Iterable[str]
    if any(space in body for space in _SPACES):
        lines = _align([[" ".join(cell.split()) for cell in row.split(_CELL)[1:]] for row in rows])
    else:
        lines = _align_full(rows) or _align([[*map(str.strip, row.split(_CELL)[1:])] for row in rows])
    return f"{BREAK}l" + "\n".join(lines) + f"{BREAK}b"


def _align_full(rows: list[str]) -> list[str]:
    """Do the same as `_align` if all rows have the same number of cells and no cell is empty; otherwise return []."""
    counts = {row.count(_CELL) for row in rows}
    width = counts.pop()
    cells = [*map(str.strip, "".join(rows).split(_CELL))][1:]
    if counts or width < 2 or "" in cells:
        return []
    columns = [cells[number::width] for number in range(width)]
    widths = [max(map(len, column)) for column in columns]
    if sum(widths) + 2 * len(widths) > _MAX_TABLE_WIDTH:
        return [*map("  ".join, zip(*columns, strict=True))]
    line = "  ".join([f"%-{width}s" for width in widths])
    return [*map(str.rstrip, map(line.__mod__, zip(*columns, strict=True)))]


def _align(rows: list[list[str]]) -> Iterator[str]:
    """Yield one line per row, with aligned columns if the table is narrow enough."""
    columns = zip_longest(*[row for row in rows if len(row) - row.count("") > 1], fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    if sum(widths) + 2 * len(widths) > _MAX_TABLE_WIDTH:
        yield from ("  ".join(filter(None, row)) for row in rows)
        return
    line = "".join([f"%-{width}s  " if width else "%s" for width in widths])
    for row in rows:
        if len(row) == len(widths):
            yield (line % tuple(row)).rstrip()
        else:
            yield "  ".join(map(str.ljust, row, [*widths, *repeat(0, len(row) - len(widths))])).strip()


class _Lines:
    """The lines of the text. Lines are only appended or joined at the end, so the time is linear at any depth."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._is_blank_due = False
        self._cell_start = -1  # First line of a cell in the same row as another; no blank line before it.
        self._levels: list[_Level] = []
        self._open: Counter[str] = Counter()
        self._prefix = ""
        self._bullet = ""
        self._tables: list[_Table] = []
        self._is_line_empty = True  # Whether no text followed the last mark.
        self._kept = 0  # The number of open elements that preserve white space.

    def write(self, marked: str) -> str:
        begin: dict[str, Callable[[], None]] = {
            "p": self._begin_paragraph,
            "n": self._break_line,
            "c": self._begin_cell,
            "r": self._begin_row,
            "t": self._begin_table,
            "T": self._end_table,
            "i": self._begin_item,
            "v": self._begin_preformatted,
            "V": self._end_preformatted,
        }
        before = ""  # The mark before this one, if no text followed it.
        for segment in f"b{marked}".split(BREAK):
            sign = segment[0]
            if sign == "b" and before == "c" and self._tables:
                self._tables[-1].has_block = True
            if sign in begin:
                begin[sign]()
            elif sign in SPANS:
                self._begin_cell(int(sign))
                sign = "c"
            elif sign not in "bl":
                self._change_level(sign)
            if sign == "l" or self._kept:
                self._add_lines(segment[1:].split("\n"))
            elif words := words_of(segment[1:]):
                self._add(words)
                before = ""
                continue
            before = sign
            self._is_line_empty = True
        while self._tables:
            self._end_table()
        return "\n".join(self._lines)

    def _add(self, text: str) -> None:
        if self._is_blank_due:
            self._leave_blank()
        self._lines.append((self._bullet or self._prefix) + text)
        self._bullet = ""
        self._is_line_empty = False

    def _add_lines(self, lines: Iterable[str]) -> None:
        """Add lines. Only the first one can follow a blank line or have a bullet."""
        shown = [line.rstrip() for line in lines if line or self._kept]
        if shown:
            self._add(shown[0])
            prefix = self._prefix
            self._lines += [prefix + line for line in shown[1:]] if prefix else shown[1:]

    def _leave_blank(self) -> None:
        self._is_blank_due = False
        here = len(self._lines)
        if self._lines and self._lines[-1] and here != self._cell_start:
            self._lines.append("")
            for table in reversed(self._tables):
                if not table.start_behind(here):
                    return

    def _begin_paragraph(self) -> None:
        self._is_blank_due = True

    def _break_line(self) -> None:
        self._is_blank_due = self._is_blank_due or self._is_line_empty

    def _begin_preformatted(self) -> None:
        self._is_blank_due = True
        self._kept += 1

    def _end_preformatted(self) -> None:
        self._is_blank_due = True
        self._kept = max(0, self._kept - 1)

    def _change_level(self, sign: str) -> None:
        """Begin (`u`, `o`, `q`) or end (`U`, `O`, `Q`) a list or quotation."""
        kind = sign.lower()
        self._is_blank_due = self._is_blank_due or kind == "q"
        if kind == sign:
            depth = len(self._levels)
            indent = "" if depth >= _MAX_LEVELS else _QUOTE if kind == "q" else _INDENT
            bullets = (f"{number}. " for number in count(1)) if kind == "o" else repeat(_BULLETS[depth % 4])
            self._prefix += indent
            self._levels.append(_Level(kind, self._prefix, bullets))
            self._open[kind] += 1
            return
        self._bullet = ""
        while self._open[kind]:
            ended = self._levels.pop()
            self._open[ended.kind] -= 1
            self._prefix = self._levels[-1].prefix if self._levels else ""
            if ended.kind == kind:
                return

    def _begin_item(self) -> None:
        bullet = next(self._levels[-1].bullets) if self._levels else _BULLETS[0]
        self._bullet = self._prefix[: -len(bullet)] + bullet

    def _begin_table(self) -> None:
        self._tables.append(_Table())

    def _end_table(self) -> None:
        if self._tables:
            self._end_row()
            for row, line in self._tables.pop().aligned():
                self._lines[row] = line

    def _begin_row(self) -> None:
        if self._tables:
            self._end_row()
            if self._is_blank_due:
                self._leave_blank()
            self._tables[-1].start_row(len(self._lines))

    def _end_row(self) -> None:
        self._end_cell()
        table = self._tables[-1]
        start = table.row_start
        if table.is_paragraph and start is not None and start < len(self._lines):
            self._set_apart(start)
        if (line := table.end_row(self._lines, len(self._prefix))) is not None:
            del self._lines[line + 1 :]
            self._is_blank_due = False
            if table.follows_row(line) and not self._lines[line - 1]:
                del self._lines[line - 1]
                table.move_row_up()

    def _set_apart(self, start: int) -> None:
        """Leave a blank line before and after a row with one block, as MJML lays out paragraphs."""
        self._is_blank_due = True
        if start and self._lines[start - 1] and start != self._cell_start:
            self._lines.insert(start, "")
            for table in reversed(self._tables):
                if not table.start_behind(start):
                    return

    def _begin_cell(self, columns: int = 1) -> None:
        if not self._tables:
            return
        self._end_cell()
        table = self._tables[-1]
        if table.row_start is None:
            self._begin_row()
        table.cell_start = len(self._lines)
        table.columns = columns
        if table.is_beside:
            self._cell_start = table.cell_start

    def _end_cell(self) -> None:
        table, lines = self._tables[-1], self._lines
        if table.cell_start is None:
            return
        while len(lines) > table.cell_start and not lines[-1]:
            lines.pop()
            self._is_blank_due = True
        table.end_cell(len(lines))
        self._cell_start = -1


class _Level:
    """An open list or quotation."""

    __slots__ = ("bullets", "kind", "prefix")

    def __init__(self, kind: str, prefix: str, bullets: Iterator[str]) -> None:
        self.kind, self.prefix, self.bullets = kind, prefix, bullets


class _Table:
    """An open table. A row whose cells have one line each becomes one line; otherwise each cell has its own lines."""

    __slots__ = ("_cells", "_count", "_rows", "cell_start", "columns", "has_block", "is_flat", "row_start")

    def __init__(self) -> None:
        self._rows: list[tuple[int, str, list[str]]] = []  # The line, its prefix, its cells.
        self._cells: list[tuple[int, int]] = []
        self.row_start: int | None = None
        self.cell_start: int | None = None
        self.columns = 1  # The columns of the cell.
        self._count = 0  # The number of cells in the row. A cell over several columns is followed by empty ones.
        self.is_flat = True
        self.has_block = False  # Whether a cell of the row begins with a block.

    def start_row(self, line: int) -> None:
        self._cells, self._count, self.row_start, self.is_flat, self.has_block = [], 0, line, True, False

    @property
    def is_paragraph(self) -> bool:
        """Whether the row has a single cell, which begins with a block."""
        return self.has_block and self._count == 1

    def follows_row(self, line: int) -> bool:
        """Whether only one line is between this row and the one before it, which has as many cells."""
        if len(self._rows) < 2:
            return False
        (before, _, cells), (_, _, own) = self._rows[-2:]
        return before == line - 2 and len(cells) == len(own)

    def move_row_up(self) -> None:
        line, prefix, cells = self._rows[-1]
        self._rows[-1] = (line - 1, prefix, cells)

    @property
    def is_beside(self) -> bool:
        """Whether the next cell is on the same line as the cell before it."""
        return self.is_flat and bool(self._cells)

    def start_behind(self, blank: int) -> bool:
        """Move the start of a row and cell from this blank line to the next one. Return whether this applied."""
        is_row, is_cell = self.row_start == blank, self.cell_start == blank
        if is_row:
            self.row_start = blank + 1
        if is_cell:
            self.cell_start = blank + 1
        return is_row or is_cell or self.row_start is None

    def end_cell(self, line: int) -> None:
        if self.cell_start is not None:
            self._cells.append((self.cell_start, line))
            self._count += 1
            if self.columns > 1:
                self._cells += repeat((line, line), self.columns - 1)
            if line > self.cell_start + 1:
                self.is_flat = False
            self.cell_start = None

    def end_row(self, lines: list[str], indent: int) -> int | None:
        """End the row, and return the number of its line if all its cells fit on one line."""
        start, self.row_start = self.row_start, None
        if start is None or not self.is_flat or len(self._cells) < 2:
            return None
        cells = [lines[line][indent:] if end > line else "" for line, end in self._cells]
        filled = len(lines) - start
        if filled < 2 or filled != len(cells) - cells.count(""):
            return None
        self._rows.append((start, lines[start][:indent], cells))
        return start

    def aligned(self) -> Iterator[tuple[int, str]]:
        """Yield the line number and text of each row that is one line."""
        for (line, prefix, _), text in zip(self._rows, _align([cells for _, _, cells in self._rows]), strict=True):
            yield line, prefix + text
