"""Write each type of block as rows of a column."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mailwright.content.blocks import inline as inline_html
from mailwright.content.blocks.document import (
    Block,
    ButtonBlock,
    CardBlock,
    DividerBlock,
    FooterBlock,
    HeaderBlock,
    HeadingBlock,
    HtmlBlock,
    ImageBlock,
    QuoteBlock,
    SlotBlock,
    SocialBlock,
    SpacerBlock,
    TextBlock,
    VideoBlock,
)
from mailwright.content.blocks.row import SOFT_BACKGROUNDS, Row, padding_of
from mailwright.content.brand import Network
from mailwright.content.colors import LARGE_TEXT_CONTRAST, TEXT_CONTRAST, contrast, readable_on
from mailwright.content.presend_checks import POSTAL_ADDRESS_CLASS
from mailwright.content.social_icons import icon_name
from mailwright.content.text import REPEATED
from mailwright.content.unsubscribe_footer import UNSUBSCRIBE, footer_labels

# The `rel` of a link around an image, if the block has the same link as text. The compiler hides it from screen
# readers.
REPEATED_IMAGE: Final = f"{REPEATED}-image"
_NO_ALT: Final = "The image has no alternative text, so people who do not see it miss its content."
# Tags and spaces. A text that consists only of these shows nothing.
_INVISIBLE: Final = re.compile(r"<[^<>]*>|&nbsp;|\s")
_NETWORK_NAMES: Final[Mapping[Network, str]] = {
    Network.FACEBOOK: "Facebook",
    Network.INSTAGRAM: "Instagram",
    Network.X: "X",
    Network.LINKEDIN: "LinkedIn",
    Network.YOUTUBE: "YouTube",
    Network.TIKTOK: "TikTok",
    Network.TELEGRAM: "Telegram",
    Network.WHATSAPP: "WhatsApp",
    Network.GITHUB: "GitHub",
    Network.MASTODON: "Mastodon",
    Network.BLUESKY: "Bluesky",
    Network.WEB: "Website",
}


def write_rows(row: Row) -> str:
    """Return the MJML of a block that is not a container; empty if the block shows nothing."""
    return _WRITERS[type(row.block)](row, row.block)


def _heading(row: Row, block: HeadingBlock) -> str:
    html = row.inline(block.html, LARGE_TEXT_CONTRAST)
    if _is_empty(html):
        return _empty(row, "heading")
    return row.text(row.heading(row.with_link_style(html), block.level), 24 if block.level == 1 else 20, 8)


def _image(row: Row, block: ImageBlock) -> str:
    if not block.src:
        row.warn("Choose an image. The block is not shown.")
        return ""
    if not block.alt.strip() and not block.decorative:
        row.warn(_NO_ALT, "IMAGE_WITHOUT_ALT")
    return row.picture(block.src, block.alt, href=block.href, width=block.width)


def _button(row: Row, block: ButtonBlock) -> str:
    if not block.label.strip():
        row.warn("The button has no label. It is not shown.")
        return ""
    if not block.href.strip():
        row.warn("The button has no link.", "EMPTY_LINK")
    color = row.theme.color(block.color, row.theme.brand.primary)
    text = row.theme.color(block.text_color, readable_on(color))
    if contrast(color, text) < TEXT_CONTRAST:
        row.warn("The label is hard to read on its button.", "LOW_CONTRAST")
    is_soft = block.color is not None and block.color in SOFT_BACKGROUNDS
    return row.action(block.label, block.href, color, text, is_wide=block.full_width, is_soft=is_soft)


def _divider(row: Row, block: DividerBlock) -> str:
    values = {
        "border-color": row.theme.color(block.color, row.theme.line),
        "border-width": f"{block.thickness or 1}px",
    }
    classes = () if block.color else ("mw-line",)
    return f"<mj-divider{row.shared(padding_of(block, 16, 16), *classes, **values)} />"


def _social(row: Row, block: SocialBlock) -> str:
    """Write icons with the names as alternative text, or names if recipients cannot load the icons."""
    links = [link for link in block.links if link.href.strip()]
    if not block.links:
        return _empty(row, "list of social links")
    if len(links) < len(block.links):
        row.warn("A social link has no address. It is not shown.")
    color = row.theme.link_on(row.background)
    style = f"color:{color};text-decoration:none;font-weight:600;white-space:nowrap"
    written = [
        f'<a class="mw-link" href="{inline_html.plain(link.href)}" style="{style}">{_network(row, link.network)}</a>'
        for link in links
    ]
    align = {} if block.align else {"align": "center"}
    between = " &nbsp; " if row.theme.has_icons else " &nbsp;·&nbsp; "
    return row.text(between.join(written), 12, 12, font_size="14px", **align) if written else ""


def _network(row: Row, network: Network) -> str:
    name = _NETWORK_NAMES[network]
    if not row.theme.has_icons:
        return name
    style = "border:0;vertical-align:middle;font-size:14px"
    return f'<img src="{icon_name(network)}" alt="{name}" width="32" height="32" style="{style}" />'


def _video(row: Row, block: VideoBlock) -> str:
    if not block.href.strip():
        row.warn("The video has no link. It is not shown.")
        return ""
    watch = f"▶&nbsp; {inline_html.plain(block.alt) or _watch(row.locale)}"
    href = inline_html.plain(block.href)
    style = f"color:{row.theme.link_on(row.background)};text-decoration:none;font-weight:600"
    caption = f'<a class="mw-link" href="{href}" style="{style}">{watch}</a>'
    align = {} if block.align else {"align": "center"}
    if not block.thumbnail:
        row.warn("Choose a picture for the video. Only its link is shown.")
        return row.text(caption, 8, 8, **align)
    alt = block.alt or _watch(row.locale)
    picture = row.picture(block.thumbnail, alt, href=block.href, around=(8, 4))
    return picture + row.text(caption, 4, 12, **align)


def _quote(row: Row, block: QuoteBlock) -> str:
    html = row.paragraphs(block.html)
    if _is_empty(html):
        return _empty(row, "quote")
    cite = ""
    if block.cite:
        style = f"margin:8px 0 0;font-size:14px;color:{row.theme.muted_on(row.background)}"
        cite = f'<p class="mw-muted" style="{style}">{inline_html.plain(block.cite)}</p>'
    accent = row.theme.brand.primary
    start = row.theme.start
    cell = f"border-{start}:3px solid {accent};padding:4px 0;padding-{start}:20px;font-size:18px;line-height:1.55"
    table = (
        '<table role="presentation" width="100%" border="0" cellpadding="0" cellspacing="0"><tr>'
        f'<td style="{cell}">{html}{cite}</td></tr></table>'
    )
    return row.text(table, 12, 12)


def _card(row: Row, block: CardBlock) -> str:
    """Write a card.

    Its image, title and label have the same link, so the text part shows the address once, after the last of them.
    """
    title = inline_html.plain(block.title)
    href = (block.href or "").strip()
    if href and title:
        style = f"color:{row.theme.text_on(row.background)};text-decoration:none"
        rel = f' rel="{REPEATED}"' if block.label else ""
        title = f'<a{rel} href="{inline_html.plain(href)}" style="{style}">{title}</a>'
    parts: list[str] = []
    if block.image:
        parts.append(_card_image(row, block, href))
    words = row.heading(title, 3) if title.strip() else ""
    if block.html:
        words += f'<div style="margin:8px 0 0">{row.paragraphs(block.html)}</div>'
    if words:
        parts.append(row.text(words, 8, 4 if block.label else 12))
    if block.label and href:
        link = f"color:{row.theme.link_on(row.background)};text-decoration:none;font-weight:600"
        address, label = inline_html.plain(href), inline_html.plain(block.label)
        arrow = "←" if row.theme.is_right_to_left else "→"
        label = f'<a class="mw-link" href="{address}" style="{link}">{label} {arrow}</a>'
        parts.append(row.text(label, 4, 16))
    elif block.label:
        row.warn("The card has a label and no link. The label is not shown.")
    return "".join(parts) or _empty(row, "card")


def _card_image(row: Row, block: CardBlock, href: str) -> str:
    """Write the image of a card. If its alternative text adds nothing to the title or label, it is decoration."""
    alt = (block.alt or "").strip()
    alt = "" if alt == block.title.strip() else alt
    is_alone = not block.title.strip() and not (block.label and href)
    if not alt and is_alone:
        row.warn(_NO_ALT, "IMAGE_WITHOUT_ALT")
    rel = "" if is_alone else REPEATED if alt else REPEATED_IMAGE
    return row.picture(block.image or "", alt, href=href, around=(12, 4), default=row.theme.start, rel=rel)


def _header(row: Row, block: HeaderBlock) -> str:
    brand = row.theme.brand
    logo, name = block.logo or brand.logo_url, block.alt if block.alt is not None else brand.name
    href = block.href or brand.website
    if logo:
        if not name.strip():
            row.warn("The logo has no alternative text: set the name of the brand.")
        return row.picture(logo, name, href=href, width=brand.logo_width, around=(28, 12), default=row.theme.start)
    if not name.strip():
        row.warn("The header is empty.", "EMPTY_HEADER")
        return ""
    style = f"color:{row.theme.text_on(row.background)};text-decoration:none"
    words = inline_html.plain(name)
    words = f'<a href="{inline_html.plain(href)}" style="{style}">{words}</a>' if href else words
    return row.text(words, 28, 12, font_size="20px", font_weight="700", font_family=row.theme.heading_font)


def _footer(row: Row, block: FooterBlock) -> str:
    color = row.theme.muted_on(row.background)
    brand = row.theme.brand
    own = block.html if block.html is not None else brand.footer_html
    address = inline_html.plain(brand.postal_address).replace("\n", "<br>")
    address = f'<span class="{POSTAL_ADDRESS_CLASS}">{address}</span>' if address else "{{ postal_address }}"
    lines = [row.paragraphs(own) if own.strip() else "", address]
    if not block.transactional:
        labels = footer_labels(row.locale)
        style = f"color:{color};text-decoration:underline"
        lines.append(
            f'<a href="{{{{ {UNSUBSCRIBE} }}}}" style="{style}">{labels.unsubscribe}</a> &nbsp;·&nbsp; '
            f'<a href="{{{{ preferences_url }}}}" style="{style}">{labels.preferences}</a>'
        )
    html = "".join(f'<div style="margin:0 0 8px">{line}</div>' for line in lines if line)
    values: dict[str, Any] = {"font_size": "13px", "color": color}
    if block.align is None:
        values["align"] = "center"
    return row.text(html, 24, 32, **values)


def _slot(row: Row, block: SlotBlock) -> str:
    value = block.value
    if not value.strip():
        return _empty(row, "field")
    if block.kind == "image":
        return row.picture(value, block.alt or block.label)
    if block.kind == "link":
        primary = row.theme.brand.primary
        return row.action(block.label or value, value, primary, readable_on(primary))
    return row.text(row.paragraphs(value) if block.kind == "richText" else inline_html.plain(value), 8, 8)


def _text(row: Row, block: TextBlock) -> str:
    html = row.paragraphs(block.html)
    return _empty(row, "text") if _is_empty(html) else row.text(html, 8, 8)


def _html(row: Row, block: HtmlBlock) -> str:
    html = inline_html.raw(block.html, row.warn)
    return row.text(html, 8, 8) if html.strip() else _empty(row, "HTML")


def _spacer(row: Row, block: SpacerBlock) -> str:
    return f'<mj-spacer height="{block.height}px"{row.shared(())} />'


def _is_empty(html: str) -> bool:
    return not _INVISIBLE.sub("", html)


def _empty(row: Row, what: str) -> str:
    """Warn that the block shows nothing, and return its rows: none."""
    row.warn(f"The {what} is empty, so the block is not shown.", "EMPTY_BLOCK")
    return ""


def _watch(locale: str) -> str:
    language = locale.partition("-")[0].lower()
    return {"ru": "Смотреть видео", "pt": "Ver o vídeo"}.get(language, "Watch the video")


_WRITERS: Final[Mapping[type[Block], Callable[[Row, Any], str]]] = {
    HeadingBlock: _heading,
    TextBlock: _text,
    ImageBlock: _image,
    ButtonBlock: _button,
    DividerBlock: _divider,
    SpacerBlock: _spacer,
    SocialBlock: _social,
    VideoBlock: _video,
    QuoteBlock: _quote,
    HtmlBlock: _html,
    CardBlock: _card,
    HeaderBlock: _header,
    FooterBlock: _footer,
    SlotBlock: _slot,
}
