"""Render the blocks of a page as HTML and text, with one renderer for each type of block."""

from collections.abc import Mapping, Sequence

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.mailouts.notion.pages import NotionBlock
from mailwright.sources.mailouts.rendering import containers, media, text_blocks, unsupported_blocks
from mailwright.sources.mailouts.rendering.block_renderer import (
    LISTS,
    UNKNOWN,
    BlockRenderer,
    ContentIssue,
    RenderBlock,
)
from mailwright.sources.mailouts.rendering.lists import render_list
from mailwright.sources.mailouts.rendering.rich_text import ImageCopy, RichTextContext, words


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """The body of an email. Both parts are empty if the page has no visible content."""

    html: str
    text: str
    issues: tuple[ContentIssue, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.html and not self.text


def render(blocks: Sequence[NotionBlock], images: Mapping[str, ImageCopy]) -> RenderedPage:
    """Render blocks. `images` maps expiring addresses to permanent copies. The same input gives the same bytes."""
    page = BlockRenderer(images, _RENDERERS, render_list)
    pieces = list(page.pieces(_without_spacers(blocks), 0))
    html = "\n".join(piece.html for piece in pieces if piece.html)
    text = "\n\n".join(piece.text for piece in pieces if piece.text.strip())
    is_blank = not text.replace("-", "").strip() and "<img" not in html
    return RenderedPage("" if is_blank else html, "" if is_blank else f"{text}\n", tuple(page.issues))


def _without_spacers(blocks: Sequence[NotionBlock]) -> Sequence[NotionBlock]:
    """Strip empty paragraphs from both ends: Notion adds one at the end."""
    first, last = 0, len(blocks)
    while first < last and _is_spacer(blocks[first]):
        first += 1
    while last > first and _is_spacer(blocks[last - 1]):
        last -= 1
    return blocks[first:last]


def _is_spacer(block: NotionBlock) -> bool:
    is_bare = block.type == "paragraph" and not block.children and block.missing is None
    return is_bare and words(block.content.get("rich_text"), RichTextContext()).are_blank


_RENDERERS: Mapping[str, RenderBlock] = {
    "paragraph": text_blocks.paragraph,
    "heading_1": text_blocks.heading,
    "heading_2": text_blocks.heading,
    "heading_3": text_blocks.heading,
    "heading_4": text_blocks.heading,
    "toggle": text_blocks.toggle,
    "quote": text_blocks.quote,
    "callout": text_blocks.callout,
    "code": text_blocks.code,
    "equation": text_blocks.equation,
    "divider": text_blocks.divider,
    "breadcrumb": text_blocks.nothing,
    "table_of_contents": text_blocks.nothing,
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
    "column_list": containers.columns,
    "column": containers.plain_container,
    "synced_block": containers.plain_container,
    "tab": containers.tabs,
    "table": containers.table,
    "table_row": containers.lone_row,
    "template": unsupported_blocks.left_out,
    "meeting_notes": unsupported_blocks.left_out,
    "transcription": unsupported_blocks.left_out,
    "unsupported": unsupported_blocks.unsupported_block,
    UNKNOWN: unsupported_blocks.unknown,
}
KNOWN_TYPES = frozenset({*_RENDERERS, *LISTS} - {UNKNOWN})
