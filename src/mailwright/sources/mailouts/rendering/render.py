"""Rendering: a form of its own for every type of block, in HTML and in text, from the same walk over the blocks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

from mailwright.sources.mailouts.notion.pages import Block
from mailwright.sources.mailouts.rendering.frame import WIDTH
from mailwright.sources.mailouts.rendering.looks import INK, LINE, MONOSPACE, MUTED, SHADE, attributes
from mailwright.sources.mailouts.rendering.numbering import numeral
from mailwright.sources.mailouts.rendering.pictures import dying_url, icon_url
from mailwright.sources.mailouts.rendering.words import (
    Picture,
    Surroundings,
    Words,
    clean,
    is_private,
    linked,
    safe_url,
    shown,
    words,
)

LONGEST_UNDERLINE = 72
# Neighbours of these types are one list.
LISTS = ("bulleted_list_item", "numbered_list_item", "to_do")
# Deeper than Notion's API is read: what is handed over by others does not break the stack.
MOST_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Something of the page that readers will not see as it is there, and why; `block_id` is for the errors table."""

    block_id: str
    type: str
    reason: str
    code: str = "content_block_unsupported"


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
    page = _Page(images)
    pieces = list(page.pieces(_without_spacers(blocks), 0))
    html = "\n".join(piece.html for piece in pieces if piece.html)
    text = "\n\n".join(piece.text for piece in pieces if piece.text.strip())
    is_blank = not text.replace("-", "").strip() and "<img" not in html
    return Rendered("" if is_blank else html, "" if is_blank else f"{text}\n", tuple(page.unsupported))


@dataclass(frozen=True, slots=True)
class Piece:
    html: str = ""
    text: str = ""


NOTHING = Piece()


