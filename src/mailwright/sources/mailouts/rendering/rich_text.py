"""Render Notion's rich text as HTML and text, with annotations, links, mentions and equations."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from html import escape
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.sources.mailouts.rendering.styles import LINK, MONOSPACE, SHADE, coloured

SCHEMES = ("http", "https", "mailto", "tel")
# Hosts whose pages require a sign-in, so that recipients cannot open links to them.
PRIVATE_HOSTS = ("notion.so", "app.notion.com")

# Control characters, including the overrides that reverse the direction of text.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\u202d\u202e\ud800-\udfff]")
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


@dataclass(frozen=True, slots=True)
class RichText:
    html: str = ""
    text: str = ""

    @property
    def are_blank(self) -> bool:
        return not self.text.strip()


@dataclass(frozen=True, slots=True)
class ImageCopy:
    """A permanent copy of an image, and its width if known."""

    url: str
    width: int | None = None


@dataclass(frozen=True, slots=True)
class RichTextContext:
    """The parts of a page that rich text needs: image copies, and a function to report issues."""

    images: Mapping[str, ImageCopy] = field(default_factory=dict)
    report: Callable[[str, str], None] = lambda _code, _reason: None


def words(rich_text: object, around: RichTextContext) -> RichText:
    """Render rich text. Pieces of an unknown type show their plain text."""
    pieces = [piece for piece in rich_text if isinstance(piece, Mapping)] if isinstance(rich_text, Sequence) else []
    found = [_piece(piece, around) for piece in pieces]
    # Notion splits a link whose annotations change; join its pieces into one link.
    runs = [_run(list(run), url) for url, run in groupby(found, key=lambda each: each.url)]
    return RichText("".join(each.html for each in runs), "".join(each.text for each in runs))


def shown(text: object) -> str:
    """Return the text as HTML, with line breaks and without control characters."""
    return escape(clean(text)).replace("\n", "<br>\n")


def clean(text: object) -> str:
    return _CONTROLS.sub("", str(text if text is not None else "").replace("\r\n", "\n").replace("\r", "\n"))


def safe_url(url: object) -> str | None:
    """Return the address if its scheme is allowed, else None."""
    if not isinstance(url, str) or not (bare := _CONTROLS.sub("", url).strip()) or re.search(r"\s", bare):
        return None
    try:
        parts = urlsplit(bare)
    except ValueError:
        return None
    if parts.scheme.lower() not in SCHEMES or (parts.scheme.lower().startswith("http") and not parts.hostname):
        return None
    return bare


def is_private(url: str) -> bool:
    host = (urlsplit(url).hostname or "").removeprefix("www.")
    return host in PRIVATE_HOSTS


def linked(html: str, url: str, style: str = "text-decoration:underline") -> str:
    return f'<a class="mw-link" href="{escape(url)}" style="color:{LINK};{style}">{html}</a>'


@dataclass(frozen=True, slots=True)
class _LinkedText:
    """A rendered piece and the address it links to."""

    html: str
    text: str
    url: str | None = None


def _run(run: Sequence[_LinkedText], url: str | None) -> RichText:
    html, text = "".join(each.html for each in run), "".join(each.text for each in run)
    if url is None or not html:
        return RichText(html, text)
    bare = url.removeprefix("mailto:").removeprefix("tel:")
    # Add the address only if the text does not contain it.
    is_said = text.strip() in ("", url, bare, url.rstrip("/"))
    return RichText(linked(html, url), text if is_said else f"{text.rstrip()} ({bare}){text[len(text.rstrip()) :]}")


def _piece(piece: Mapping[str, Any], around: RichTextContext) -> _LinkedText:
    match piece.get("type"):
        case "equation":
            expression = clean(_mapping(piece, "equation").get("expression") or piece.get("plain_text"))
            return _annotate(RichText(_code(escape(expression)), expression), piece, None)
        case "mention":
            return _mention(piece, around)
        case _:
            content = _mapping(piece, "text").get("content")
            plain = clean(piece.get("plain_text") if piece.get("plain_text") is not None else content)
            link = _mapping(_mapping(piece, "text"), "link").get("url") or piece.get("href")
            return _annotate(RichText(shown(plain), plain), piece, _allowed(link, plain, around))


def _mention(piece: Mapping[str, Any], around: RichTextContext) -> _LinkedText:
    mention = _mapping(piece, "mention")
    kind = str(mention.get("type"))
    about = _mapping(mention, kind)
    plain = clean(piece.get("plain_text"))
    match kind:
        case "date":
            date = _date_range(about) or plain
            return _annotate(RichText(f'<span style="white-space:nowrap">{shown(date)}</span>', date), piece, None)
        case "link_preview" | "link_mention":
            url = about.get("url") or about.get("href") or piece.get("href")
            title = clean(about.get("title") or plain or url)
            return _annotate(RichText(shown(title), title), piece, _allowed(url, title, around))
        case "custom_emoji":
            return _annotate(_emoji(about, plain, around), piece, None)
        case "page" | "database" | "data_source":
            # Link to published pages only: others require a sign-in.
            url = safe_url(piece.get("href"))
            return _annotate(RichText(shown(plain), plain), piece, None if url is None or is_private(url) else url)
        case _:  # A person, a template's `@Today`, or an unknown type.
            return _annotate(RichText(shown(plain), plain), piece, None)


def _emoji(about: Mapping[str, Any], plain: str, around: RichTextContext) -> RichText:
    name = clean(about.get("name")).strip(":")
    spoken = f":{name}:" if name else plain
    copy = around.images.get(str(about.get("url")))
    if copy is None:
        return RichText(shown(spoken), spoken)
    style = "height:1.2em;width:1.2em;vertical-align:-0.2em;border:0"
    return RichText(
        f'<img src="{escape(copy.url)}" alt="{escape(spoken)}" width="20" height="20" style="{style}">', spoken
    )


def _date_range(about: Mapping[str, Any]) -> str:
    """Format a date: `2027-03-01`, `2027-03-01 09:30 (+01:00)` or `2027-03-01 → 2027-03-03`."""
    ends = [_format_date(about.get(name), about.get("time_zone")) for name in ("start", "end")]
    return " → ".join(end for end in ends if end)


def _format_date(value: object, zone: object) -> str | None:
    found = _DATE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    day, time, offset = found.groups()
    if time is None:
        return str(day)
    named = zone if isinstance(zone, str) else {"Z": "UTC", "+00:00": "UTC", None: ""}.get(offset, offset)
    return f"{day} {time}" + (f" ({named})" if named else "")


def _allowed(link: object, plain: str, around: RichTextContext) -> str | None:
    if link is None or link == "":
        return None
    url = safe_url(link)
    if url is None:
        around.report(
            "content_link_dropped",
            lazy_gettext("the link of {text} does not work outside Notion", text=repr(plain.strip()[:80])),
        )
    return url


def _annotate(words: RichText, piece: Mapping[str, Any], url: str | None) -> _LinkedText:
    """Apply annotations from the inside out: code, bold, italic, strikethrough, underline, colour."""
    annotations = _mapping(piece, "annotations")
    html = words.html
    if not html:
        return _LinkedText(html, words.text)
    if annotations.get("code") is True and piece.get("type") != "equation":
        html = _code(html)
    for name, tag in (("bold", "strong"), ("italic", "em"), ("strikethrough", "s"), ("underline", "u")):
        if annotations.get(name) is True:
            html = f"<{tag}>{html}</{tag}>"
    if (colour := coloured(annotations.get("color"))) is not None:
        html = f'<span class="{colour[0]}" style="{colour[1]}">{html}</span>'
    return _LinkedText(html, words.text, url)


def _code(html: str) -> str:
    style = f"font-family:{MONOSPACE};font-size:0.9em;background-color:{SHADE};padding:2px 4px;border-radius:3px"
    return f'<code class="mw-shade" style="{style}">{html}</code>'


def _mapping(outer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = outer.get(name)
    return found if isinstance(found, Mapping) else {}
