"""Report blocks that cannot be rendered, and keep their text if there is any."""

from mailwright.domain.translation import lazy_gettext
from mailwright.sources.mailouts.notion.pages import NotionBlock
from mailwright.sources.mailouts.rendering.block_renderer import NOTHING, BlockRenderer, Piece
from mailwright.sources.mailouts.rendering.rich_text import clean

_LEFT_OUT = {
    "template": lazy_gettext("template buttons do not work in emails"),
    "meeting_notes": lazy_gettext("meeting notes are private"),
    "transcription": lazy_gettext("meeting transcriptions are private"),
}


def left_out(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    page.report(block, _LEFT_OUT[block.type])
    return NOTHING


def unsupported_block(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    kind = clean(block.content.get("block_type")) or "unknown"
    page.report(block, lazy_gettext("the Notion API does not return blocks of the type {kind}", kind=repr(kind)))
    return NOTHING


def unknown(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    """Render the text of a block of unknown type."""
    said = page.words(block)
    page.report(
        block,
        lazy_gettext("blocks of the type {kind} are not supported; only the text is shown", kind=repr(block.type))
        if said.html
        else lazy_gettext("blocks of the type {kind} are not supported; it is left out", kind=repr(block.type)),
    )
    html = f'<p style="margin:0 0 16px">{said.html}</p>' if said.html else ""
    return page.with_children(block, Piece(html, said.text), depth)
