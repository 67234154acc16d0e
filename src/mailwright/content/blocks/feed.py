"""Read RSS, Atom and JSON feeds as they are on the web: with wrong encodings, HTML in titles and relative links.

Documents with an internal DTD are refused, because entities could exhaust memory or read files.
"""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from html.entities import html5
from typing import Any, Final
from urllib.parse import urljoin
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import orjson

from mailwright.content.text import from_html
from mailwright.domain.encoded_words import decode_charset
from mailwright.domain.errors import InvalidInput
from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext

MAX_FEED_BYTES: Final = 4 * 1024 * 1024
_MAX_TITLE: Final = 300
# An item without a title gets the beginning of its text.
_MAX_BORROWED_TITLE: Final = 80
_MAX_LEVELS: Final = 50
_MAX_ELEMENTS: Final = 200_000
_NOT_A_FEED: Final = lazy_gettext("This is not an RSS or Atom feed: choose the address of the feed itself.")
_GZIP: Final = b"\x1f\x8b"
_BASE: Final = "http://www.w3.org/XML/1998/namespace base"
_ABOUT: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns# about"
# Extensions that use the names of core elements for something else.
_EXTENSIONS: Final = ("http://search.yahoo.com/mrss", "http://www.itunes.com", "urn:undeclared")
# The namespaces of prefixes that feeds use without declaring them. Elements of others are ignored.
_UNDECLARED: Final = "urn:undeclared"
_NAMESPACES: Final = {
    "atom": "http://www.w3.org/2005/Atom",
    "content": "http://purl.org/rss/1.0/modules/content/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "itunes": "http://www.itunes.com/dtds/podcast-1.0.dtd",
    "media": "http://search.yahoo.com/mrss/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
}
_MAX_PREFIXES: Final = 50
_MAX_PREAMBLE: Final = 20_000
_BEGINNING: Final = re.compile(r"<\?xml\b|<(?:rss|feed|(?:\w{1,20}:)?RDF)\b")
_TAG: Final = re.compile(r"<[A-Za-z_][^<>]{0,4000}>")
_PREFIX: Final = re.compile(r"(?:^<|\s)([A-Za-z_][\w.-]{0,40}):[A-Za-z_]")
_VALUE: Final = re.compile(r"""=\s*(?:"[^"]*"|'[^']*')""")
_DECLARED_PREFIX: Final = re.compile(r"\sxmlns:([A-Za-z_][\w.-]{0,40})\s*=")
_ROOT: Final = re.compile(r"<[A-Za-z_][\w.:-]*")
_TEXT_AFTER_THE_END: Final = expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]
_DECLARED: Final = re.compile(rb"""<\?xml[^>]{0,100}?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
# Possessive and atomic groups keep the time linear, whatever a feed contains.
_CDATA: Final = re.compile(r"(<!\[CDATA\[(?>.*?(?:\]\]>|\Z)))", re.DOTALL)
_AMPERSAND: Final = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)(\w{1,32};)?")
_PAGE: Final = re.compile(r"(?><!--.*?-->\s*)*+<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_LINK_TO_FEED: Final = re.compile(
    r"<link\b[^<>]{0,1000}?application/(?:rss|atom|feed)\+(?:xml|json)[^<>]{0,1000}>", re.IGNORECASE
)
_HREF: Final = re.compile(r"""\bhref\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)
_INLINE_TAG: Final = re.compile(
    r"</?(?:a|abbr|b|br|cite|code|del|em|font|h[1-6]|i|img|ins|mark|p|q|s|small|span|strong|sub|sup|tt|u|wbr)\b[^<>]*>",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});", re.IGNORECASE)


class InvalidFeed(InvalidInput):
    """This is not an RSS or Atom feed."""


class FeedUnreachable(InvalidInput):
    """The feed cannot be read now."""


@dataclass(frozen=True, slots=True)
class FeedItem:
    title: str
    link: str = ""
    summary_html: str = ""
    image: str = ""
    guid: str = ""  # The ID that the feed gives to the item.


def read_feed(source: bytes, url: str = "") -> list[FeedItem]:
    """Return the items of an RSS, Atom or JSON feed, in its order. Relative links belong to the URL."""
    source = _inflate(source)
    if len(source) > MAX_FEED_BYTES:
        raise InvalidFeed(
            "The feed is larger than {megabytes} MB.", field="url", megabytes=MAX_FEED_BYTES // 1024 // 1024
        )
    text = _CONTROL.sub("", _decode(source)).lstrip("\ufeff \t\r\n")
    items = list(_json_items(text, url)) if text.startswith("{") else list(_xml_items(text, url))
    return [item for item in items if item.title]