class _Page:
    """One rendering: it keeps what it had to leave out."""

    def __init__(self, images: Mapping[str, Picture]) -> None:
        self.images = images
        self.unsupported: list[Unsupported] = []
        # How many lists, and how many numbered ones, are around what is rendered now.
        self.lists = self.numbers = 0

    def pieces(self, blocks: Iterable[Block], depth: int) -> Iterator[Piece]:
        for kind, run in groupby(blocks, key=lambda block: block.type):
            if kind in LISTS:
                yield self.list(kind, list(run), depth)
            else:
                for block in run:
                    yield self.piece(block, depth)

    def piece(self, block: Block, depth: int) -> Piece:
        if depth > MOST_DEPTH:
            self.report(block, "it is nested too deeply")
            return NOTHING
        if block.missing is not None:
            self.report(block, block.missing, "content_block_incomplete")
        return _FORMS.get(block.type, _Page.unknown)(self, block, depth)

    def report(self, block: Block, reason: str, code: str = "content_block_unsupported") -> None:
        self.unsupported.append(Unsupported(block.id, block.type, reason, code))

    def words(self, block: Block, name: str = "rich_text") -> Words:
        return words(block.content.get(name), self.around(block))

    def around(self, block: Block) -> Surroundings:
        return Surroundings(self.images, lambda code, reason: self.report(block, reason, code))

    def inside(self, blocks: Iterable[Block], depth: int) -> Piece:
        found = list(self.pieces(blocks, depth + 1))
        return Piece(
            "\n".join(piece.html for piece in found if piece.html),
            "\n\n".join(piece.text for piece in found if piece.text.strip()),
        )

    # Text.

    def paragraph(self, block: Block, depth: int) -> Piece:
        said = self.words(block)
        html = f"<p{attributes('margin:0 0 16px', block.content.get('color'))}>{said.html or '&nbsp;'}</p>"
        return self.with_children(block, Piece(html, said.text), depth)

    def heading(self, block: Block, depth: int) -> Piece:
        """A toggle's children are shown: there is nothing to open it with in a mail."""
        said = self.words(block)
        level = int(block.type[-1])
        size, above = {1: (28, 28), 2: (22, 28), 3: (18, 24), 4: (16, 20)}[level]
        style = f"margin:{above}px 0 8px;font-size:{size}px;line-height:1.3;font-weight:700"
        html = f"<h{level}{attributes(style, block.content.get('color'))}>{said.html}</h{level}>"
        longest = max((len(line) for line in said.text.splitlines()), default=0)
        line = ("=" if level == 1 else "-") * min(longest, LONGEST_UNDERLINE)
        if said.are_blank:
            return self.with_children(block, NOTHING, depth)
        return self.with_children(block, Piece(html, f"{said.text}\n{line}"), depth, indent="")

    def toggle(self, block: Block, depth: int) -> Piece:
        said = self.words(block)
        style = "margin:0 0 8px;font-weight:600"
        html = f"<p{attributes(style, block.content.get('color'))}>▾ {said.html}</p>"
        return self.with_children(block, Piece(html, said.text), depth)

    def quote(self, block: Block, depth: int) -> Piece:
        said, inner = self.words(block), self.inside(block.children, depth)
        # What stands inside ends with a space of its own.
        style = f"margin:0 0 16px;padding:4px 0 {0 if inner.html else 4}px 16px;border-left:3px solid {LINE}"
        shade = attributes(style, block.content.get("color"), "mw-line")
        spoken = f'<div style="margin:0 0 {8 if inner.html else 0}px">{said.html}</div>' if said.html else ""
        text = "\n\n".join(part for part in (said.text, inner.text) if part.strip())
        return Piece(f"<blockquote{shade}>{spoken}{inner.html}</blockquote>", _indented(text, "> "))

    def callout(self, block: Block, depth: int) -> Piece:
        said, inner = self.words(block), self.inside(block.children, depth)
        colour = str(block.content.get("color") or "default")
        icon = self.icon(block)
        spoken = f'<div style="margin:0 0 {8 if inner.html else 0}px">{said.html}</div>' if said.html else ""
        beside = '<td width="32" valign="top" style="padding:16px 0 16px 16px;width:32px">{}</td>'
        # A colour that is not a background is that of the words; the box is then the plain one.
        box = colour if colour.endswith("_background") else "default_background"
        edges = f"padding:16px 16px {0 if inner.html else 16}px {8 if icon.html else 16}px"
        inked = attributes(edges, colour if box != colour else None)
        return Piece(
            f'<table role="presentation" width="100%" cellpadding="0" cellspacing="0"'
            f"{attributes('margin:0 0 16px;border-radius:6px;padding:0', box)}><tr>"
            f'{beside.format(icon.html) if icon.html else ""}<td valign="top"{inked}>{spoken}{inner.html}</td>'
            "</tr></table>",
            "\n\n".join(
                part for part in (f"{icon.text} {said.text}".strip(), _indented(inner.text, "  ")) if part.strip()
            ),
        )

    def icon(self, block: Block) -> Piece:
        icon = _mapping(block.content, "icon")
        if isinstance(icon.get("emoji"), str):
            return Piece(f'<span style="font-size:20px;line-height:1.3">{shown(icon["emoji"])}</span>', icon["emoji"])
        copy = self.images.get(icon_url(icon) or "")
        if copy is None:
            return NOTHING  # an ornament: whatever it was, nobody misses it
        return Piece(f'<img src="{escape(copy.url)}" alt="" width="24" height="24" style="display:block;border:0">')

    def code(self, block: Block, _depth: int) -> Piece:
        # As it was typed: links and looks have no place in a listing, its words have.
        said = clean("".join(str(piece.get("plain_text") or "") for piece in _pieces(block.content.get("rich_text"))))
        caption = self.words(block, "caption")
        style = (
            f"margin:0 0 {4 if caption.html else 16}px;padding:16px;background-color:{SHADE};color:{INK};"
            f"border-radius:6px;font-family:{MONOSPACE};font-size:14px;line-height:1.5;"
            "white-space:pre-wrap;word-break:break-word;overflow-wrap:anywhere"
        )
        html = f'<pre class="mw-shade" style="{style}"><code>{escape(said)}</code></pre>'
        text = "\n".join(part for part in (_indented(said, "    "), caption.text) if part.strip())
        return Piece(f"{html}{_caption(caption)}", text)

    def equation(self, block: Block, _depth: int) -> Piece:
        formula = clean(block.content.get("expression"))
        style = f"margin:0 0 16px;text-align:center;font-family:{MONOSPACE};font-size:15px"
        return Piece(f'<p style="{style}"><code>{shown(formula)}</code></p>', formula) if formula else NOTHING

    def divider(self, _block: Block, _depth: int) -> Piece:
        return Piece(
            f'<hr class="mw-line" style="border:0;border-top:1px solid {LINE};height:0;margin:24px 0">', "-" * 24
        )

    def nothing(self, _block: Block, _depth: int) -> Piece:
        """Notion's own signposts, for moving about in Notion."""
        return NOTHING

    # Lists.

    def list(self, kind: str, run: Sequence[Block], depth: int) -> Piece:
        for block in run:
            if block.missing is not None:
                self.report(block, block.missing, "content_block_incomplete")
        if depth > MOST_DEPTH:
            self.report(run[0], "it is nested too deeply")
            return NOTHING
        match kind:
            case "numbered_list_item":
                return self.numbered(run, depth)
            case "to_do":
                return self.to_dos(run, depth)
            case _:
                return self.bulleted(run, depth)

    def bulleted(self, run: Sequence[Block], depth: int) -> Piece:
        items = [self.item(block, depth) for block in run]
        html = "\n".join(item.html for item in items)
        return Piece(
            f'<ul style="{_list_style(is_inner=self.lists > 0)}">\n{html}\n</ul>',
            "\n".join(f"- {_indented(item.text, '  ').lstrip()}" for item in items),
        )

    def numbered(self, run: Sequence[Block], depth: int) -> Piece:
        """Numbers by themselves, letters inside them, Roman numerals inside those, unless the list says otherwise."""
        first = run[0].content.get("list_start_index")
        start = first if isinstance(first, int) and not isinstance(first, bool) and 0 <= first < 10**6 else 1
        asked = str(run[0].content.get("list_format"))
        form = {"numbers": "1", "letters": "a", "roman": "i"}.get(asked, "1ai"[self.numbers % 3])
        self.numbers += 1
        items = [self.item(block, depth) for block in run]
        self.numbers -= 1
        signs = [f"{numeral(number, form)}. " for number in range(start, start + len(run))]
        lines = [sign + _indented(item.text, " " * len(sign)).lstrip() for sign, item in zip(signs, items, strict=True)]
        html = "\n".join(item.html for item in items)
        begins = f' start="{start}"' if start != 1 else ""
        return Piece(
            f'<ol type="{form}"{begins} style="{_list_style(is_inner=self.lists > 0)}">\n{html}\n</ol>',
            "\n".join(lines),
        )

    def item(self, block: Block, depth: int) -> Piece:
        self.lists += 1
        said, inner = self.words(block), self.inside(block.children, depth)
        self.lists -= 1
        colour = attributes("margin:0 0 6px", block.content.get("color"))
        nested = f"\n{inner.html}\n" if inner.html else ""
        return Piece(
            f"<li{colour}>{said.html}{nested}</li>",
            "\n".join(part for part in (said.text, inner.text.replace("\n\n", "\n")) if part.strip()),
        )

    def to_dos(self, run: Sequence[Block], depth: int) -> Piece:
        """No input boxes: few mail programs show them, and none would keep what is ticked."""
        rows, lines = [], []
        for block in run:
            is_done = block.content.get("checked") is True
            said, inner = self.words(block), self.inside(block.children, depth)
            done = f"color:{MUTED};text-decoration:line-through" if is_done else ""
            spoken = attributes(done, block.content.get("color"), "mw-muted" if is_done else "")
            rows.append(
                f'<tr><td width="28" valign="top" style="width:28px;padding:0 0 6px">{"☑" if is_done else "☐"}</td>'
                f'<td valign="top" style="padding:0 0 6px"><div{spoken}>{said.html}</div>{inner.html}</td></tr>'
            )
            text = "\n".join(part for part in (said.text, inner.text.replace("\n\n", "\n")) if part.strip())
            lines.append(f"[{'x' if is_done else ' '}] {_indented(text, '    ').lstrip()}")
        html = "\n".join(rows)
        table = '<table role="presentation" cellpadding="0" cellspacing="0" style="margin:0 0 12px">'
        return Piece(f"{table}\n{html}\n</table>", "\n".join(lines))

    # Pictures, files and links.

    def image(self, block: Block, _depth: int) -> Piece:
        caption = self.words(block, "caption")
        said = " ".join(caption.text.split())
        dying = dying_url(block.content)
        picture = self.images.get(dying) if dying is not None else _picture_elsewhere(block.content)
        if picture is None:
            self.report(block, "the picture could not be copied from Notion", "content_image_not_copied")
            named = f"[Image: {said}]" if said else "[Image]"
            return Piece(f'<p class="mw-muted" style="margin:0 0 16px;color:{MUTED}">{shown(named)}</p>', named)
        # Outlook knows no largest width, only this attribute; the others shrink what is too wide for them.
        width = f' width="{min(picture.width, WIDTH)}"' if picture.width else ""
        style = "display:block;max-width:100%;height:auto;border:0;border-radius:6px"
        html = (
            f'<div style="margin:0 0 {4 if caption.html else 16}px">'
            f'<img src="{escape(picture.url)}" alt="{escape(said)}"{width} style="{style}"></div>{_caption(caption)}'
        )
        return Piece(html, f"[Image: {said}] {picture.url}" if said else f"[Image] {picture.url}")

    def file(self, block: Block, _depth: int) -> Piece:
        """A link, where it will still be one tomorrow; else the name, and a word to the author."""
        sign, spoken = _FILES[block.type]
        caption = self.words(block, "caption")
        url = safe_url(_url(block.content))
        name = clean(block.content.get("name")) or (_last_part(url) if url else "")
        if dying_url(block.content) is not None or url is None:
            self.report(
                block, "readers could not open a file that Notion keeps: link to it elsewhere", "content_file_expires"
            )
            url = None
        title = " ".join((caption.text or name).split()) or spoken
        beside = name if name != title else ""
        text = f"{spoken}: {title}" if title != spoken else spoken
        return Piece(_card(sign, title, url, beside), f"{text} {url}" if url else text)

    def link(self, block: Block, _depth: int) -> Piece:
        caption = self.words(block, "caption")
        url = safe_url(block.content.get("url"))
        title = " ".join(caption.text.split())
        if url is None:
            reason = "its address is missing, or one that readers cannot follow"
            self.report(block, reason, "content_link_dropped")
            return Piece(_card("🔗", title, None, ""), title) if title else NOTHING
        return Piece(_card("🔗", title or _spoken(url), url, ""), f"{title} {url}".strip())

    def linked_page(self, block: Block, _depth: int) -> Piece:
        """A link only where the page is published: others would meet a sign-in."""
        title = clean(block.content.get("title"))
        url = safe_url(block.content.get("public_url"))
        if url is None or is_private(url):
            if block.missing is None:
                self.report(block, "it leads to a page that is not published", "content_link_dropped")
            return Piece(_card("📄", title, None, ""), title) if title else NOTHING
        return Piece(_card("📄", title or _spoken(url), url, ""), f"{title} {url}".strip())

    def other_page(self, block: Block, _depth: int) -> Piece:
        """Its title: what is written there is another page, which nobody asked to send."""
        title = clean(block.content.get("title"))
        self.report(block, "only its title is shown: what is on it is not part of this page", "content_not_included")
        return Piece(_card("📄" if block.type == "child_page" else "🗂", title, None, ""), title) if title else NOTHING

    def left_out(self, block: Block, _depth: int) -> Piece:
        self.report(block, _LEFT_OUT[block.type])
        return NOTHING

    def unsupported_block(self, block: Block, _depth: int) -> Piece:
        kind = clean(block.content.get("block_type")) or "unknown"
        self.report(block, f"Notion does not show blocks of the type {kind!r} to us")
        return NOTHING

    def unknown(self, block: Block, depth: int) -> Piece:
        """What Notion may have tomorrow: its words as they are."""
        said = self.words(block)
        self.report(
            block,
            f"blocks of the type {block.type!r} are not known; "
            + ("its words are shown" if said.html else "it is left out"),
        )
        html = f'<p style="margin:0 0 16px">{said.html}</p>' if said.html else ""
        return self.with_children(block, Piece(html, said.text), depth)

    # Blocks that hold others.

    def columns(self, block: Block, depth: int) -> Piece:
        found = [each for each in block.children if each.type == "column"]
        if not found:
            return self.inside(block.children, depth)
        ratios = [_ratio(each) for each in found]
        given = sum(ratio for ratio in ratios if ratio is not None)
        rest = [ratio for ratio in ratios if ratio is None]
        fair = (len(ratios) - given) / len(rest) if rest and given < len(ratios) else 1.0
        widths = [ratio if ratio is not None else fair for ratio in ratios]
        shares = [round(100 * width / sum(widths)) for width in widths]
        cells, texts = [], []
        for place, (column, share) in enumerate(zip(found, shares, strict=True)):
            inner = self.piece(column, depth)
            style = f"width:{share}%;padding:0 {0 if place == len(found) - 1 else 12}px 0 {12 if place else 0}px"
            cells.append(f'<td class="mw-column" width="{share}%" valign="top" style="{style}">\n{inner.html}\n</td>')
            texts.append(inner.text)
        html = "".join(cells)
        table = '<table role="presentation" width="100%" cellpadding="0" cellspacing="0" style="margin:0 0 8px">'
        return Piece(f"{table}<tr>{html}</tr></table>", "\n\n".join(text for text in texts if text.strip()))

    def held(self, block: Block, depth: int) -> Piece:
        """A box without a look of its own."""
        return self.inside(block.children, depth)

    def tabs(self, block: Block, depth: int) -> Piece:
        """One under the other, each under its label."""
        found = []
        for tab in block.children:
            label = self.words(tab)
            inner = self.inside(tab.children, depth)
            style = "margin:0 0 8px;font-weight:600"
            html = f'<p style="{style}">{label.html}</p>\n' if label.html else ""
            found.append(Piece(f"{html}{inner.html}", "\n\n".join(part for part in (label.text, inner.text) if part)))
        return Piece("\n".join(each.html for each in found), "\n\n".join(each.text for each in found if each.text))

    def table(self, block: Block, depth: int) -> Piece:
        rows = [self.cells(row) for row in block.children if row.type == "table_row"]
        others = self.inside([row for row in block.children if row.type != "table_row"], depth)
        if not rows:
            return others
        has_head, has_side = (block.content.get(name) is True for name in ("has_column_header", "has_row_header"))
        width = max(len(row) for row in rows)
        lines = []
        for at, row in enumerate(rows):
            cells = [*row, *[Words()] * (width - len(row))]
            tags = [
                _cell(cell, is_head=(has_head and at == 0) or (has_side and place == 0))
                for place, cell in enumerate(cells)
            ]
            lines.append(f"<tr>{''.join(tags)}</tr>")
        texts = [" | ".join(" ".join(cell.text.split()) for cell in row).rstrip() for row in rows]
        if has_head:
            texts.insert(1, "-" * min(len(texts[0]), LONGEST_UNDERLINE))
        html = "\n".join(lines)
        return Piece(
            '<div style="margin:0 0 16px;overflow-x:auto"><table cellpadding="0" cellspacing="0" '
            f'style="border-collapse:collapse;font-size:15px;line-height:1.45">\n{html}\n</table></div>{others.html}',
            "\n".join([*texts, *([others.text] if others.text else [])]),
        )

    def lone_row(self, block: Block, _depth: int) -> Piece:
        cells = self.cells(block)
        html = f'<p style="margin:0 0 16px">{" | ".join(cell.html for cell in cells)}</p>'
        return Piece(html, " | ".join(cell.text for cell in cells)) if cells else NOTHING

    def cells(self, row: Block) -> Sequence[Words]:
        found = row.content.get("cells")
        return [words(cell, self.around(row)) for cell in found] if isinstance(found, list) else []

    def with_children(self, block: Block, own: Piece, depth: int, indent: str = "  ") -> Piece:
        if not block.children:
            return own
        inner = self.inside(block.children, depth)
        padding = f"padding:0 0 0 {24 if indent else 0}px"
        html = f'{own.html}\n<div style="{padding}">\n{inner.html}\n</div>' if inner.html else own.html
        return Piece(html, "\n\n".join(part for part in (own.text, _indented(inner.text, indent)) if part.strip()))


