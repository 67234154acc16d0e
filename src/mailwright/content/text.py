"""Convert HTML to plain text, with links as `text (https://…)` and the alternative text of images.

The HTML is split at every `<`, each tag becomes a mark in the text (see `text_lines`), and the marked text becomes
lines. No tree is built, because walking a tree takes twice as long. The time is linear for any input.
"""

import re
from collections.abc import Iterator
from html import unescape
from operator import length_hint

from mailwright.content import text_lines
from mailwright.content.attribute_entities import unescape_attribute
from mailwright.content.text_lines import BREAK, LINK_END, LINK_START, LINK_TEXT, MARKS

_UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_CONTROLS = bytes([*range(9), 11, 12, *range(14, 32)])
_TAG = re.compile(r"<[^<>]*>")
# Elements whose text is not shown.
_HIDDEN = ("<style", "<title", "<script")
_BLANK_LINES = re.compile(r"\n{3,}")
# Prefixes of links that lead nowhere outside of the email, so that their address is omitted from the text.
_NOWHERE = ("#", "javascript:", "data:", "cid:")

# The `rel` of a link that another link next to it repeats, so that its address is omitted from the text.
REPEATED = "mw-repeated"

_NAME = re.compile(r"/?[a-zA-Z][^\s/>]*")
_ATTRIBUTE = re.compile(r"""([^\s/>="']+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?""")
_QUOTED = re.compile(r"""=\s*+(?:"[^"]*+"|'[^']*+')""")
_OPEN_QUOTE = re.compile(r"""=\s*+["']""")
_WHOLE_TAG = re.compile(r"""[^>=]*+(?:=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^\s>]*+)[^>=]*+)*+>""")
# Maximum number of `<` in the attributes of a tag. Browsers have no limit, but show nothing of such an email either.
_MAX_JOINED = 20
_STYLE = re.compile(r"display\s*:\s*(none|block)(?![\w-])|white-space\s*:\s*(pre)", re.IGNORECASE)
# Styles other than `display:none` that hide an element, as preview texts use them.
_INVISIBLE = re.compile(
    r"(?<![\w-])(?:visibility\s*:\s*hidden|(?:opacity|max-height)\s*:\s*0+(?:\.0*)?(?:px|em|%)?\s*(?:;|!|$))",
    re.IGNORECASE,
)
_HIDDEN_ATTRIBUTE = re.compile(r"\shidden(?=[\s=/]|$)", re.IGNORECASE)
_FILE_NAME = re.compile(r"(?:https?://\S+|\S+\.(?:png|jpe?g|gif|svg|webp))", re.IGNORECASE)
_LINK = re.compile(f"{LINK_START}([^{LINK_TEXT}]*){LINK_TEXT}([^{LINK_START}{LINK_END}]*)(?:{LINK_END})?")
_BREAKS = re.compile(f"{BREAK}.")
_FIRST_BREAKS = re.compile(rf"(?:\s|{BREAK}.)*+")
_SCHEME = re.compile(r"^(?:https?://)?(?:www\.)?", re.IGNORECASE)
# The beginning of nearly every link; the value is cut at the next quote.
_HREF = 'a href="'
_PLAIN_ADDRESSES = ("https://", "http://")
_MAILTO = "mailto:"

_RAW = frozenset(["style", "title", "script", "iframe", "template"])
_VOID = frozenset(["area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"])
_SPANS = text_lines.SPANS
_START, _END = text_lines.START_MARKS, text_lines.END_MARKS


# Cached marks of tags, alone and with the space after them. The emails of one sender have the same tags; only the links
# differ.
_NOTHING = LINK_END
_NOTHING_KNOWN = {f"{_NOTHING}>": ""}
_known = {**_NOTHING_KNOWN}
_MAX_KNOWN = 4_096
_LONGEST_KNOWN = 512


def from_html(html: str) -> str:
    """Convert HTML to text. If the result is blank and no element hides text, only remove the tags instead."""
    marked = _Reader(writes_addresses=True).mark(html)
    text = text_lines.write(_LINK.sub(_write_link, marked).replace(LINK_END, ""))
    if LINK_START in marked and not text.strip():  # An email of images: their links are better than nothing.
        text = text_lines.write(_LINK.sub(_write_any_link, marked).replace(LINK_END, ""))
    text = _without_repeated_links(text)
    if not text or text.isspace():
        lowered = html.lower()
        text = "" if any(tag in lowered for tag in _HIDDEN) else _TAG.sub("", html)
    if "\n\n\n" in text:
        text = _BLANK_LINES.sub("\n\n", text)
    return _readable(text).strip("\n")


def links(html: str) -> Iterator[tuple[str, str]]:
    """Yield the text and the address of every link that leads out of the email."""
    for address, text in _LINK.findall(_Reader(writes_addresses=False).mark(html)):
        yield _shown(text), address


