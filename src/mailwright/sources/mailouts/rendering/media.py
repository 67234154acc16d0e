"""Render images, files and links. Files and pages that recipients could not open are shown by name only."""

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlsplit

from mailwright.domain.translation import lazy_gettext
from mailwright.sources.mailouts.notion.pages import NotionBlock
from mailwright.sources.mailouts.rendering.block_renderer import NOTHING, BlockRenderer, Piece, mapping
from mailwright.sources.mailouts.rendering.cards import captioned, card
from mailwright.sources.mailouts.rendering.document import WIDTH
from mailwright.sources.mailouts.rendering.images import expiring_url
from mailwright.sources.mailouts.rendering.rich_text import ImageCopy, clean, is_private, safe_url, shown
from mailwright.sources.mailouts.rendering.styles import MUTED

_FILES = {"video": ("🎬", "Video"), "audio": ("🎧", "Audio"), "pdf": ("📕", "PDF"), "file": ("📎", "File")}


def image(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    caption = page.words(block, "caption")
    said = " ".join(caption.text.split())
    expiring = expiring_url(block.content)
    shown_image = page.images.get(expiring) if expiring is not None else _external_image(block.content)
    if shown_image is None:
        page.report(block, lazy_gettext("the image could not be copied from Notion"), "content_image_not_copied")
        named = f"[Image: {said}]" if said else "[Image]"
        return Piece(f'<p class="mw-muted" style="margin:0 0 16px;color:{MUTED}">{shown(named)}</p>', named)
    # Outlook supports this attribute, but not max-width.
    width = f' width="{min(shown_image.width, WIDTH)}"' if shown_image.width else ""
    style = "display:block;max-width:100%;height:auto;border:0;border-radius:6px"
    html = (
        f'<div style="margin:0 0 {4 if caption.html else 16}px">'
        f'<img src="{escape(shown_image.url)}" alt="{escape(said)}"{width} style="{style}"></div>{captioned(caption)}'
    )
    return Piece(html, f"[Image: {said}] {shown_image.url}" if said else f"[Image] {shown_image.url}")


def file(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    """Render a link, or only the name if the address expires, and report that."""
    sign, spoken = _FILES[block.type]
    caption = page.words(block, "caption")
    url = safe_url(_url(block.content))
    name = clean(block.content.get("name")) or (_last_part(url) if url else "")
    if expiring_url(block.content) is not None or url is None:
        page.report(
            block,
            lazy_gettext("recipients cannot open files stored in Notion: link to a copy elsewhere"),
            "content_file_expires",
        )
        url = None
    title = " ".join((caption.text or name).split()) or spoken
    beside = name if name != title else ""
    text = f"{spoken}: {title}" if title != spoken else spoken
    return Piece(card(sign, title, url, beside), f"{text} {url}" if url else text)


def link(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    caption = page.words(block, "caption")
    url = safe_url(block.content.get("url"))
    title = " ".join(caption.text.split())
    if url is None:
        reason = lazy_gettext("its address is missing, or recipients cannot open it")
        page.report(block, reason, "content_link_dropped")
        return Piece(card("🔗", title, None, ""), title) if title else NOTHING
    return Piece(card("🔗", title or _spoken(url), url, ""), f"{title} {url}".strip())


def linked_page(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    """Render a link only if the page is published: others require a sign-in."""
    title = clean(block.content.get("title"))
    url = safe_url(block.content.get("public_url"))
    if url is None or is_private(url):
        if block.missing is None:
            page.report(block, lazy_gettext("it links to a page that is not published"), "content_link_dropped")
        return Piece(card("📄", title, None, ""), title) if title else NOTHING
    return Piece(card("📄", title or _spoken(url), url, ""), f"{title} {url}".strip())


def other_page(page: BlockRenderer, block: NotionBlock, _depth: int) -> Piece:
    """Render the title only: the content belongs to another page."""
    title = clean(block.content.get("title"))
    page.report(
        block, lazy_gettext("only its title is shown: its content is not part of this page"), "content_not_included"
    )
    return Piece(card("📄" if block.type == "child_page" else "🗂", title, None, ""), title) if title else NOTHING


def _url(content: Mapping[str, Any]) -> object:
    return mapping(content, str(content.get("type"))).get("url")


def _external_image(content: Mapping[str, Any]) -> ImageCopy | None:
    found = safe_url(_url(content))
    return ImageCopy(found) if found is not None and found.startswith(("http://", "https://")) else None


def _spoken(url: str) -> str:
    """Return a short form of the address for display."""
    return url.removeprefix("https://").removeprefix("http://").removeprefix("www.").rstrip("/")


def _last_part(url: str) -> str:
    return clean(urlsplit(url).path.rstrip("/").rpartition("/")[2])
