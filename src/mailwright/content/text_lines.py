"""Convert a text with marks to plain text: blank lines between blocks, lists with bullets, tables with columns.

A mark is `BREAK` and one character. It ends the line; the character is the kind of block that begins or ends there.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, repeat, zip_longest

BREAK, LINK_START, LINK_TEXT, LINK_END = MARKS = ("\x01", "\x02", "\x03", "\x04")

_SPACED = ("p", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "dl")
_NAMES_OF_BLOCKS = """
    address article aside body caption center dd details dt fieldset figcaption footer form header hgroup html
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
    "div": f"{BREAK}d",
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
    "div": f"{BREAK}D",
    "li": f"{BREAK}b",
    "table": f"{BREAK}T",
}
# The mark before a list or item, followed by the number of the next item and another mark.
NUMBER = f"{BREAK}s"
# The mark for the start of a `div` that can have others beside it.
COLUMN = f"{BREAK}g"
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
# Two cells longer than this are paragraphs in columns, which are read one after the other.
_LONG_CELL = 60
# The lines of a longer cell stay lines.
_LONGEST_JOINED = 120
_ENDS_OF_PHRASES = (*",;:.!?-–—/(",)


def write(marked: str) -> str:
    """Convert a marked text to plain text."""
    if _TABLE in marked:
        marked = _FLAT_TABLE.sub(_write_flat_table, marked)
    return _Layout().write(marked)


def words_of(text: str) -> str:
    """Return the words with one space between them, without words that consist of characters without a width."""
    words = " ".join(text.split())
    return words if words.isascii() else " ".join([word for word in words.split(" ") if word.strip(_FILLERS)])


def _write_flat_table(table: re.Match[str]) -> str:
    """Write a table whose cells contain only text. `_Layout` would give the same result in several times the time."""
    body = table[1].rstrip().replace(f"\n{BREAK}", BREAK)
    if not body.isascii() and any(filler in body for filler in _FILLERS):
        return table[0]
    rows = body.split(_ROW)
    cells: list[list[str]]
    lines: Iterable[str]
    if any(space in body for space in _SPACES):
        cells = [[" ".join(cell.split()) for cell in row.split(_CELL)[1:]] for row in rows]
    elif lines := _align_full(rows):
        return _lines_mark(lines)
    else:
        cells = [[*map(str.strip, row.split(_CELL)[1:])] for row in rows]
    if len(body) > _LONG_CELL and any(map(_are_paragraphs, cells)):
        return table[0]
    return _lines_mark(_align(cells))


def _lines_mark(lines: Iterable[str]) -> str:
    """Return the mark of lines, with a blank line after several."""
    shown = "\n".join(filter(None, lines))
    end = "p" if "\n" in shown else "b"
    return f"{BREAK}l{shown}{BREAK}{end}"


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
        rows_of_cells = [*zip(*columns, strict=True)]
        return [] if any(map(_are_paragraphs, rows_of_cells)) else [*map("  ".join, rows_of_cells)]
    padded = [map(str.ljust, column, repeat(size + 2)) for column, size in zip(columns[:-1], widths, strict=False)]
    return [*map("".join, zip(*padded, columns[-1], strict=True))]


def _are_paragraphs(cells: Sequence[str]) -> bool:
    """Return whether the cells of a row are too long for one line."""
    return sum([len(cell) > _LONG_CELL for cell in cells]) > 1


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


def _join_phrases(lines: list[str], indent: int) -> str:
    joined = lines[0]
    for line in lines[1:]:
        joined += (
            f"{' ' if joined.endswith(_ENDS_OF_PHRASES) or line[indent : indent + 1] == '(' else ', '}{line[indent:]}"
        )
    return joined