class _Reader:
    """Converts HTML to text with marks in one pass."""

    def __init__(self, *, writes_addresses: bool) -> None:
        self._writes_addresses = writes_addresses  # For links that contain only text; others are marked.
        self._known = _known
        self._ends: dict[str, list[str]] = {}  # End marks of open elements, for names with a style.

    def mark(self, html: str) -> str:
        for reserved in MARKS:
            if reserved in html:
                html = html.replace(reserved, "")
        whole = html.split("<")
        chunks = iter(whole)
        parts = [_text(next(chunks))]
        add, known = parts.append, self._known
        for chunk in chunks:
            mark = known.get(chunk)
            if mark is not None:  # A tag without text, as most are.
                add(mark)
                continue
            tag, end, text = chunk.partition(">")
            mark = known.get(tag + end)
            if mark is not None:
                add(mark)
                add(unescape(text) if "&" in text else text)
            elif tag.startswith(_HREF) and (link := self._plain_link(tag, text, whole, length_hint(chunks))):
                add(link)
            else:
                add(self._read(chunk, chunks))
                known = self._known
        return "".join(parts)

    def _plain_link(self, tag: str, text: str, chunks: list[str], left: int) -> str:
        """Return the text of a simple link (only text between its tags); an empty string for other links."""
        address, _, rest = tag[len(_HREF) :].partition('"')
        if (
            not (left and chunks[-left].startswith("/a>"))
            or not address.startswith(_PLAIN_ADDRESSES)
            or (rest and ("'" in rest or rest.count('"') % 2 or "isplay" in rest or "white-space" in rest))
            or self._ends
            or not self._writes_addresses
        ):
            return ""
        if "&" in address:
            if address.count("&") != address.count("&amp;"):
                return ""
            address = address.replace("&amp;", "&")
        text = _text(text)
        shown = text.strip() if text.isascii() else text_lines.words_of(text)
        if not shown or shown in address:
            return ""
        chunks[-left] = _NOTHING + chunks[-left][2:]  # The end tag is processed.
        return f"{text} ({address})"

    def _read(self, chunk: str, chunks: Iterator[str]) -> str:
        """Return the mark of a tag that is not cached, followed by the text after the tag."""
        found = _NAME.match(chunk)
        if not found:
            return _text(_skip_declaration(chunk, chunks) if chunk[:1] in ("!", "?", "/") else f"<{chunk}")
        tag, end, text = chunk.partition(">")
        is_whole = end and not _is_open(tag)
        if not is_whole:
            tag, text = _read_quoted(chunk, chunks)
        name = found[0].lower()
        if name in _RAW:
            return _text(_skip_until_end(name, chunks))
        style = _STYLE.search(_attribute(tag, "style")) if "isplay" in tag or "white-space" in tag else None
        if (style and (style[1] or "").lower() == "none") or _is_invisible(tag):
            return _text(text if name in _VOID else _skip_until_end(name, chunks))
        mark = self._end(name[1:]) if name[0] == "/" else self._start(name, tag, style)
        if is_whole and name not in ("a", "img") and name.lstrip("/") not in self._ends and len(tag) <= _LONGEST_KNOWN:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
                self._known.update(_NOTHING_KNOWN)
            self._known[f"{tag}>"] = mark
            if text.isspace() and len(chunk) <= _LONGEST_KNOWN:
                self._known[chunk] = mark + text
        return mark + _text(text)

    def _start(self, name: str, tag: str, style: re.Match[str] | None) -> str:
        mark = _START.get(name, "")
        if name == "a":
            is_repeated = self._writes_addresses and f' rel="{REPEATED}"' in tag
            address = "" if is_repeated else _address(_attribute(tag, "href"))
            mark = f"{LINK_START}{address}{LINK_TEXT}" if address else LINK_END
        elif name in ("td", "th") and "colspan" in tag:
            mark = f"{BREAK}{span}" if (span := _attribute(tag, "colspan")) in _SPANS else mark
        elif name == "img":
            mark = _image_text(tag)
            return f"{BREAK}b{mark}{BREAK}b" if style else mark
        if style is None:
            if name in self._ends:
                self._ends[name].append("")
            return mark
        if name not in self._ends:
            self._ends[name] = []
            self._known = {**_NOTHING_KNOWN}  # The mark of an end tag now depends on its start tag.
        start, end = ("v", "V") if style[2] else ("b", "b")
        self._ends[name].append(BREAK + end)
        return f"{BREAK}{start}{mark}"

    def _end(self, name: str) -> str:
        mark = _END.get(name, "")
        return mark + self._ends[name].pop() if self._ends.get(name) else mark