_FORMS: Mapping[str, Callable[[_Page, Block, int], Piece]] = {
    "paragraph": _Page.paragraph,
    "heading_1": _Page.heading,
    "heading_2": _Page.heading,
    "heading_3": _Page.heading,
    "heading_4": _Page.heading,
    "toggle": _Page.toggle,
    "quote": _Page.quote,
    "callout": _Page.callout,
    "code": _Page.code,
    "equation": _Page.equation,
    "divider": _Page.divider,
    "breadcrumb": _Page.nothing,
    "table_of_contents": _Page.nothing,
    "image": _Page.image,
    "video": _Page.file,
    "audio": _Page.file,
    "pdf": _Page.file,
    "file": _Page.file,
    "embed": _Page.link,
    "bookmark": _Page.link,
    "link_preview": _Page.link,
    "link_to_page": _Page.linked_page,
    "child_page": _Page.other_page,
    "child_database": _Page.other_page,
    "column_list": _Page.columns,
    "column": _Page.held,
    "synced_block": _Page.held,
    "tab": _Page.tabs,
    "table": _Page.table,
    "table_row": _Page.lone_row,
    "template": _Page.left_out,
    "meeting_notes": _Page.left_out,
    "transcription": _Page.left_out,
    "unsupported": _Page.unsupported_block,
}
KNOWN_TYPES = frozenset({*_FORMS, *LISTS})

