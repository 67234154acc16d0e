"""The walk over the blocks of a page: each gets its form, and what is left out is kept to be told."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from mailwright.sources.mailouts.notion.pages import NotionBlock
from mailwright.sources.mailouts.rendering.rich_text import ImageCopy, RichText, RichTextContext, words

# Neighbours of these types are one list.
LISTS = ("bulleted_list_item", "numbered_list_item", "to_do")
# Deeper than Notion's API is read: what is handed over by others does not break the stack.
MAX_DEPTH = 40
MAX_UNDERLINE = 72  # of headings in text, whose lines are no wider
# Under this name is the form of all types that have none of their own.
UNKNOWN = "*"


@dataclass(frozen=True, slots=True)
class ContentIssue:
    """Something of the page that readers will not see as it is there, and why; `block_id` is for the errors table."""

    block_id: str
    type: str
    reason: str
    code: str = "content_block_unsupported"


@dataclass(frozen=True, slots=True)
class Piece:
    """One block, or some of them, in both of the forms that a mail has."""

    html: str = ""
    text: str = ""


NOTHING = Piece()

Form = Callable[["BlockRenderer", NotionBlock, int], Piece]
Listed = Callable[["BlockRenderer", str, Sequence[NotionBlock], int], Piece]


class BlockRenderer:
    """One rendering: it keeps what it had to leave out."""

    def __init__(self, images: Mapping[str, ImageCopy], forms: Mapping[str, Form], listed: Listed) -> None:
        """`forms` by type of block; `listed` has a form for neighbours that are one list."""
        self.images = images
        self._forms = forms
        self._listed = listed
        self.issues: list[ContentIssue] = []
        # How many lists, and how many numbered ones, are around what is rendered now.
        self.lists = self.numbers = 0

    def pieces(self, blocks: Iterable[NotionBlock], depth: int) -> Iterator[Piece]:
        for kind, run in groupby(blocks, key=lambda block: block.type):
            if kind in LISTS:
                yield self._listed(self, kind, list(run), depth)
            else:
                for block in run:
                    yield self.piece(block, depth)

    def piece(self, block: NotionBlock, depth: int) -> Piece:
        if depth > MAX_DEPTH:
            self.report(block, "it is nested too deeply")
            return NOTHING
        if block.missing is not None:
            self.report(block, block.missing, "content_block_incomplete")
        return self._forms.get(block.type, self._forms[UNKNOWN])(self, block, depth)

    def report(self, block: NotionBlock, reason: str, code: str = "content_block_unsupported") -> None:
        self.issues.append(ContentIssue(block.id, block.type, reason, code))

    def words(self, block: NotionBlock, name: str = "rich_text") -> RichText:
        return words(block.content.get(name), self.around(block))

    def around(self, block: NotionBlock) -> RichTextContext:
        return RichTextContext(self.images, lambda code, reason: self.report(block, reason, code))

    def inside(self, blocks: Iterable[NotionBlock], depth: int) -> Piece:
        found = list(self.pieces(blocks, depth + 1))
        return Piece(
            "\n".join(piece.html for piece in found if piece.html),
            "\n\n".join(piece.text for piece in found if piece.text.strip()),
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