class _Lines:
    """The lines of the text. Lines are only appended or joined at the end, so the time is linear at any depth."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._is_blank_due = False
        self._cell_start = -1  # First line of a cell in the same row as another; no blank line before it.
        self._cell_owner: _Table | None = None  # The table of that cell.
        self._levels: list[_Level] = []
        self._open: Counter[str] = Counter()
        self._prefix = ""
        self._bullet = ""
        self._tables: list[_Table] = []
        self._is_line_empty = True  # Whether no text followed the last mark.
        self._kept = 0  # The number of open elements that preserve white space.

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
        if here == self._cell_start and self._cell_owner:
            self._cell_owner.is_apart = True
        elif self._lines and self._lines[-1]:
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
                self._is_blank_due = self._is_blank_due or not self._levels
                return

    def _set_number(self, number: int) -> None:
        if self._levels and self._levels[-1].kind == "o":
            self._levels[-1].bullets = (f"{each}. " for each in count(number))

    def _begin_item(self) -> None:
        bullet = next(self._levels[-1].bullets) if self._levels else _BULLETS[0]
        self._bullet = self._prefix[: -len(bullet)] + bullet


class _Layout(_Lines):
    """The lines of marked text, with tables and columns."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0  # The number of open `div` elements.
        self._columns: list[int] = []  # The depth of the open columns.
        self._is_column_ended = False  # Whether nothing followed the end of a column, so that the next is beside it.

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
        if COLUMN in marked:
            begin |= {"d": self._begin_div, "D": self._end_div, "g": self._begin_column}
        before = ""  # The mark before this one, if no text followed it.
        for segment in f"b{marked}".split(BREAK):
            sign = segment[0]
            if before == "D" and sign != "g" and self._is_column_ended:
                self._end_columns()
            if self._tables:
                self._tables[-1].note_mark(sign, before)
            if sign == "s":
                self._set_number(int(segment[1:]))
                continue
            if sign in begin:
                begin[sign]()
            elif sign in SPANS:
                self._begin_cell(int(sign))
                sign = "c"
            elif sign not in "bdDl":
                self._change_level(sign)
            if sign == "l" or self._kept:
                self._add_lines(segment[1:].split("\n"))
            elif words := words_of(segment[1:]):
                if sign == "D" and self._is_column_ended:
                    self._end_columns()
                self._add(words)
                before = ""
                continue
            before = sign
            self._is_line_empty = True
        while self._tables:
            self._close_table()
        return "\n".join(self._lines)

    def _begin_table(self) -> None:
        self._tables.append(_Table(len(self._lines), self._cell_start, self._cell_owner))

    def _end_table(self) -> None:
        if self._tables and not self._tables[-1].has_columns:
            self._close_table()

    def _close_table(self) -> None:
        self._end_row()
        table = self._tables.pop()
        if len(self._lines) > table.first_line + 1:
            self._is_blank_due = True
        if table.rows:
            for row, line in table.aligned():
                self._lines[row] = line

    def _begin_div(self) -> None:
        self._depth += 1

    def _end_div(self) -> None:
        if self._depth:
            self._depth -= 1
        if self._columns and self._columns[-1] == self._depth:
            while not self._tables[-1].has_columns:  # Tables without an end tag.
                self._close_table()
            self._end_cell()
            self._is_column_ended = True

    def _begin_column(self) -> None:
        """Begin a column of the row, which the first column begins and anything after the last one ends."""
        if not self._is_column_ended:
            self._tables.append(_Table(len(self._lines), self._cell_start, self._cell_owner, has_columns=True))
            self._columns.append(self._depth)
            self._start_row()
        self._is_column_ended = False
        self._depth += 1
        self._start_cell(1)

    def _end_columns(self) -> None:
        self._is_column_ended = False
        self._columns.pop()
        self._close_table()

    def _begin_row(self) -> None:
        if self._tables and not self._tables[-1].has_columns:
            self._start_row()

    def _start_row(self) -> None:
        if self._tables[-1].row_start is not None:
            self._end_row()
        if self._is_blank_due:
            self._leave_blank()
        self._tables[-1].start_row(len(self._lines))

    def _end_row(self) -> None:
        self._end_cell()
        table = self._tables[-1]
        start = table.row_start
        if start is not None and (joined := table.joined_cells(self._lines, len(self._prefix))):
            self._lines[start:] = joined
        if table.is_paragraph and start is not None and start < len(self._lines):
            self._set_apart(start)
        elif start is not None and table.is_flat and table.has_paragraphs(cells := self._lines[start:]):
            self._lines[start:] = [line for cell in cells for line in ("", cell)][1:]
            self._set_apart(start)
            table.is_flat = False
        elif table.is_apart and not table.is_flat:
            for at in table.cell_starts():
                if at < len(self._lines) and self._lines[at - 1]:
                    self._lines.insert(at, "")
        if (line := table.end_row(self._lines, len(self._prefix))) is not None:
            del self._lines[line + 1 :]
            self._is_blank_due = False
            if table.follows_row(line) and not self._lines[line - 1]:
                del self._lines[line - 1]
                table.move_row_up()

    def _set_apart(self, start: int) -> None:
        """Leave a blank line before and after a row with one block, as MJML lays out paragraphs."""
        self._is_blank_due = True
        if start == self._cell_start and self._cell_owner:
            self._cell_owner.is_apart = True
        elif start and self._lines[start - 1]:
            self._lines.insert(start, "")
            for table in reversed(self._tables):
                if not table.start_behind(start):
                    return

    def _begin_cell(self, columns: int = 1) -> None:
        if self._tables and not self._tables[-1].has_columns:
            self._start_cell(columns)

    def _start_cell(self, columns: int) -> None:
        table = self._tables[-1]
        if table.cell_start is not None:
            self._end_cell()
        if table.row_start is None:
            self._start_row()
        table.cell_start = len(self._lines)
        table.columns = columns
        if table.is_beside:
            self._cell_start, self._cell_owner = table.cell_start, table
        else:
            self._cell_start, self._cell_owner = table.outer_start, table.outer

    def _end_cell(self) -> None:
        table, lines = self._tables[-1], self._lines
        if table.cell_start is None:
            return
        while len(lines) > table.cell_start and not lines[-1]:
            lines.pop()
            self._is_blank_due = True
        table.end_cell(len(lines))
        self._cell_start, self._cell_owner = table.outer_start, table.outer


