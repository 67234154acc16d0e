"""Render blocks that contain others: columns, tabs, tables and plain containers."""

from collections.abc import Sequence
from math import isfinite

from mailwright.sources.mailouts.notion.pages import NotionBlock
from mailwright.sources.mailouts.rendering.block_renderer import MAX_UNDERLINE, NOTHING, BlockRenderer, Piece
from mailwright.sources.mailouts.rendering.rich_text import RichText, words
from mailwright.sources.mailouts.rendering.styles import INK, LINE, SHADE


def columns(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    found = [each for each in block.children if each.type == "column"]
    if not found:
        return page.inside(block.children, depth)
    ratios = [_ratio(each) for each in found]
    given = sum(ratio for ratio in ratios if ratio is not None)
    rest = [ratio for ratio in ratios if ratio is None]
    fair = (len(ratios) - given) / len(rest) if rest and given < len(ratios) else 1.0
    widths = [ratio if ratio is not None else fair for ratio in ratios]
    shares = [round(100 * width / sum(widths)) for width in widths]
    cells, texts = [], []
    for place, (column, share) in enumerate(zip(found, shares, strict=True)):
        inner = page.piece(column, depth)
        style = f"width:{share}%;padding:0 {0 if place == len(found) - 1 else 12}px 0 {12 if place else 0}px"
        cells.append(f'<td class="mw-column" width="{share}%" valign="top" style="{style}">\n{inner.html}\n</td>')
        texts.append(inner.text)
    html = "".join(cells)
    table = '<table role="presentation" width="100%" cellpadding="0" cellspacing="0" style="margin:0 0 8px">'
    return Piece(f"{table}<tr>{html}</tr></table>", "\n\n".join(text for text in texts if text.strip()))


def plain_container(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    """Render the children only."""
    return page.inside(block.children, depth)


def tabs(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    """Render tabs one below the other, each under its label."""
    found = []
    for tab in block.children:
        label = page.words(tab)
        inner = page.inside(tab.children, depth)
        style = "margin:0 0 8px;font-weight:600"
        html = f'<p style="{style}">{label.html}</p>\n' if label.html else ""
        found.append(Piece(f"{html}{inner.html}", "\n\n".join(part for part in (label.text, inner.text) if part)))
    return Piece("\n".join(each.html for each in found), "\n\n".join(each.text for each in found if each.text))


def table(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    rows = [_cells(page, row) for row in block.children if row.type == "table_row"]
    others = page.inside([row for row in block.children if row.type != "table_row"], depth)
    if not rows:
        return others
    has_head, has_side = (block.content.get(name) is True for name in ("has_column_header", "has_row_header"))
    width = max(len(row) for row in rows)
    lines = []
    for at, row in enumerate(rows):
        cells = [*row, *[RichText()] * (width - len(row))]
        tags = [
            _cell(cell, is_head=(has_head and at == 0) or (has_side and place == 0)) for place, cell in enumerate(cells)
        ]
        lines.append(f"<tr>{''.join(tags)}</tr>")
    texts = [" | ".join(" ".join(cell.text.split()) for cell in row).rstrip() for row in rows]
    if has_head:
        texts.insert(1, "-" * min(len(texts[0]), MAX_UNDERLINE))
    html = "\n".join(lines)
    return Piece(
        '<div style="margin:0 0 16px;overflow-x:auto"><table cellpadding="0" cellspacing="0" '
        f'style="border-collapse:collapse;font-size:15px;line-height:1.45">\n{html}\n</table></div>{others.html}',
        "\n".join([*texts, *([others.text] if others.text else [])]),
    )


def lone_row(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    cells = _cells(page, block)
    html = f'<p style="margin:0 0 16px">{" | ".join(cell.html for cell in cells)}</p>'
    return Piece(html, " | ".join(cell.text for cell in cells)) if cells else NOTHING


def _cells(page: BlockRenderer, row: NotionBlock) -> Sequence[RichText]:
    found = row.content.get("cells")
    return [words(cell, page.context_of(row)) for cell in found] if isinstance(found, list) else []


def _cell(cell: RichText, *, is_head: bool) -> str:
    style = f"border:1px solid {LINE};padding:8px 12px;text-align:left;vertical-align:top"
    if is_head:
        head = f"{style};background-color:{SHADE};color:{INK};font-weight:600"
        return f'<th class="mw-line mw-shade" style="{head}">{cell.html}</th>'
    return f'<td class="mw-line" style="{style}">{cell.html}</td>'


def _ratio(column: NotionBlock) -> float | None:
    ratio = column.content.get("width_ratio")
    if not isinstance(ratio, int | float) or isinstance(ratio, bool) or not isfinite(ratio):
        return None
    return max(0.05, min(float(ratio), 20.0))