def _inflate(source: bytes) -> bytes:
    """Decompress a response that a server compressed without being asked."""
    if not source.startswith(_GZIP):
        return source
    try:
        return zlib.decompressobj(wbits=31).decompress(source, MAX_FEED_BYTES + 1)
    except zlib.error as error:
        raise InvalidFeed("The feed is compressed, and damaged.", field="url") from error


def _decode(source: bytes) -> str:
    """Decode by the content first, because declarations are often wrong: text is rarely UTF-8 by accident."""
    if source.startswith((b"\xff\xfe", b"\xfe\xff")):
        return source.decode("utf-16", "replace")
    if source.startswith((b"<\0", b"\0<")):
        return source.decode("utf-16-le" if source.startswith(b"<") else "utf-16-be", "replace")
    declared = found[1].decode() if (found := _DECLARED.match(source.lstrip())) else "utf-8"
    # Only encodings such as ISO-2022-JP use the escape character.
    order = (declared, "utf-8") if b"\x1b" in source else ("utf-8", declared)
    texts = (decode_charset(source, each) for each in order)
    return next((text for text in texts if text is not None), source.decode("windows-1252", "replace"))


# JSON Feed.


def _json_items(text: str, url: str) -> Iterator[FeedItem]:
    try:
        document = load_json(text)
    except orjson.JSONDecodeError as error:
        raise InvalidFeed("The feed is not valid JSON: {error}.", field="url", error=error) from error
    items = document.get("items")
    if "jsonfeed.org" not in str(document.get("version")) or not isinstance(items, list):
        raise InvalidFeed(_NOT_A_FEED, field="url")
    for each in items:
        if isinstance(each, dict):
            yield _json_item(each, url)


def _json_item(fields: Mapping[str, Any], url: str) -> FeedItem:
    def text(*names: str) -> str:
        found = next((fields[name] for name in names if fields.get(name)), "")
        return _CONTROL.sub("", str(found)).strip() if isinstance(found, str | int) else ""

    return _make_item(
        title=text("title"),
        link=text("url", "external_url"),
        summary=text("content_html", "summary", "content_text"),
        image=text("image", "banner_image"),
        guid=text("id"),
        base=url,
    )


# RSS and Atom.


def _xml_items(text: str, url: str) -> Iterator[FeedItem]:
    if _PAGE.match(text):
        raise InvalidFeed(_page_refusal(text, url), field="url")
    root = _parse(text)
    elements = [element for element in root.iter() if _name(element) in ("item", "entry")]
    if not elements and _name(root) not in ("rss", "feed", "RDF"):
        raise InvalidFeed(_NOT_A_FEED, field="url")
    base = _absolute(url, root.get(_BASE, "")) or url
    for element in elements:
        yield _item(element, base)


def _page_refusal(text: str, url: str) -> str:
    """Return why a web page is refused, with the URL of its feed if the page has one."""
    link = _LINK_TO_FEED.search(text)
    address = _HREF.search(link[0]) if link else None
    if address is None:
        return _NOT_A_FEED
    if not (feed := _absolute(url, unescape(address[1]))[:500]):
        return _NOT_A_FEED
    return lazy_gettext("This is not an RSS or Atom feed, but a web page. Its feed is {feed}", feed=feed)


def _parse(text: str) -> Element:
    """Parse a document.

    If it is not valid, ignore what a program printed before it, such as a warning of PHP, declare the prefixes that it
    uses without declaring them, and correct entities of HTML and a bare &.
    """
    try:
        return _Reader().read(text)
    except expat.ExpatError:
        begin = _BEGINNING.search(text[:_MAX_PREAMBLE])
        pieces = _CDATA.split(text[begin.start() if begin else 0 :])
        pieces[::2] = [_AMPERSAND.sub(_write_reference, piece) for piece in pieces[::2]]
        try:
            return _Reader(ends_with_root=True).read(_declare_prefixes(pieces))
        except expat.ExpatError as error:
            raise InvalidFeed("The feed is not valid XML: {error}.", field="url", error=error) from error


def _declare_prefixes(pieces: Sequence[str]) -> str:
    """Return the document with declarations for all its prefixes in the root element."""
    tags = [tag for piece in pieces[::2] for tag in _TAG.findall(piece)]
    used = {prefix for tag in tags for prefix in _PREFIX.findall(_VALUE.sub('=""', tag))}
    declared = {prefix for tag in tags for prefix in _DECLARED_PREFIX.findall(tag)}
    missing = sorted(used - declared - {"xml", "xmlns"})[:_MAX_PREFIXES]
    added = "".join(f' xmlns:{each}="{_NAMESPACES.get(each.lower(), _UNDECLARED)}"' for each in missing)
    return _ROOT.sub(lambda found: found[0] + added, "".join(pieces), count=1)


