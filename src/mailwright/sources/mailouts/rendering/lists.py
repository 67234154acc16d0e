"""Render adjacent list items as one list, nested and numbered as in Notion."""

from collections.abc import Sequence

from mailwright.domain.translation import lazy_gettext
from mailwright.sources.mailouts.notion.pages import NotionBlock
from mailwright.sources.mailouts.rendering.block_renderer import MAX_DEPTH, NOTHING, BlockRenderer, Piece, indented
from mailwright.sources.mailouts.rendering.numbering import numeral
from mailwright.sources.mailouts.rendering.styles import MUTED, attributes


def render_list(page: BlockRenderer, kind: str, run: Sequence[NotionBlock], depth: int) -> Piece:
    for block in run:
        if block.missing is not None:
            page.report(block, block.missing, "content_block_incomplete")
    if depth > MAX_DEPTH:
        page.report(run[0], lazy_gettext("it is nested too deeply"))
        return NOTHING
    match kind:
        case "numbered_list_item":
            return _numbered(page, run, depth)
        case "to_do":
            return _to_dos(page, run, depth)
        case _:
            return _bulleted(page, run, depth)


def _bulleted(page: BlockRenderer, run: Sequence[NotionBlock], depth: int) -> Piece:
    items = [_item(page, block, depth) for block in run]
    html = "\n".join(item.html for item in items)
    return Piece(
        f'<ul style="{_list_style(is_inner=page.lists > 0)}">\n{html}\n</ul>',
        "\n".join(f"- {indented(item.text, '  ').lstrip()}" for item in items),
    )


def _numbered(page: BlockRenderer, run: Sequence[NotionBlock], depth: int) -> Piece:
    """Render numbers, then letters, then Roman numerals by nesting level, unless the list has its own format."""
    first = run[0].content.get("list_start_index")
    start = first if isinstance(first, int) and not isinstance(first, bool) and 0 <= first < 10**6 else 1
    asked = str(run[0].content.get("list_format"))
    form = {"numbers": "1", "letters": "a", "roman": "i"}.get(asked, "1ai"[page.numbers % 3])
    page.numbers += 1
    items = [_item(page, block, depth) for block in run]
    page.numbers -= 1
    signs = [f"{numeral(number, form)}. " for number in range(start, start + len(run))]
    lines = [sign + indented(item.text, " " * len(sign)).lstrip() for sign, item in zip(signs, items, strict=True)]
    html = "\n".join(item.html for item in items)
    begins = f' start="{start}"' if start != 1 else ""
    return Piece(
        f'<ol type="{form}"{begins} style="{_list_style(is_inner=page.lists > 0)}">\n{html}\n</ol>',
        "\n".join(lines),
    )


def _item(page: BlockRenderer, block: NotionBlock, depth: int) -> Piece:
    page.lists += 1
    said, inner = page.words(block), page.inside(block.children, depth)
    page.lists -= 1
    colour = attributes("margin:0 0 6px", block.content.get("color"))
    nested = f"\n{inner.html}\n" if inner.html else ""
    return Piece(
        f"<li{colour}>{said.html}{nested}</li>",
        "\n".join(part for part in (said.text, inner.text.replace("\n\n", "\n")) if part.strip()),
    )


def _to_dos(page: BlockRenderer, run: Sequence[NotionBlock], depth: int) -> Piece:
    """Render check marks as characters: few email clients show input boxes."""
    rows, lines = [], []
    for block in run:
        is_done = block.content.get("checked") is True
        said, inner = page.words(block), page.inside(block.children, depth)
        done = f"color:{MUTED};text-decoration:line-through" if is_done else ""
        spoken = attributes(done, block.content.get("color"), "mw-muted" if is_done else "")
        rows.append(
            f'<tr><td width="28" valign="top" style="width:28px;padding:0 0 6px">{"☑" if is_done else "☐"}</td>'
            f'<td valign="top" style="padding:0 0 6px"><div{spoken}>{said.html}</div>{inner.html}</td></tr>'
        )
        text = "\n".join(part for part in (said.text, inner.text.replace("\n\n", "\n")) if part.strip())
        lines.append(f"[{'x' if is_done else ' '}] {indented(text, '    ').lstrip()}")
    html = "\n".join(rows)
    table = '<table role="presentation" cellpadding="0" cellspacing="0" style="margin:0 0 12px">'
    return Piece(f"{table}\n{html}\n</table>", "\n".join(lines))


def _list_style(*, is_inner: bool) -> str:
    return f"margin:{'6px 0 0' if is_inner else '0 0 16px'};padding:0 0 0 26px"
