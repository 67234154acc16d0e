"""Render text blocks: paragraphs, headings, quotes, callouts, code and equations."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from mailwright.sources.mailouts.notion.pages import NotionBlock
from mailwright.sources.mailouts.rendering.block_renderer import (
    MAX_UNDERLINE,
    NOTHING,
    BlockRenderer,
    Piece,
    indented,
    mapping,
)
from mailwright.sources.mailouts.rendering.cards import captioned
from mailwright.sources.mailouts.rendering.images import icon_url
from mailwright.sources.mailouts.rendering.rich_text import clean, shown
from mailwright.sources.mailouts.rendering.styles import INK, LINE, MONOSPACE, SHADE, attributes


def paragraph(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    said = page.words(block)
    html = f"<p{attributes('margin:0 0 16px', block.content.get('color'))}>{said.html or '&nbsp;'}</p>"
    return page.with_children(block, Piece(html, said.text), depth)


def heading(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    """Render a heading. Children of a toggle heading are shown, because emails cannot open it."""
    said = page.words(block)
    level = int(block.type[-1])
    size, above = {1: (28, 28), 2: (22, 28), 3: (18, 24), 4: (16, 20)}[level]
    style = f"margin:{above}px 0 8px;font-size:{size}px;line-height:1.3;font-weight:700"
    html = f"<h{level}{attributes(style, block.content.get('color'))}>{said.html}</h{level}>"
    longest = max((len(line) for line in said.text.splitlines()), default=0)
    line = ("=" if level == 1 else "-") * min(longest, MAX_UNDERLINE)
    if said.are_blank:
        return page.with_children(block, NOTHING, depth)
    return page.with_children(block, Piece(html, f"{said.text}\n{line}"), depth, indent="")


def toggle(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    said = page.words(block)
    style = "margin:0 0 8px;font-weight:600"
    html = f"<p{attributes(style, block.content.get('color'))}>▾ {said.html}</p>"
    return page.with_children(block, Piece(html, said.text), depth)


def quote(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    said, inner = page.words(block), page.inside(block.children, depth)
    # Children end with their own margin.
    style = f"margin:0 0 16px;padding:4px 0 {0 if inner.html else 4}px 16px;border-left:3px solid {LINE}"
    shade = attributes(style, block.content.get("color"), "mw-line")
    spoken = f'<div style="margin:0 0 {8 if inner.html else 0}px">{said.html}</div>' if said.html else ""
    text = "\n\n".join(part for part in (said.text, inner.text) if part.strip())
    return Piece(f"<blockquote{shade}>{spoken}{inner.html}</blockquote>", indented(text, "> "))


def callout(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    said, inner = page.words(block), page.inside(block.children, depth)
    colour = str(block.content.get("color") or "default")
    icon = _icon(page, block)
    spoken = f'<div style="margin:0 0 {8 if inner.html else 0}px">{said.html}</div>' if said.html else ""
    beside = '<td width="32" valign="top" style="padding:16px 0 16px 16px;width:32px">{}</td>'
    # A text colour applies to the text; the box then has the default background.
    box = colour if colour.endswith("_background") else "default_background"
    edges = f"padding:16px 16px {0 if inner.html else 16}px {8 if icon.html else 16}px"
    inked = attributes(edges, colour if box != colour else None)
    return Piece(
        f'<table role="presentation" width="100%" cellpadding="0" cellspacing="0"'
        f"{attributes('margin:0 0 16px;border-radius:6px;padding:0', box)}><tr>"
        f'{beside.format(icon.html) if icon.html else ""}<td valign="top"{inked}>{spoken}{inner.html}</td>'
        "</tr></table>",
        "\n\n".join(part for part in (f"{icon.text} {said.text}".strip(), indented(inner.text, "  ")) if part.strip()),
    )


def _icon(page: BlockRenderer, block: NotionBlock) -> Piece:
    icon = mapping(block.content, "icon")
    if isinstance(icon.get("emoji"), str):
        return Piece(f'<span style="font-size:20px;line-height:1.3">{shown(icon["emoji"])}</span>', icon["emoji"])
    copy = page.images.get(icon_url(icon) or "")
    if copy is None:
        return NOTHING  # Decorative: it is omitted without a report.
    return Piece(f'<img src="{escape(copy.url)}" alt="" width="24" height="24" style="display:block;border:0">')


def code(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    # Code is shown as plain text, without links and annotations.
    said = clean("".join(str(piece.get("plain_text") or "") for piece in _pieces(block.content.get("rich_text"))))
    caption = page.words(block, "caption")
    style = (
        f"margin:0 0 {4 if caption.html else 16}px;padding:16px;background-color:{SHADE};color:{INK};"
        f"border-radius:6px;font-family:{MONOSPACE};font-size:14px;line-height:1.5;"
        "white-space:pre-wrap;word-break:break-word;overflow-wrap:anywhere"
    )
    html = f'<pre class="mw-shade" style="{style}"><code>{escape(said)}</code></pre>'
    text = "\n".join(part for part in (indented(said, "    "), caption.text) if part.strip())
    return Piece(f"{html}{captioned(caption)}", text)


def equation(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    formula = clean(block.content.get("expression"))
    style = f"margin:0 0 16px;text-align:center;font-family:{MONOSPACE};font-size:15px"
    return Piece(f'<p style="{style}"><code>{shown(formula)}</code></p>', formula) if formula else NOTHING


def divider(page: BlockRenderer, _block: NotionBlock, _depth: int) -> Piece:
    return Piece(f'<hr class="mw-line" style="border:0;border-top:1px solid {LINE};height:0;margin:24px 0">', "-" * 24)


def nothing(page: BlockRenderer, _block: NotionBlock, _depth: int) -> Piece:
    """Omit navigation blocks, which only work in Notion."""
    return NOTHING


def _pieces(rich_text: object) -> Sequence[Mapping[str, Any]]:
    return [piece for piece in rich_text if isinstance(piece, Mapping)] if isinstance(rich_text, list) else []