def _write_reference(match: re.Match[str]) -> str:
    name = match[1] or ""
    return html5[name] if name in html5 and html5[name] not in "<&" else f"&amp;{name}"


class _Reader:
    """Builds a tree with a parser that refuses an internal DTD and loads no external one."""

    def __init__(self, *, ends_with_root: bool = False) -> None:
        """`ends_with_root`: ignore text after the root element."""
        self._ends_with_root = ends_with_root
        self._builder = TreeBuilder()
        self._level = self._elements = 0

    def read(self, text: str) -> Element:
        parser = expat.ParserCreate("utf-8", " ")  # Whatever the document declares.
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._builder.data
        parser.StartDoctypeDeclHandler = self._begin_doctype
        parser.EntityDeclHandler = self._refuse
        parser.SkippedEntityHandler = self._skip
        try:
            parser.Parse(text.encode("utf-8", "replace"), True)
        except expat.ExpatError as error:
            if not self._ends_with_root or error.code != _TEXT_AFTER_THE_END:
                raise
        return self._builder.close()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._level += 1
        self._elements += 1
        if self._level > _MAX_LEVELS or self._elements > _MAX_ELEMENTS:
            raise InvalidFeed("The feed has too many elements.", field="url")
        self._builder.start(name, attributes)

    def _end(self, name: str) -> None:
        self._level -= 1
        self._builder.end(name)

    def _begin_doctype(self, _name: str, _system: str | None, _public: str | None, has_internal_subset: int) -> None:
        """Allow the reference to a DTD that every RSS 0.91 feed has."""
        if has_internal_subset:
            self._refuse()

    def _refuse(self, *_: object) -> None:
        raise InvalidFeed("The feed has a DTD, which is not allowed.", field="url")

    def _skip(self, name: str, is_parameter: int) -> None:
        """Resolve an entity of HTML that the parser skipped, because it does not read the DTD."""
        if not is_parameter and self._level:
            self._builder.data(html5.get(f"{name};", ""))


def _item(element: Element, base: str) -> FeedItem:
    fields = {_name(child): child for child in reversed(element) if not child.tag.startswith(_EXTENSIONS)}
    summary = next((fields[name] for name in ("description", "summary", "encoded", "content") if name in fields), None)
    guid = fields.get("guid", fields.get("id"))
    permalink = _text(guid) if guid is not None and guid.get("isPermaLink", "true") == "true" else ""
    return _make_item(
        title=_text(fields.get("title")),
        link=_link(element) or (permalink if permalink.startswith(("https://", "http://")) else ""),
        summary=_text(summary),
        image=next(_images(element), ""),
        guid=_text(guid) or element.get(_ABOUT, ""),
        base=_absolute(base, element.get(_BASE, "")) or base,
    )


def _make_item(*, title: str, link: str, summary: str, image: str, guid: str, base: str) -> FeedItem:
    plain = _plain_title(title) or " ".join(from_html(summary).split())[:_MAX_BORROWED_TITLE]
    return FeedItem(plain[:_MAX_TITLE], _absolute(base, link), summary, _absolute(base, image), guid)


def _plain_title(title: str) -> str:
    """Return a title without the tags and references of HTML that many feeds contain."""
    if _INLINE_TAG.search(title) or _REFERENCE.search(title):
        title = unescape(_INLINE_TAG.sub("", title))
    return " ".join(title.split())


def _absolute(base: str, address: str) -> str:
    if not address:
        return ""
    try:
        return urljoin(base, address)
    except ValueError:
        return ""


def _link(element: Element) -> str:
    """Return the text of an RSS link, or the address of an Atom link to the page."""
    links = [child for child in element if _name(child) == "link"]
    for link in links:
        if link.get("rel", "alternate") == "alternate" and (address := link.get("href") or link.text):
            return address.strip()
    return ""


def _images(element: Element) -> Iterator[str]:
    for child in element.iter():
        kind = child.get("type", "") + child.get("medium", "")
        is_picture = _name(child) == "thumbnail" or (_name(child) in ("content", "enclosure") and "image" in kind)
        address = child.get("url") or child.get("href")
        if is_picture and address:
            yield address.strip()


def _text(element: Element | None) -> str:
    return "".join(element.itertext()).strip() if element is not None else ""


def _name(element: Element) -> str:
    """Return the name without its namespace."""
    return element.tag.rpartition(" ")[2]
