"""Convert HTML to plain text, with links as `text (https://…)` and the alternative text of images.

The HTML is split at every `<`, each tag becomes a mark in the text (see `text_lines`), and the marked text becomes
lines. No tree is built, because walking a tree takes twice as long. The time is linear for any input.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from html import unescape
from operator import length_hint

from mailwright.content import text_lines
from mailwright.content.attribute_entities import unescape_attribute
from mailwright.content.style_rules import StyleRules, Styles, is_for_every_screen, is_hidden, styles_of
from mailwright.content.text_lines import BREAK, COLUMN, LINK_END, LINK_START, LINK_TEXT, MARKS, NUMBER
from mailwright.content.text_skeletons import HREF, Skeletons, Slot, Trace, unescaped, write_plain_link

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
# The styles that change lines: a block, and white space that is kept.
_STYLE = re.compile(r"display\s*:\s*(block)(?![\w-])|white-space\s*:\s*(pre)", re.IGNORECASE)
_FLOAT = re.compile(r"float\s*:\s*(?:left|right)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d{1,6}")
_INLINE_BLOCK = re.compile(r"display\s*:\s*inline-block", re.IGNORECASE)
_NONE = re.compile(r"isplay\s*:\s*[nN][oO][nN][eE](?![\w-])")  # Also `Display`.
_NO_SIZES = ("size:0", "size: 0", "eight:0", "eight: 0", "idth:0", "idth: 0")
_NOT_DISPLAYED: Styles = {"display": "none"}
_HIDDEN_ATTRIBUTE = re.compile(r"\shidden(?=[\s=/]|$)", re.IGNORECASE)
_FILE_NAME = re.compile(r"(?:https?://\S+|\S+\.(?:png|jpe?g|gif|svg|webp))", re.IGNORECASE)
_LINK = re.compile(f"{LINK_START}([^{LINK_TEXT}]*){LINK_TEXT}([^{LINK_START}{LINK_END}]*)(?:{LINK_END})?")
_BREAKS = re.compile(f"{BREAK}.")
_FIRST_BREAKS = re.compile(rf"(?:\s|{BREAK}.)*+")
_SCHEME = re.compile(r"^(?:https?://)?(?:www\.)?", re.IGNORECASE)
_MAILTO = "mailto:"

_RAW = frozenset(["style", "title", "script", "iframe", "template"])
_VOID = frozenset(["area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"])
_SPANS = text_lines.SPANS
_BLOCK, _PREFORMATTED = (f"{BREAK}b", f"{BREAK}b"), (f"{BREAK}v", f"{BREAK}V")
_START, _END = text_lines.START_MARKS, text_lines.END_MARKS


# Cached marks of tags, alone and with the space after them. The emails of one sender have the same tags; only the links
# differ.
_NOTHING = LINK_END
_NOTHING_KNOWN = {f"{_NOTHING}>": ""}
_MAX_KNOWN = 2_048
_MAX_VARIANTS = 4
_LONGEST_KNOWN = 512
_LONGEST_KNOWN_CSS = 65_536
_LONGEST_KNOWN_HTML = 65_536
# More style elements that hide something are not read.
_MAX_SHEETS = 20


class _Sheet:
    """The rules of style elements, with the cached marks of tags, which depend on the rules."""

    __slots__ = ("_by_names", "known", "rules")

    def __init__(self, css: str) -> None:
        self.rules = _rules(css)
        self.known = {**_NOTHING_KNOWN}
        self._by_names: dict[frozenset[str], dict[str, str]] = {}

    def known_without(self, names: Iterable[str]) -> dict[str, str]:
        """Return the cached marks for emails in which the marks of these elements depend on each start tag."""
        key = frozenset(names)
        if key not in self._by_names and len(self._by_names) >= _MAX_VARIANTS:
            return {**_NOTHING_KNOWN}
        return self._by_names.setdefault(key, {**_NOTHING_KNOWN})


_cached_rules = lru_cache(maxsize=64)(StyleRules)


def _rules(css: str) -> StyleRules:
    return _cached_rules(css) if len(css) <= _LONGEST_KNOWN_CSS else StyleRules(css)


_cached_sheet = lru_cache(maxsize=8)(_Sheet)
_NO_RULES = _Sheet("")


def from_html(html: str) -> str:
    """Convert HTML to text. If the result is blank and no element hides text, only remove the tags instead."""
    return _from_marked(html, _mark(html))


def from_unknown_html(html: str) -> str:
    """Do the same as `from_html`, without what is known from emails with the same tags."""
    return _from_marked(html, _Reader(writes_addresses=True).mark(_chunks(html)))


def _mark(html: str) -> str:
    """Return the text of HTML with marks."""
    chunks = _chunks(html)
    if len(html) > _LONGEST_KNOWN_HTML:
        return _Reader(writes_addresses=True).mark(chunks)
    marked = _skeletons.fill(chunks)
    if marked is None:
        marked = _Reader(writes_addresses=True).mark(chunks)
        _skeletons.learn(chunks)
    return marked


def _chunks(html: str) -> list[str]:
    for reserved in MARKS:
        if reserved in html:
            html = html.replace(reserved, "")
    return html.split("<")


def _from_marked(html: str, marked: str) -> str:
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
    for address, text in _LINK.findall(_Reader(writes_addresses=False).mark(_chunks(html))):
        yield _shown(text), address


class _Reader:
    """Converts HTML to text with marks in one pass; in two if a style element follows the text that it can hide."""

    def __init__(self, *, writes_addresses: bool, sheet: _Sheet = _NO_RULES) -> None:
        self._writes_addresses = writes_addresses  # For links that contain only text; others are marked.
        self._sheet = sheet
        self._rules, self._known = sheet.rules, sheet.known
        self._css: list[str] = []
        self._reads_styles = sheet is _NO_RULES
        self._parts: list[str] = []
        self._is_style_late = False
        self._ends: dict[str, list[str]] = {}  # End marks of open elements, for names with a style.

    def mark(self, chunks: Sequence[str]) -> str:
        whole = [*chunks]
        self._read_all(whole, iter(whole), self._parts.append)
        if self._is_style_late:
            return _Reader(writes_addresses=self._writes_addresses, sheet=self._sheet).mark(chunks)
        return "".join(self._parts)

    def trace(self, chunks: Sequence[str]) -> Trace | None:
        """Return what each chunk added and which chunks can differ, or None if an email is read in two passes."""
        whole, ends = [*chunks], []
        left = iter(whole)

        def add(part: str) -> None:
            self._parts.append(part)
            ends.append(len(whole) - length_hint(left))

        self._read_all(whole, left, add)
        if self._is_style_late:
            return None
        slots: dict[int, Slot] = {}
        added = [""] * len(whole)
        styled = max((number for number, chunk in enumerate(chunks) if chunk[:5].lower() == "style"), default=0)
        start = 0
        for part, end in zip(self._parts, ends, strict=True):
            added[end - 1] = part
            slots.update(_slots(chunks, start, end, part))
            start = end
        if self._css:  # The text before a style element decides whether the email is read again.
            slots = {number: slot for number, slot in slots.items() if number > styled or not slot.is_shown}
        return Trace(slots, added)

    def _read_all(self, whole: list[str], chunks: Iterator[str], add: Callable[[str], None]) -> None:
        add(unescaped(next(chunks)))
        known = self._known
        for chunk in chunks:
            mark = known.get(chunk)
            if mark is not None:  # A tag without text, as most are.
                add(mark)
                continue
            tag, end, text = chunk.partition(">")
            mark = known.get(tag + end)
            if mark is not None:
                add(mark + (unescape(text) if "&" in text else text))
            elif tag.startswith(HREF) and (link := self._plain_link(tag, text, whole, length_hint(chunks))):
                add(link)
            else:
                add(self._read(chunk, chunks))
                known = self._known

    def _plain_link(self, tag: str, text: str, chunks: list[str], left: int) -> str:
        """Return the text of a simple link (only text between its tags); an empty string for other links."""
        address, _, rest = tag[len(HREF) :].partition('"')
        if (
            not (left and chunks[-left].startswith("/a>"))
            or (
                rest
                and ("'" in rest or rest.count('"') % 2 or "isplay" in rest or "white-space" in rest or "float" in rest)
            )
            or self._ends
            or (rest and self._rules and self._rules.concern.search(rest))
            or not self._writes_addresses
        ):
            return ""
        if link := write_plain_link(address, text):
            chunks[-left] = _NOTHING + chunks[-left][2:]  # The end tag is processed.
        return link

    def _read(self, chunk: str, chunks: Iterator[str]) -> str:
        """Return the mark of a tag that is not cached, followed by the text after the tag."""
        found = _NAME.match(chunk)
        if not found:
            return unescaped(_skip_declaration(chunk, chunks) if chunk[:1] in ("!", "?", "/") else f"<{chunk}")
        tag, end, text = chunk.partition(">")
        is_whole = end and not _is_open(tag)
        if not is_whole:
            tag, text = _read_quoted(chunk, chunks)
        name = found[0].lower()
        if name == "style":
            return self._read_style(tag, text, chunks)
        if name in _RAW:
            return unescaped(_skip_until_end(name, chunks))
        if name[0] == "/":
            mark = self._end(name[1:])
        else:
            styles = self._styles(name, tag)
            if (styles and is_hidden(styles)) or _has_hidden_attribute(tag):
                return unescaped(text if name in _VOID else _skip_until_end(name, chunks))
            mark = self._start(name, tag, _lines_of(tag, styles))
        if (
            is_whole
            and name not in ("a", "area", "img")
            and name.lstrip("/") not in self._ends
            and len(tag) <= _LONGEST_KNOWN
        ):
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
                self._known.update(_NOTHING_KNOWN)
            self._known[f"{tag}>"] = mark
            if text.isspace() and len(chunk) <= _LONGEST_KNOWN:
                self._known[chunk] = mark + text
        return mark + unescaped(text)

    def _read_style(self, tag: str, text: str, chunks: Iterator[str]) -> str:
        """Read the rules of a style element, and return the text after it."""
        content, after = [text], ""
        for chunk in chunks:
            if chunk[:6].lower() == "/style":
                after = chunk.partition(">")[2]
                break
            content.append(chunk)
        if self._reads_styles and is_for_every_screen(tag):
            self._add_rules("<".join(content))
        return unescaped(after)

    def _add_rules(self, css: str) -> None:
        if len(self._css) >= _MAX_SHEETS or not _rules(css):
            return
        self._css.append(css)
        css = "\n".join(self._css)
        self._sheet = _cached_sheet(css) if len(css) <= _LONGEST_KNOWN_CSS else _Sheet(css)
        self._rules = self._sheet.rules
        self._known = self._sheet.known_without(self._ends) if self._ends else self._sheet.known
        self._is_style_late = self._is_style_late or bool(_shown("".join(self._parts)))

    def _styles(self, name: str, tag: str) -> Styles | None:
        """Return the styles of an element; None if none of them can hide it."""
        if self._rules and self._rules.concern.search(tag):
            names = _attribute(tag, "class"), _attribute(tag, "id")
            if (styles := self._rules.styles(name, *names, _attribute(tag, "style"))) is not None:
                return styles
        if not _can_hide(tag):
            return None
        style = _attribute(tag, "style")
        return _NOT_DISPLAYED if style.count("isplay") == 1 and _NONE.search(style) else styles_of(style)

    def _start(self, name: str, tag: str, lines: tuple[str, str] | None) -> str:
        mark = _START.get(name, "")
        if name == "a":
            is_repeated = self._writes_addresses and f' rel="{REPEATED}"' in tag
            address = "" if is_repeated else _address(_attribute(tag, "href"))
            mark = f"{LINK_START}{address}{LINK_TEXT}" if address else LINK_END
        elif name in ("td", "th") and "colspan" in tag:
            mark = f"{BREAK}{span}" if (span := _attribute(tag, "colspan")) in _SPANS else mark
        elif name == "div" and "inline-block" in tag and _INLINE_BLOCK.search(_attribute(tag, "style")):
            mark = COLUMN
        elif name == "img":
            mark = _image_text(tag)
            return f"{lines[0]}{mark}{lines[1]}" if lines else mark
        elif name == "area":
            address = _address(_attribute(tag, "href"))
            return f"{BREAK}b{LINK_START}{address}{LINK_TEXT}{_image_text(tag)}{LINK_END}{BREAK}b" if address else ""
        elif name == "ol" and _NUMBER.fullmatch(number := _attribute(tag, "start")):
            mark = f"{mark}{NUMBER}{number}{BREAK}b"
        elif name == "li" and _NUMBER.fullmatch(number := _attribute(tag, "value")):
            mark = f"{NUMBER}{number}{mark}"
        if not lines:
            if name in self._ends:
                self._ends[name].append("")
            return mark
        if name not in self._ends:
            self._ends[name] = []
            self._known = self._sheet.known_without(self._ends)  # The mark of an end tag depends on its start tag.
        self._ends[name].append(lines[1])
        return lines[0] + mark

    def _end(self, name: str) -> str:
        mark = _END.get(name, "")
        return mark + self._ends[name].pop() if self._ends.get(name) else mark


def _slots(chunks: Sequence[str], start: int, end: int, part: str) -> Iterator[tuple[int, Slot]]:
    """Yield the chunks whose text can differ, of the chunks that were read together."""
    tag, closing, text = chunks[start].partition(">")
    name = _NAME.match(tag)
    if not closing or _is_open(tag):
        return
    if end == start + 1:
        if tag.startswith(HREF) and part == write_plain_link(tag[len(HREF) :].partition('"')[0], text):
            yield start, Slot("", rest=tag[len(HREF) :].partition('"')[2])
        elif end < len(chunks) and not tag.startswith(HREF) and part.endswith(shown := unescaped(text)):
            yield start, Slot(f"{tag}>", part.removesuffix(shown))
    elif name and name[0].lower() != "style":  # The element is not shown, only the text after its end.
        for number in range(start, end - 1):
            tag, closing, _ = chunks[number].partition(">")
            if closing:
                yield number, Slot(f"{tag}>", is_shown=False)
        tag, closing, text = chunks[end - 1].partition(">")
        if closing and end < len(chunks) and part == unescaped(text):
            yield end - 1, Slot(f"{tag}>")


_skeletons = Skeletons(lambda chunks: _Reader(writes_addresses=True).trace(chunks))


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
        elif text.startswith(NUMBER, start := max(text.rfind(BREAK, 0, end), 0)):
            end = start
        else:
            break
    return end


def _write_any_link(link: re.Match[str]) -> str:
    """Write a link without text as its address."""
    return _write_link(link) if _shown(link[2]) else link[2] + link[1]


def _without_repeated_links(text: str) -> str:
    """Remove a line that repeats the link before it, as buttons for Outlook do."""
    if "(http" not in text or not (")\n" in text or text.endswith(")")):
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


def _lines_of(tag: str, styles: Styles | None) -> tuple[str, str] | None:
    """Return what the styles of an element add to its start and end; nothing for most."""
    if styles and styles.get("display") == "block":
        return _BLOCK
    if "block" not in tag and "white-space" not in tag and "float" not in tag:
        return None
    style = _attribute(tag, "style")
    if found := _STYLE.search(style):
        return _PREFORMATTED if found[2] else _BLOCK
    return (" ", " ") if _FLOAT.search(style) else None


def _can_hide(tag: str) -> bool:
    """Return whether a style of the tag could hide the element; no for most. Names can be capitalized."""
    return (
        ("isplay" in tag and _NONE.search(tag) is not None)
        or "pacity" in tag
        or "ax-height" in tag
        or "isibility" in tag
        or (("verflow" in tag or "so-hide" in tag or "ransparent" in tag) and any(size in tag for size in _NO_SIZES))
    )


def _has_hidden_attribute(tag: str) -> bool:
    return " hidden" in tag and _HIDDEN_ATTRIBUTE.search(_QUOTED.sub("", tag)) is not None


def _image_text(tag: str) -> str:
    """Return the alternative text of an image, without that of pixels and without file names and signs."""
    shown = unescaped(_attribute(tag, "alt").strip())
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
