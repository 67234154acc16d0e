"""Blocks that cannot or must not be shown as they are: each is told, and its words are kept where it has some."""

from mailwright.sources.mailouts.notion.pages import NotionBlock
from mailwright.sources.mailouts.rendering.block_renderer import NOTHING, BlockRenderer, Piece
from mailwright.sources.mailouts.rendering.rich_text import clean

_LEFT_OUT = {
    "template": "a button that makes blocks is of no use in a mail",
    "meeting_notes": "notes of a meeting are private",
    "transcription": "what was said in a meeting is private",
}


def left_out(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    page.report(block, _LEFT_OUT[block.type])
    return NOTHING


def unsupported_block(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    kind = clean(block.content.get("block_type")) or "unknown"
    page.report(block, f"Notion does not show blocks of the type {kind!r} to us")
    return NOTHING


def unknown(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    """What Notion may have tomorrow: its words as they are."""
    said = page.words(block)
    page.report(
        block,
        f"blocks of the type {block.type!r} are not known; "
        + ("its words are shown" if said.html else "it is left out"),
    )
    html = f'<p style="margin:0 0 16px">{said.html}</p>' if said.html else ""
    return page.with_children(block, Piece(html, said.text), depth)
