"""Read RSS and Atom feeds. Documents with a DTD are refused, because entities could exhaust memory or read files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from mailwright.domain.errors import InvalidInput

MAX_FEED_BYTES: Final = 4 * 1024 * 1024
_MAX_LEVELS: Final = 50
_MAX_ELEMENTS: Final = 200_000


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


def read_feed(source: bytes) -> list[FeedItem]:
    """Return the items of an RSS or Atom feed, in its order."""
    if len(source) > MAX_FEED_BYTES:
        raise InvalidFeed(f"The feed is larger than {MAX_FEED_BYTES // 1024 // 1024} MB.", field="url")
    root = _Reader().read(source)
    items = [_item(element) for element in root.iter() if _name(element) in ("item", "entry")]
    if not items and _name(root) not in ("rss", "feed", "RDF"):
        raise InvalidFeed("This is not an RSS or Atom feed: choose the address of the feed itself.", field="url")
    return [item for item in items if item.title]


class _Reader:
    """Builds a tree with a parser that refuses a DTD."""

    def __init__(self) -> None:
        self._builder = TreeBuilder()
        self._level = self._elements = 0

    def read(self, source: bytes) -> Element:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._builder.data
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        try:
            parser.Parse(source, True)
        except (expat.ExpatError, ValueError) as error:
            raise InvalidFeed(f"The feed is not valid XML: {error}.", field="url") from error
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

    def _refuse(self, *_: object) -> None:
        raise InvalidFeed("The feed has a DTD, which is not allowed.", field="url")


def _item(element: Element) -> FeedItem:
    fields = {name: child for child in reversed(element) if (name := _name(child))}
    summary = next((fields[name] for name in ("description", "summary", "encoded", "content") if name in fields), None)
    return FeedItem(
        title=" ".join(_text(fields.get("title")).split())[:300],
        link=_link(element),
        summary_html=_text(summary),
        image=next(_images(element), ""),
        guid=_text(fields.get("guid", fields.get("id"))),
    )


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