_FILES = {"video": ("🎬", "Video"), "audio": ("🎧", "Audio"), "pdf": ("📕", "PDF"), "file": ("📎", "File")}
_LEFT_OUT = {
    "template": "a button that makes blocks is of no use in a mail",
    "meeting_notes": "notes of a meeting are private",
    "transcription": "what was said in a meeting is private",
}


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


def _card(sign: str, title: str, url: str | None, beside: str) -> str:
    """A box with what it leads to, and below it where that is."""
    host = urlsplit(url).hostname if url else None
    below = " · ".join(escape(part) for part in (beside, host or "") if part and part != title)
    small = f'<div class="mw-muted" style="color:{MUTED};font-size:13px;line-height:1.4">{below}</div>' if below else ""
    named = linked(shown(title), url, "text-decoration:none;font-weight:600") if url else shown(title)
    table = '<table role="presentation" width="100%" cellpadding="0" cellspacing="0" class="mw-line" style="'
    return (
        f'{table}margin:0 0 16px;border:1px solid {LINE};border-radius:6px;border-collapse:separate"><tr>'
        f'<td width="28" valign="top" style="padding:12px 0 12px 14px;width:28px">{sign}</td>'
        f'<td valign="top" style="padding:12px 14px 12px 6px">{named}{small}</td></tr></table>'
    )


