"""Render blocks one by one, and collect the parts that could not be rendered."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.sources.mailouts.notion.pages import NotionBlock
from mailwright.sources.mailouts.rendering.rich_text import ImageCopy, RichText, RichTextContext, words

# Adjacent blocks of one of these types form a list.
LISTS = ("bulleted_list_item", "numbered_list_item", "to_do")
# Greater than the depth that is read from a page, and small enough for the call stack.
MAX_DEPTH = 40
MAX_UNDERLINE = 72  # the longest underline of a heading in the text part
# The key of the renderer for all other types.
UNKNOWN = "*"


@dataclass(frozen=True, slots=True)
class ContentIssue:
    """A part of the page that recipients will not see as it is in Notion, and why."""

    block_id: str
    type: str
    reason: str
    code: str = "content_block_unsupported"


@dataclass(frozen=True, slots=True)
class Piece:
    """Rendered blocks, as HTML and as text."""

    html: str = ""
    text: str = ""


NOTHING = Piece()

RenderBlock = Callable[["BlockRenderer", NotionBlock, int], Piece]
RenderList = Callable[["BlockRenderer", str, Sequence[NotionBlock], int], Piece]


class BlockRenderer:
    """Renders the blocks of one page and collects its issues."""

    def __init__(
        self, images: Mapping[str, ImageCopy], renderers: Mapping[str, RenderBlock], render_list: RenderList
    ) -> None:
        """`renderers` by type of block; `render_list` renders adjacent list items."""
        self.images = images
        self._renderers = renderers
        self._render_list = render_list
        self.issues: list[ContentIssue] = []
        # The number of enclosing lists, and of enclosing numbered lists.
        self.lists = self.numbers = 0

    def pieces(self, blocks: Iterable[NotionBlock], depth: int) -> Iterator[Piece]:
        for kind, run in groupby(blocks, key=lambda block: block.type):
            if kind in LISTS:
                yield self._render_list(self, kind, list(run), depth)
            else:
                for block in run:
                    yield self.piece(block, depth)

    def piece(self, block: NotionBlock, depth: int) -> Piece:
        if depth > MAX_DEPTH:
            self.report(block, lazy_gettext("it is nested too deeply"))
            return NOTHING
        if block.missing is not None:
            self.report(block, block.missing, "content_block_incomplete")
        return self._renderers.get(block.type, self._renderers[UNKNOWN])(self, block, depth)

    def report(self, block: NotionBlock, reason: str, code: str = "content_block_unsupported") -> None:
        self.issues.append(ContentIssue(block.id, block.type, reason, code))

    def words(self, block: NotionBlock, name: str = "rich_text") -> RichText:
        return words(block.content.get(name), self.context_of(block))

    def context_of(self, block: NotionBlock) -> RichTextContext:
        return RichTextContext(self.images, lambda code, reason: self.report(block, reason, code))

    def inside(self, blocks: Iterable[NotionBlock], depth: int) -> Piece:
        pieces = list(self.pieces(blocks, depth + 1))
        return Piece(
            "\n".join(piece.html for piece in pieces if piece.html),
            "\n\n".join(piece.text for piece in pieces if piece.text.strip()),
        )

    def with_children(self, block: NotionBlock, own: Piece, depth: int, indent: str = "  ") -> Piece:
        if not block.children:
            return own
        inner = self.inside(block.children, depth)
        padding = f"padding:0 0 0 {24 if indent else 0}px"
        html = f'{own.html}\n<div style="{padding}">\n{inner.html}\n</div>' if inner.html else own.html
        return Piece(html, "\n\n".join(part for part in (own.text, indented(inner.text, indent)) if part.strip()))


def indented(text: str, prefix: str) -> str:
    return "\n".join(f"{prefix}{line}".rstrip() for line in text.split("\n")) if text else ""


def mapping(outer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = outer.get(name)
    return found if isinstance(found, Mapping) else {}
