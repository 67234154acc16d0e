"""Write the blocks of a document as MJML.

Blocks that need no section of their own share one section with one column: each becomes a row of one table, which
keeps the email small. Conditions and repeats become template code around rows, or around sections if they contain
columns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import Final, NamedTuple

from mailwright.content.blocks.block_rows import write_rows
from mailwright.content.blocks.document import (
    AnyBlock,
    ColumnsBlock,
    ConditionBlock,
    FooterBlock,
    RepeatBlock,
    UnknownBlock,
)
from mailwright.content.blocks.row import (
    COLUMN_PADDING,
    SIDE_PADDING,
    SOFT_BACKGROUNDS,
    Place,
    Row,
    background_classes,
    hide_classes,
    padding_of,
)
from mailwright.content.blocks.theme import Theme
from mailwright.content.segments_used import membership_condition
from mailwright.domain.lazy_dataclass import dataclass

# The issue code for all warnings about a block that have no code of their own.
UNFINISHED: Final = "UNFINISHED_BLOCK"
_RADIUS: Final = 10
_PAGE_TOP: Final = (
    '<mj-section padding="0" css-class="mw-hide-phone"><mj-column><mj-spacer height="24px" /></mj-column></mj-section>'
)


class CompileWarning(NamedTuple):
    """Something in a block that recipients would see differently from what its author intended."""

    block_id: str
    message: str
    code: str = UNFINISHED  # Of the pre-send checks.


@dataclass(slots=True)
class MjmlWriter:
    theme: Theme
    locale: str = ""
    warnings: list[CompileWarning] = field(default_factory=list)

    def body(self, blocks: Sequence[AnyBlock]) -> str:
        """Return the sections of the email. Footers at the end are outside of the content area."""
        end = len(blocks)
        while end and isinstance(blocks[end - 1], FooterBlock):
            end -= 1
        sections = list(self._sections(blocks[:end]))
        rounded = "".join(_rounded(section, number, len(sections)) for number, section in enumerate(sections))
        return _PAGE_TOP + rounded + "".join(self._page_section(block) for block in blocks[end:])

    def warn(self, block_id: str, message: str, code: str = UNFINISHED) -> None:
        warning = CompileWarning(block_id, message, code)
        if warning not in self.warnings:
            self.warnings.append(warning)

    def _sections(self, blocks: Iterable[AnyBlock]) -> Iterator[str]:
        rows: list[str] = []
        for block in blocks:
            if not _needs_sections(block):
                rows += self._rows(block, Place(self.theme.content, SIDE_PADDING))
                continue
            if rows:
                yield self._section(rows)
                rows = []
            yield from self._own_sections(block)
        if rows:
            yield self._section(rows)

    def _section(self, rows: Sequence[str]) -> str:
        return (
            f'<mj-section css-class="mw-content" background-color="{self.theme.content}" padding="0">'
            f"<mj-column>{''.join(rows)}</mj-column></mj-section>"
        )

    def _page_section(self, block: AnyBlock) -> str:
        rows = "".join(self._rows(block, Place(self.theme.page, SIDE_PADDING, is_page=True)))
        return f'<mj-section padding="0"><mj-column>{rows}</mj-column></mj-section>'

    def _own_sections(self, block: AnyBlock) -> Iterator[str]:
        match block:
            case ColumnsBlock():
                yield self._columns(block)
            case ConditionBlock() | RepeatBlock():
                yield from self._wrap_in_code(block, self._sections)

    def _columns(self, block: ColumnsBlock) -> str:
        if any(not column.blocks for column in block.columns):
            self.warn(block.id, "A column is empty. Add a block to it, or use fewer columns.", "EMPTY_BLOCK")
        background = self.theme.color(block.background, self.theme.content)
        place = Place(background, 0, keeps_colors=block.background not in SOFT_BACKGROUNDS)
        columns = "".join(
            f'<mj-column width="{width:g}%" vertical-align="top" padding="0 {COLUMN_PADDING}px">'
            f"{''.join(row for each in column.blocks for row in self._rows(each, place))}</mj-column>"
            for column, width in zip(block.columns, self._widths(block), strict=True)
        )
        if not block.stack_on_phone:
            columns = f"<mj-group>{columns}</mj-group>"
        top, bottom = padding_of(block, 8, 8)
        side = SIDE_PADDING - COLUMN_PADDING
        classes = " ".join(["mw-columns", *background_classes(block, "mw-content"), *hide_classes(block)])
        section = (
            f'<mj-section css-class="{classes}" background-color="{background}" padding="{top}px {side}px {bottom}px">'
            f"{columns}</mj-section>"
        )
        return _outside_outlook(section) if block.hide_on == "desktop" else section

    def _widths(self, block: ColumnsBlock) -> list[float]:
        """Return the width of each column in percent. Columns without a width share the rest."""
        given = [column.width for column in block.columns]
        open_columns = given.count(None)
        total = sum(width for width in given if width is not None)
        least = 10 * open_columns
        if total + least > 100.5 or (not open_columns and total < 99):
            self.warn(block.id, "The widths of the columns are not 100 % together; the columns are scaled.")
        scale = (100 - least) / total if total + least > 100 or not open_columns else 1
        rest = (100 - total * scale) / open_columns if open_columns else 0
        return [round(rest if width is None else width * scale, 2) for width in given]

    def _rows(self, block: AnyBlock, place: Place) -> Iterator[str]:
        """Yield the rows of a block in a column."""
        if isinstance(block, ConditionBlock | RepeatBlock):
            yield from self._wrap_in_code(
                block, lambda inner: (row for each in inner for row in self._rows(each, place))
            )
            return
        if isinstance(block, UnknownBlock):
            self.warn(block.id, f"This version does not know blocks of the type {block.type[:40]!r}. It is not shown.")
            return
        rows = write_rows(Row(self.theme, place, self.locale, partial(self.warn, block.id), block))
        yield _outside_outlook(rows) if block.hide_on == "desktop" and rows else rows

    def _wrap_in_code(
        self, block: ConditionBlock | RepeatBlock, write: Callable[[Sequence[AnyBlock]], Iterable[str]]
    ) -> Iterator[str]:
        """Yield the inner parts with the template code before, between and after them."""
        if isinstance(block, RepeatBlock):
            if not block.over:
                self.warn(block.id, "Choose the list to repeat over. The block is not shown.")
                return
            if not block.blocks:
                self.warn(block.id, "There is no block to repeat.", "EMPTY_BLOCK")
            yield f"{{% for {block.item} in {block.over} %}}"
            yield f"{{% if loop.index <= {block.limit} %}}" if block.limit else ""
            yield from write(block.blocks)
            yield "{% endif %}" if block.limit else ""
            yield "{% endfor %}"
            return
        if (condition := membership_condition(block.segment)) is None:
            self.warn(block.id, "Choose a segment. The block is not shown.")
            return
        if not block.blocks and not block.otherwise:
            self.warn(block.id, "The condition has no blocks.", "EMPTY_BLOCK")
        yield f"{{% if {condition} %}}"
        yield from write(block.blocks)
        if block.otherwise:
            yield "{% else %}"
            yield from write(block.otherwise)
        yield "{% endif %}"


def _rounded(section: str, number: int, count: int) -> str:
    """Round the corners of the content area, in email programs that support this."""
    top, bottom = (f"{_RADIUS}px" if number in edge else "0" for edge in ((0,), (count - 1,)))
    if top == bottom == "0":
        return section
    return section.replace("<mj-section ", f'<mj-section border-radius="{top} {top} {bottom} {bottom}" ', 1)


def _needs_sections(block: AnyBlock) -> bool:
    match block:
        case ColumnsBlock():
            return True
        case ConditionBlock():
            return any(map(_needs_sections, (*block.blocks, *(block.otherwise or ()))))
        case RepeatBlock():
            return any(map(_needs_sections, block.blocks))
    return False


def _outside_outlook(mjml: str) -> str:
    """Hide these rows from Outlook, which ignores the style that hides them on a desktop."""
    return f"<mj-raw><!--[if !mso]><!--></mj-raw>{mjml}<mj-raw><!--<![endif]--></mj-raw>"