class _Level:
    """An open list or quotation."""

    __slots__ = ("bullets", "kind", "prefix")

    def __init__(self, kind: str, prefix: str, bullets: Iterator[str]) -> None:
        self.kind, self.prefix, self.bullets = kind, prefix, bullets


class _Table:
    """An open table. A row whose cells have one line each becomes one line; otherwise each cell has its own lines."""

    __slots__ = (
        "_cells",
        "_count",
        "cell_start",
        "columns",
        "first_line",
        "has_block",
        "has_columns",
        "has_only_breaks",
        "is_apart",
        "is_flat",
        "outer",
        "outer_start",
        "row_start",
        "rows",
    )

    def __init__(self, first_line: int, outer_start: int, outer: "_Table | None", *, has_columns: bool = False) -> None:
        self.first_line = first_line
        # The cell that contains the table, as `_Lines` has it.
        self.outer_start = outer_start
        self.outer = outer
        self.is_apart = False  # Whether a blank line is missing between cells if these have several lines.
        self.has_columns = has_columns  # Whether its cells are blocks beside each other.
        self.rows: list[tuple[int, str, list[str]]] = []  # The line, its prefix, its cells.
        self._cells: list[tuple[int, int]] = []
        self.row_start: int | None = None
        self.cell_start: int | None = None
        self.columns = 1  # The columns of the cell.
        self._count = 0  # The number of cells in the row. A cell over several columns is followed by empty ones.
        self.is_flat = True
        self.has_block = False  # Whether a cell of the row begins with a block.
        self.has_only_breaks = True  # Whether only `br` separates the lines of each cell of the row.

    def start_row(self, line: int) -> None:
        self._cells, self._count, self.row_start, self.is_flat, self.has_block = [], 0, line, True, False
        self.is_apart, self.has_only_breaks = False, True

    def note_mark(self, sign: str, before: str) -> None:
        if sign not in "ncrT" and sign not in SPANS:
            self.has_only_breaks = False
            self.has_block = self.has_block or (before == "c" and sign in "bdg")

    def joined_cells(self, lines: list[str], indent: int) -> list[str]:
        """Join the lines of each cell of a row like `Tea<br>green | 3 €`, so that it is one line; [] for other rows."""
        cells = [lines[start:end] for start, end in self._cells]
        filled = [*filter(None, cells)]
        if self.is_flat or not self.has_only_breaks or self.row_start is None or len(filled) < 2:
            return []
        if min(map(len, filled)) > 1 or [line for cell in filled for line in cell] != lines[self.row_start :]:
            return []
        joined = [_join_phrases(cell, indent) for cell in filled]
        if max(map(len, joined)) > _LONGEST_JOINED:
            return []
        at, self.is_flat, numbers = self.row_start, True, []
        for cell in cells:
            numbers.append((at, at := at + bool(cell)))
        self._cells = numbers
        return joined

    @property
    def is_paragraph(self) -> bool:
        """Whether the row has a single cell, which begins with a block."""
        return self.has_block and self._count == 1

    def follows_row(self, line: int) -> bool:
        """Whether only one line is between this row and the one before it, which has as many cells."""
        if len(self.rows) < 2:
            return False
        (before, _, cells), (_, _, own) = self.rows[-2:]
        return before == line - 2 and len(cells) == len(own)

    def move_row_up(self) -> None:
        line, prefix, cells = self.rows[-1]
        self.rows[-1] = (line - 1, prefix, cells)

    @property
    def is_beside(self) -> bool:
        """Whether the next cell is on the same line as the cell before it."""
        return self.is_flat and bool(self._cells)

    def start_behind(self, blank: int) -> bool:
        """Move the start of a row and cell from this blank line to the next one. Return whether this applied."""
        is_row, is_cell = self.row_start == blank, self.cell_start == blank
        if is_row:
            self.row_start = blank + 1
            self.first_line += self.first_line == blank
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

    def cell_starts(self) -> Iterator[int]:
        """Yield the first line of each cell of the row, the last cell first and without the first cell."""
        for (start, end), (_, before) in zip(self._cells[:0:-1], self._cells[-2::-1], strict=True):
            if end > start == before:
                yield start

    def has_paragraphs(self, lines: list[str]) -> bool:
        """Return whether the cells of the row have one line each and are too long for a common one."""
        return len(lines) > 1 and len(self._cells) > 1 and _are_paragraphs(lines)

    def end_row(self, lines: list[str], indent: int) -> int | None:
        """End the row, and return the number of its line if all its cells fit on one line."""
        start, self.row_start = self.row_start, None
        if start is None or not self.is_flat or len(self._cells) < 2:
            return None
        cells = [lines[line][indent:] if end > line else "" for line, end in self._cells]
        filled = len(lines) - start
        if filled < 2 or filled != len(cells) - cells.count(""):
            return None
        self.rows.append((start, lines[start][:indent], cells))
        return start

    def aligned(self) -> Iterator[tuple[int, str]]:
        """Yield the line number and text of each row that is one line."""
        for (line, prefix, _), text in zip(self.rows, _align([cells for _, _, cells in self.rows]), strict=True):
            yield line, prefix + text
