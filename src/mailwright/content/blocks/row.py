"""Write the MJML of one row of a column, with the colours and the spacing of its position."""

import re
from typing import Final, Protocol

from mailwright.content.blocks import inline as inline_html
from mailwright.content.blocks.document import Block
from mailwright.content.blocks.theme import Theme
from mailwright.content.colors import TEXT_CONTRAST, contrast, parse_color
from mailwright.domain.lazy_dataclass import dataclass

# The backgrounds that the dark scheme replaces: no background, and the soft background of the brand kit.
SOFT_BACKGROUNDS: Final = (None, "brand:background")
SIDE_PADDING: Final = 32
COLUMN_PADDING: Final = 12
_TEXT_COLOR: Final = re.compile(r"color:\s*(#(?:[0-9a-f]{6}|[0-9a-f]{3}))\b", re.ASCII | re.IGNORECASE)
_HEADING_SIZES: Final = {1: 30, 2: 22, 3: 18}
_SPACE_BELOW: Final = "margin:0 0 14px"
_LIST_PADDING: Final = {"left": "0 0 0 24px", "right": "0 24px 0 0"}


class Warn(Protocol):
    """Record a warning for the author of a block, with a code of the pre-send checks."""

    def __call__(self, message: str, code: str = ...) -> None: ...


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a block: the background behind it and the space at its sides."""

    background: str
    side: int
    keeps_colors: bool = False  # The author chose the background, so the dark scheme keeps its colours.
    is_page: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Write the rows of one block."""

    theme: Theme
    place: Place
    locale: str
    warn: Warn
    block: Block

    @property
    def background(self) -> str:
        return self.theme.color(self.block.background, self.place.background)

    @property
    def keeps_colors(self) -> bool:
        """Whether the author chose the background. That of the brand kit is replaced in the dark scheme."""
        own = self.block.background
        return self.place.keeps_colors if own is None else own not in SOFT_BACKGROUNDS

    def heading(self, html: str, level: int) -> str:
        size = _HEADING_SIZES[level]
        style = (
            f"margin:0;font-family:{self.theme.heading_font};font-size:{size}px;line-height:1.25;font-weight:700;"
            f"color:{self.theme.text_on(self.background)}"
        )
        return f'<h{level} style="{style}">{html}</h{level}>'

    def paragraphs(self, html: str) -> str:
        """Return text with inline styles, because some programs drop style sheets."""
        cleaned = self.with_link_style(self.inline(html))
        lists = f"{_SPACE_BELOW};padding:{_LIST_PADDING[self.theme.start]}"
        for tag, style in (("p", _SPACE_BELOW), ("ul", lists), ("ol", lists), ("li", "margin:0 0 6px")):
            cleaned = cleaned.replace(f"<{tag}>", f'<{tag} style="{style}">')
        last = cleaned.rfind(_SPACE_BELOW)  # The padding of the row follows the last paragraph.
        return cleaned if last < 0 else cleaned[:last] + "margin:0" + cleaned[last + len(_SPACE_BELOW) :]

    def inline(self, html: str, ratio: float = TEXT_CONTRAST) -> str:
        """Return formatted text, and warn about colours of its parts that are hard to read."""
        cleaned = inline_html.inline(html, self.warn)
        if any(contrast(parse_color(color), self.background) < ratio for color in _TEXT_COLOR.findall(cleaned)):
            self.warn("Coloured text is hard to read on its background.", "LOW_CONTRAST")
        return cleaned

    def with_link_style(self, html: str) -> str:
        color = self.theme.link_on(self.background)
        return html.replace("<a ", f'<a class="mw-link" style="color:{color};text-decoration:underline" ')

    def text(self, html: str, top: int, bottom: int, **attributes: str) -> str:
        shared = self.shared(padding_of(self.block, top, bottom), "mw-text", **attributes)
        color = attributes.get("color", self.theme.text_on(self.background))
        own = "" if "color" in attributes else f' color="{color}"'
        return f"<mj-text{own}{shared}>{html}</mj-text>"

    def shared(self, padding: tuple[int, int] | tuple[()], *classes: str, **attributes: str) -> str:
        """Return the attributes that every row has."""
        dark = [] if self.keeps_colors else [*classes, *(["mw-page-text"] if self.place.is_page else [])]
        names = [*dark, *background_classes(self.block), *hide_classes(self.block)]
        if self.place.side == SIDE_PADDING and padding:
            names.append("mw-row")
        values = dict(attributes)
        if self.block.background is not None:
            values["container-background-color"] = self.background
        if padding:
            side = self.place.side or (COLUMN_PADDING if self.block.background is not None else 0)
            values["padding"] = f"{padding[0]}px {side}px {padding[1]}px"
        if self.block.align is not None and padding:
            values["align"] = self.block.align
        if names:
            values["css-class"] = " ".join(names)
        return "".join(f' {name.replace("_", "-")}="{value}"' for name, value in values.items())

    def picture(
        self,
        src: str,
        alt: str,
        *,
        href: str | None = None,
        width: int | None = None,
        around: tuple[int, int] = (8, 8),
        default: str = "center",
        rel: str = "",
    ) -> str:
        values = {"src": inline_html.plain(src), "alt": inline_html.plain(alt)}
        if href:
            values["href"] = inline_html.plain(href)
            if rel:
                values["rel"] = rel
        if width:
            values["width"] = f"{min(width, self.theme.width - 2 * self.place.side)}px"
        if self.block.align is None:
            values["align"] = default
        return f"<mj-image{self.shared(padding_of(self.block, *around), **values)} />"

    def action(
        self,
        label: str,
        href: str,
        color: str,
        text: str,
        *,
        is_wide: bool = False,
        is_soft: bool = False,
        around: tuple[int, int] = (12, 12),
    ) -> str:
        values = {"background-color": color, "color": text}
        if href.strip():
            values["href"] = inline_html.plain(href)
        if is_wide:
            values["width"] = "100%"
        if self.block.align is None:
            values["align"] = self.theme.start
        classes = ("mw-soft-button",) if is_soft else ()
        shared = self.shared(padding_of(self.block, *around), *classes, **values)
        return f"<mj-button{shared}>{inline_html.plain(label)}</mj-button>"


def padding_of(block: Block, top: int, bottom: int) -> tuple[int, int]:
    own = block.padding
    if own is None:
        return top, bottom
    return top if own.top is None else own.top, bottom if own.bottom is None else own.bottom


def background_classes(block: Block, without: str | None = None) -> list[str]:
    """Return the class that gives the row its background in the dark scheme."""
    if block.background is None:
        return [] if without is None else [without]
    return ["mw-soft"] if block.background in SOFT_BACKGROUNDS else []


def hide_classes(block: Block) -> list[str]:
    return [] if block.hide_on is None else [f"mw-hide-{block.hide_on}"]
