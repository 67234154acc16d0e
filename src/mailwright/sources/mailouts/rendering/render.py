"""Rendering: a form of its own for every type of block, in HTML and in text, from the same walk over the blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mailwright.sources.mailouts.notion.pages import Block
from mailwright.sources.mailouts.rendering import boxes, media, texts
from mailwright.sources.mailouts.rendering import unsupported as unshown
from mailwright.sources.mailouts.rendering.block_walk import LISTS, UNKNOWN, Form, Unsupported, Walk
from mailwright.sources.mailouts.rendering.lists import listed
from mailwright.sources.mailouts.rendering.rich_text import Picture, Surroundings, words


@dataclass(frozen=True, slots=True)
class Rendered:
    """`html` is what stands in the frame of a mail. Both are empty if the page has nothing to read or to see."""

    html: str
    text: str
    unsupported: tuple[Unsupported, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.html and not self.text


def render(blocks: Sequence[Block], images: Mapping[str, Picture]) -> Rendered:
    """`images` leads from addresses that expire to copies that do not. The same arguments give the same bytes."""
    page = Walk(images, _FORMS, listed)
    pieces = list(page.pieces(_without_spacers(blocks), 0))
    html = "\n".join(piece.html for piece in pieces if piece.html)
    text = "\n\n".join(piece.text for piece in pieces if piece.text.strip())
    is_blank = not text.replace("-", "").strip() and "<img" not in html
    return Rendered("" if is_blank else html, "" if is_blank else f"{text}\n", tuple(page.unsupported))


def _without_spacers(blocks: Sequence[Block]) -> Sequence[Block]:
    """Notion ends pages with an empty paragraph, and people begin them with some."""
    first, last = 0, len(blocks)
    while first < last and _is_spacer(blocks[first]):
        first += 1
    while last > first and _is_spacer(blocks[last - 1]):
        last -= 1
    return blocks[first:last]


def _is_spacer(block: Block) -> bool:
    is_bare = block.type == "paragraph" and not block.children and block.missing is None
    return is_bare and words(block.content.get("rich_text"), Surroundings()).are_blank


_FORMS: Mapping[str, Form] = {
    "paragraph": texts.paragraph,
    "heading_1": texts.heading,
    "heading_2": texts.heading,
    "heading_3": texts.heading,
    "heading_4": texts.heading,
    "toggle": texts.toggle,
    "quote": texts.quote,
    "callout": texts.callout,
    "code": texts.code,
    "equation": texts.equation,
    "divider": texts.divider,
    "breadcrumb": texts.nothing,
    "table_of_contents": texts.nothing,
    "image": media.image,
    "video": media.file,
    "audio": media.file,
    "pdf": media.file,
    "file": media.file,
    "embed": media.link,
    "bookmark": media.link,
    "link_preview": media.link,
    "link_to_page": media.linked_page,
    "child_page": media.other_page,
    "child_database": media.other_page,
    "column_list": boxes.columns,
    "column": boxes.held,
    "synced_block": boxes.held,
    "tab": boxes.tabs,
    "table": boxes.table,
    "table_row": boxes.lone_row,
    "template": unshown.left_out,
    "meeting_notes": unshown.left_out,
    "transcription": unshown.left_out,
    "unsupported": unshown.unsupported_block,
    UNKNOWN: unshown.unknown,
}
KNOWN_TYPES = frozenset({*_FORMS, *LISTS} - {UNKNOWN})
