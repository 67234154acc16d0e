"""Turn Markdown, existing or pasted HTML, and items of feeds into blocks.

HTML from Word and Google Docs keeps its headings, paragraphs, lists, links, images and emphasis. Scripts, styles and
tracking images are dropped. Content without a matching block becomes text.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser, LexborNode

from mailwright.content import html as html_rules
from mailwright.content import text as plain_text
from mailwright.content.blocks.document import MAX_BLOCKS, InvalidDocument, is_allowed_url, is_variable
from mailwright.content.blocks.feed import FeedItem
from mailwright.content.blocks.foreign_code import as_text
from mailwright.content.personal_links import replace_personal_links

JsonBlock = dict[str, Any]

MAX_SUMMARY: Final = 220
# The parser takes 20 µs for each mark.
MAX_MARKDOWN_MARKS: Final = 20_000
_MARKDOWN_MARKS: Final = "[]*_`~!<\\&"
# Deeper elements become plain text, because the walk is recursive.
_MAX_LEVELS: Final = 60
_MAX_TRACKER_PIXELS: Final = 3
_DROPPED: Final = frozenset(
    ["head", "style", "script", "noscript", "template", "title", "meta", "link", "xml", "object", "svg", "math", "form"]
)
_HEADINGS: Final = {"h1": 1, "h2": 2, "h3": 3, "h4": 3, "h5": 3, "h6": 3}
_INLINE: Final = frozenset(
    [
        "a",
        "abbr",
        "b",
        "cite",
        "code",
        "del",
        "em",
        "font",
        "i",
        "ins",
        "kbd",
        "mark",
        "s",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "u",
        "o:p",
    ]
)
_EMPHASIS: Final = {"b": "strong", "strong": "strong", "i": "em", "em": "em", "u": "u", "ins": "u"} | dict.fromkeys(
    ("s", "strike", "del"), "s"
)
# The beginning of a property, so that Word's mso-bidi-font-weight is not read as font-weight.
_PROPERTY: Final = r"(?<![\w-])"
_STYLES: Final = (
    ("strong", re.compile(_PROPERTY + r"font-weight\s*:\s*(?:bold|[6-9]00)", re.IGNORECASE)),
    ("em", re.compile(_PROPERTY + r"font-style\s*:\s*italic", re.IGNORECASE)),
    ("u", re.compile(r"text-decoration[^;]*:[^;]*underline", re.IGNORECASE)),
    ("s", re.compile(r"text-decoration[^;]*:[^;]*line-through", re.IGNORECASE)),
)
_NOT_BOLD: Final = re.compile(_PROPERTY + r"font-weight\s*:\s*(?:normal|[1-4]00)", re.IGNORECASE)
_NOT_ITALIC: Final = re.compile(_PROPERTY + r"font-style\s*:\s*normal", re.IGNORECASE)
_HIDDEN: Final = re.compile(r"display\s*:\s*none|mso-hide\s*:\s*all|visibility\s*:\s*hidden", re.IGNORECASE)
_LIST_MARKER: Final = re.compile(r"mso-list\s*:\s*ignore", re.IGNORECASE)
_WORD_LIST: Final = re.compile(r"MsoList|ListParagraph", re.IGNORECASE)
_BUTTON: Final = re.compile(r"background(?:-color)?\s*:\s*(?!transparent|none|inherit)", re.IGNORECASE)
_BUTTON_CLASS: Final = re.compile(r"\b(?:btn|button|cta)\b", re.IGNORECASE)
_VIDEO_HOST: Final = re.compile(r"(?:youtube(?:-nocookie)?\.com|youtu\.be|vimeo\.com)$")
_SPACES: Final = re.compile(r"[ \t\r\n\f]+")

_markdown = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])


def from_markdown(source: str) -> list[JsonBlock]:
    if sum(map(source.count, _MARKDOWN_MARKS)) > MAX_MARKDOWN_MARKS:
        raise InvalidDocument("The Markdown has too many brackets and other marks. Insert a part of it.")
    return from_html(_markdown.render(source))


def from_html(source: str) -> list[JsonBlock]:
    """Turn pasted or existing HTML into blocks with new ids. Personal links of a recipient become variables."""
    return _read_html(replace_personal_links(source))


def from_foreign_html(source: str) -> list[JsonBlock]:
    """Turn HTML that the user did not write into blocks. Template code in it is text."""
    return as_text(_read_html(source))


def _read_html(source: str) -> list[JsonBlock]:
    if len(source.encode("utf-8", "replace")) > html_rules.MAX_BYTES:
        raise InvalidDocument("The content is larger than {max_bytes} KB.", max_bytes=html_rules.MAX_BYTES // 1024)
    if html_rules.is_nested_too_deeply(source):
        raise InvalidDocument("The elements of the content are nested too deeply.")
    body = LexborHTMLParser(source).body
    reader = _HtmlReader()
    if body is not None:
        reader.read(body)
    return _numbered(reader.finish())


def from_feed_items(items: Sequence[FeedItem], limit: int = 10) -> list[JsonBlock]:
    """Turn the newest items of a feed into cards. Template code in them is text."""
    return as_text(_numbered([_card(item) for item in items[:limit]]))


def _card(item: FeedItem) -> JsonBlock:
    card: JsonBlock = {"type": "card", "title": item.title}
    summary = " ".join(plain_text.from_html(item.summary_html).split())
    if len(summary) > MAX_SUMMARY:
        summary = f"{summary[:MAX_SUMMARY].rsplit(' ', 1)[0]}…"
    if summary:
        card["html"] = f"<p>{escape(summary)}</p>"
    if item.link and is_allowed_url(item.link):
        card |= {"href": item.link, "label": "Read more"}
    if item.image and is_allowed_url(item.image):
        card |= {"image": item.image, "alt": item.title}
    return card


def _numbered(blocks: Sequence[JsonBlock]) -> list[JsonBlock]:
    if len(blocks) > MAX_BLOCKS:
        raise InvalidDocument(
            "The content has more than {max_blocks} blocks. Import a smaller part of it.", max_blocks=MAX_BLOCKS
        )
    return [{"id": f"n{number}", **block} for number, block in enumerate(blocks, 1)]


class _HtmlReader:
    """Collects blocks. Adjacent paragraphs and lists share one text block."""

    def __init__(self) -> None:
        self._blocks: list[JsonBlock] = []
        self._elements: list[str] = []  # Finished paragraphs and lists of the current text block.
        self._words = ""  # The current paragraph.
        self._items: list[str] = []  # The current list of paragraphs that Word shows as a list.
        self._list_tag = "ul"

    def finish(self) -> list[JsonBlock]:
        self._end_text()
        return self._blocks

    def read(self, node: LexborNode, level: int = 0) -> None:
        for child in node.iter(include_text=True):
            if child.is_text_node:
                self._words += escape(_SPACES.sub(" ", child.text_content or ""), quote=False)
            elif child.is_element_node and (child.tag or "") not in _DROPPED and not _is_hidden(child):
                self._read_element(child, (child.tag or "").lower(), level)

    def _read_element(self, node: LexborNode, tag: str, level: int) -> None:
        if level > _MAX_LEVELS:
            self._words += escape(node.text(), quote=False)
        elif tag in _HEADINGS or "MsoTitle" in (node.attributes.get("class") or ""):
            self._add_heading(node, tag)
        elif tag in ("ul", "ol"):
            self._end_paragraph()
            self._elements.append(_list(node, tag, level))
        elif tag in ("img", "br", "hr", "iframe"):
            self._read_single(node, tag)
        elif tag == "blockquote":
            self._add({"type": "quote", "html": _paragraphs(node, level)})
        elif tag == "table" and node.css_first("th") is not None:
            self._add({"type": "html", "html": node.html or ""})
        elif tag == "a" and self._add_link_block(node):
            return
        elif tag in _INLINE and node.css_first("img, p, div, h1, h2, h3, ul, ol, table") is None:
            self._words += _inline(node, level)
        elif tag == "p" and _WORD_LIST.search(node.attributes.get("class") or ""):
            self._add_word_item(node, level)
        else:
            self._end_paragraph()
            self.read(node, level + 1)
            self._end_paragraph()

    def _read_single(self, node: LexborNode, tag: str) -> None:
        """Read an element that has no content, such as an image or a line."""
        if tag == "img":
            self._add_image(node, None)
        elif tag == "br":
            self._words += "<br>"
        elif tag == "hr":
            self._add({"type": "divider"})
        else:
            self._add_video(node)

    def _add(self, block: JsonBlock) -> None:
        self._end_text()
        self._blocks.append(block)

    def _add_heading(self, node: LexborNode, tag: str) -> None:
        html = "".join(_inner(node, 0)).strip()
        if html:
            self._add({"type": "heading", "level": _HEADINGS.get(tag, 1), "html": html})
        for image in node.css("img"):
            self._add_image(image, None)

    def _add_image(self, node: LexborNode, href: str | None) -> None:
        src = (node.attributes.get("src") or "").strip()
        if not src or not is_allowed_url(src) or _is_tracker(node):
            return
        block: JsonBlock = {"type": "image", "src": src, "alt": " ".join((node.attributes.get("alt") or "").split())}
        if href:
            block["href"] = href
        width = (node.attributes.get("width") or "").removesuffix("px")
        if width.isascii() and width.isdigit() and 0 < int(width) <= 2_000:
            block["width"] = int(width)
        self._add(block)

    def _add_link_block(self, node: LexborNode) -> bool:
        """Add a button or a linked image, or return False if this is a link in a text."""
        href = _href(node)
        if href is None:
            return False
        if images := node.css("img"):
            for image in images:
                self._add_image(image, href)
            return not node.text().strip()
        attributes = node.attributes
        looks = _BUTTON.search(attributes.get("style") or "") or _BUTTON_CLASS.search(attributes.get("class") or "")
        label = " ".join(node.text().split())
        if not looks or not label:
            return False
        self._add({"type": "button", "label": label[:200], "href": href})
        return True

    def _add_video(self, node: LexborNode) -> None:
        src = node.attributes.get("src") or ""
        try:
            host = urlsplit(src).hostname or ""
        except ValueError:
            return
        if _VIDEO_HOST.search(host) and is_allowed_url(src):
            self._add({"type": "video", "href": src.replace("/embed/", "/watch?v=", 1), "thumbnail": "", "alt": ""})

    def _add_word_item(self, node: LexborNode, level: int) -> None:
        """Add a paragraph of Word that looks like a list item: its marker is text in a span."""
        marker = "".join(span.text() for span in node.css("span") if _LIST_MARKER.search(_style(span)))
        item = "".join(_inner(node, level)).strip()
        plain_marker = marker.strip()
        item = item.removeprefix(escape(plain_marker)).strip() if plain_marker else item.lstrip("·•o§- \u00a0")
        if self._words.strip():
            self._end_paragraph()
        if not self._items:
            self._list_tag = "ol" if re.match(r"\(?(?:\d+|[a-z])[.)]", plain_marker) else "ul"
        self._items.append(f"<li>{item.strip()}</li>")

    def _end_paragraph(self) -> None:
        if self._items:
            self._elements.append(f"<{self._list_tag}>{''.join(self._items)}</{self._list_tag}>")
            self._items = []
        words = _trimmed(self._words)
        self._words = ""
        if words:
            self._elements.append(f"<p>{words}</p>")

    def _end_text(self) -> None:
        self._end_paragraph()
        if self._elements:
            self._blocks.append({"type": "text", "html": "".join(self._elements)})
            self._elements = []


def _inner(node: LexborNode, level: int) -> Iterator[str]:
    for child in node.iter(include_text=True):
        if child.is_text_node:
            yield escape(_SPACES.sub(" ", child.text_content or ""), quote=False)
        elif child.is_element_node and (child.tag or "") not in _DROPPED and not _is_hidden(child):
            yield _inline(child, level + 1)


def _inline(node: LexborNode, level: int) -> str:
    """Return an inline element with its emphasis and links."""
    tag = (node.tag or "").lower()
    if tag == "br" or _LIST_MARKER.search(_style(node)):
        return "<br>" if tag == "br" else ""
    if level > _MAX_LEVELS:
        return escape(node.text(), quote=False)
    if tag == "span" and is_variable(name := node.attributes.get("data-variable") or ""):
        fallback = escape(node.attributes.get("data-fallback") or "")
        shown = escape(node.text(), quote=False)
        return f'<span data-variable="{name}" data-fallback="{fallback}">{shown}</span>'
    inner = "".join(_inner(node, level))
    if not inner.strip():
        return inner
    for name in _emphasis(node, tag):
        inner = f"<{name}>{inner}</{name}>"
    if tag == "a" and (href := _href(node)) is not None:
        return f'<a href="{escape(href)}">{inner}</a>'
    return inner


def _emphasis(node: LexborNode, tag: str) -> list[str]:
    """Return the emphasis of an element. Google Docs wraps whole documents in `<b style="font-weight:normal">`."""
    style = _style(node)
    names = {name for name, pattern in _STYLES if tag != "a" and pattern.search(style)}
    own = _EMPHASIS.get(tag)
    is_off = (own == "strong" and _NOT_BOLD.search(style)) or (own == "em" and _NOT_ITALIC.search(style))
    return sorted(names | ({own} if own is not None and not is_off else set()))


def _list(node: LexborNode, tag: str, level: int) -> str:
    """Return a list. An inner list becomes part of its item."""
    items: list[str] = []
    for child in node.iter():
        if child.tag == "li":
            items.append(f"<li>{_item(child, level)}</li>")
        elif child.tag in ("ul", "ol") and level < _MAX_LEVELS:
            items.append(f"<li>{_list(child, child.tag, level + 1)}</li>")
    return f"<{tag}>{''.join(items)}</{tag}>"


def _item(node: LexborNode, level: int) -> str:
    parts = ""
    for child in node.iter(include_text=True):
        if child.is_text_node:
            parts += escape(_SPACES.sub(" ", child.text_content or ""), quote=False)
        elif child.tag in ("ul", "ol") and level < _MAX_LEVELS:
            parts += _list(child, child.tag, level + 1)
        elif child.is_element_node and (child.tag or "") not in _DROPPED:
            parts += _inline(child, level + 1)
    return parts.strip()


def _paragraphs(node: LexborNode, level: int) -> str:
    found = [child for child in node.iter() if child.tag in ("p", "div")]
    texts = [_trimmed("".join(_inner(each, level))) for each in found or [node]]
    return "".join(f"<p>{text}</p>" for text in texts if text)


def _href(node: LexborNode) -> str | None:
    """Return the address of a link without the redirect that Google Docs adds."""
    href = (node.attributes.get("href") or "").strip()
    try:
        parts = urlsplit(href)
    except ValueError:
        return None
    if parts.hostname in ("www.google.com", "google.com") and parts.path == "/url":
        href = (parse_qs(parts.query).get("q") or [href])[0]
    return href if href and is_allowed_url(href) else None


def _style(node: LexborNode) -> str:
    return node.attributes.get("style") or ""


def _is_hidden(node: LexborNode) -> bool:
    return bool(_HIDDEN.search(_style(node)))


def _is_tracker(node: LexborNode) -> bool:
    sizes = [(node.attributes.get(name) or "").removesuffix("px") for name in ("width", "height")]
    return any(size.isascii() and size.isdigit() and int(size) <= _MAX_TRACKER_PIXELS for size in sizes)


def _trimmed(words: str) -> str:
    """Remove spaces and line breaks at both ends of a paragraph."""
    text = words.strip()
    while text.startswith("<br>") or text.endswith("<br>"):
        text = text.removeprefix("<br>").removesuffix("<br>").strip()
    return text if unescape(text).strip("\u00a0 ") else ""