def _write_link(link: re.Match[str]) -> str:
    """Write a link as its text followed by the address. A link without text, such as an icon, is omitted."""
    address, text = link.groups()
    shown = _shown(text)
    if not shown or address == shown:
        return text
    if shown in address and _without_scheme(shown) == _without_scheme(address):
        return text.replace(shown, address)
    if address.startswith("tel:"):
        address = address.removeprefix("tel:")
        if (number := _digits(shown)) and _digits(address).endswith(number.removeprefix("0")):
            return text
    end = _end_of_words(text) if BREAK in text else len(text)
    # The address continues a single line, and follows several.
    start = _FIRST_BREAKS.match(text)
    is_line = start is not None and BREAK not in text[start.end() : end]
    return f"{text[:end]} ({address}){text[end:]}" if is_line else f"{text} ({address})"


def _end_of_words(text: str) -> int:
    """Return where the spaces and marks begin that end a text."""
    end = len(text)
    while end:
        if text[end - 1].isspace():
            end -= 1
        elif text[end - 2 : end - 1] == BREAK:
            end -= 2
        else:
            break
    return end


def _write_any_link(link: re.Match[str]) -> str:
    """Write a link without text as its address."""
    return _write_link(link) if _shown(link[2]) else link[2] + link[1]


def _without_repeated_links(text: str) -> str:
    """Remove a line that repeats the link before it, as buttons for Outlook do."""
    if "(http" not in text:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        is_link = line.endswith(")") and " (http" in line
        at = len(lines) - 1
        while is_link and at >= 0 and not lines[at]:
            at -= 1
        if is_link and at >= 0 and lines[at].strip() in (line.strip(), line.strip().rpartition(" (http")[0]):
            del lines[at:]
        lines.append(line)
    return "\n".join(lines)


def _shown(text: str) -> str:
    return text_lines.words_of(_BREAKS.sub(" ", text) if BREAK in text else text)


def _text(text: str) -> str:
    return unescape(text) if "&" in text else text


def _is_open(tag: str) -> bool:
    """Return whether the tag, cut at its first `>`, ends inside a quoted value."""
    if not (tag.count('"') % 2 or tag.count("'") % 2):
        return False
    return _OPEN_QUOTE.search(_QUOTED.sub("", tag)) is not None


def _read_quoted(chunk: str, chunks: Iterator[str]) -> tuple[str, str]:
    """Return a tag with `<` or `>` in its attributes, and the text after it."""
    for _ in range(_MAX_JOINED):
        if whole := _WHOLE_TAG.match(chunk):
            return whole[0][:-1], chunk[whole.end() :]
        if (more := next(chunks, None)) is None:
            break
        chunk = f"{chunk}<{more}"
    return chunk, ""


def _skip_declaration(chunk: str, chunks: Iterator[str]) -> str:
    """Skip a comment or declaration, and return the text after it."""
    end = "-->" if chunk.startswith("!--") else ">"
    at = chunk.find(end, 1)
    while at < 0:
        if (more := next(chunks, None)) is None:
            return ""
        chunk, at = more, more.find(end)
    return chunk[at + len(end) :]


def _skip_until_end(name: str, chunks: Iterator[str]) -> str:
    """Skip an element whose content is not shown, and return the text after it."""
    depth = 1
    for chunk in chunks:
        start = chunk[: len(name) + 2].lower()
        if start.startswith(f"/{name}"):
            depth -= 1
            if not depth:
                return chunk.partition(">")[2]
        elif start.startswith(name) and not start[len(name) :].isalnum() and name not in _RAW:
            depth += 1
    return ""


def _is_invisible(tag: str) -> bool:
    """Return whether an element is hidden by another style than `display`, or by its attribute."""
    if ("pacity" in tag or "isibility" in tag or "ax-height" in tag) and _INVISIBLE.search(_attribute(tag, "style")):
        return True
    return " hidden" in tag and _HIDDEN_ATTRIBUTE.search(_QUOTED.sub("", tag)) is not None


def _image_text(tag: str) -> str:
    """Return the alternative text of an image, without that of pixels and without file names and signs."""
    shown = _text(_attribute(tag, "alt").strip())
    is_sign = shown.isascii() and not any(map(str.isalnum, shown))
    if not shown or is_sign or _FILE_NAME.fullmatch(shown):
        return ""
    return "" if _attribute(tag, "width") == _attribute(tag, "height") == "1" else shown


def _without_scheme(address: str) -> str:
    return _SCHEME.sub("", address).rstrip("/").lower()


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _attribute(tag: str, name: str) -> str:
    """Return the value of an attribute with entities unresolved; an empty string if it is missing."""
    for found, *values in _ATTRIBUTE.findall(tag):
        if found == name or found.lower() == name:
            return "".join(values)
    return ""


def _address(href: str) -> str:
    address = unescape_attribute(href).strip()
    if address.lower().startswith(_NOWHERE):
        return ""
    return address[len(_MAILTO) :].partition("?")[0] if address[: len(_MAILTO)].lower() == _MAILTO else address


def _readable(text: str) -> str:
    """Remove control characters and surrogates."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return _UNREADABLE.sub("", text)
    return text if len(data.translate(None, _CONTROLS)) == len(data) else _UNREADABLE.sub("", text)