def _caption(caption: Words) -> str:
    if not caption.html:
        return ""
    return (
        f'<p class="mw-muted" style="margin:0 0 16px;color:{MUTED};font-size:14px;line-height:1.4">{caption.html}</p>'
    )


def _cell(cell: Words, *, is_head: bool) -> str:
    style = f"border:1px solid {LINE};padding:8px 12px;text-align:left;vertical-align:top"
    if is_head:
        head = f"{style};background-color:{SHADE};color:{INK};font-weight:600"
        return f'<th class="mw-line mw-shade" style="{head}">{cell.html}</th>'
    return f'<td class="mw-line" style="{style}">{cell.html}</td>'


def _list_style(*, is_inner: bool) -> str:
    return f"margin:{'6px 0 0' if is_inner else '0 0 16px'};padding:0 0 0 26px"


def _indented(text: str, prefix: str) -> str:
    return "\n".join(f"{prefix}{line}".rstrip() for line in text.split("\n")) if text else ""


def _ratio(column: Block) -> float | None:
    ratio = column.content.get("width_ratio")
    if not isinstance(ratio, int | float) or isinstance(ratio, bool) or not isfinite(ratio):
        return None
    return max(0.05, min(float(ratio), 20.0))


def _url(content: Mapping[str, Any]) -> object:
    return _mapping(content, str(content.get("type"))).get("url")


def _picture_elsewhere(content: Mapping[str, Any]) -> Picture | None:
    found = safe_url(_url(content))
    return Picture(found) if found is not None and found.startswith(("http://", "https://")) else None


def _spoken(url: str) -> str:
    """An address as people say it."""
    return url.removeprefix("https://").removeprefix("http://").removeprefix("www.").rstrip("/")


def _last_part(url: str) -> str:
    return clean(urlsplit(url).path.rstrip("/").rpartition("/")[2])


def _pieces(rich_text: object) -> Sequence[Mapping[str, Any]]:
    return [piece for piece in rich_text if isinstance(piece, Mapping)] if isinstance(rich_text, list) else []


def _mapping(outer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = outer.get(name)
    return found if isinstance(found, Mapping) else {}
