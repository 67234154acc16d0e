"""Layouts: a template is prepared once, and each recipient's email is a single join of the prepared pieces.

Parts that consist of fixed text and variables are encoded at compile time, with slots for the values. The template
engine renders other parts for each recipient. Both ways produce the same email.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from mailwright.content import headers, mime
from mailwright.content import html as html_rules
from mailwright.content import subject as subject_rules
from mailwright.content import text as plain_text
from mailwright.content.attribute_entities import unescape_attribute
from mailwright.content.bounded_cache import BoundedCache
from mailwright.content.headers import Mailbox, UnsubscribeTargets
from mailwright.content.mime import Enclosure
from mailwright.content.template import (
    MARK_END,
    MARK_START,
    FlatTemplate,
    InvalidTemplate,
    MissingVariable,
    Path,
    Template,
    UnsafeValue,
    Values,
    as_text,
    escape,
    lookup,
    split_marks,
)
from mailwright.content.tracked_links import (
    LinkRewriter,
    TrackedRecipient,
    clean_url,
    replace_hrefs,
    url_of,
)
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass

__all__ = [
    "InvalidTemplate",
    "Layout",
    "LayoutCache",
    "MissingVariable",
    "RecipientHeaders",
    "SharedHeaders",
    "UnsafeValue",
]


# The limit for all cached layouts together; a worker may use 200 MB in total.
MAX_CACHE_BYTES = 32 * 1024 * 1024


class _Size(NamedTuple):
    """Measured sizes from which the memory of a layout is estimated."""

    own_bytes: int
    bytes_of_character: int


_IN_PIECES = _Size(2 * 1024, 3)
_COMPILED = _Size(40 * 1024, 6)


class RecipientHeaders(NamedTuple):
    """The headers that differ per recipient."""

    to: Mailbox
    message_id: str
    date: Instant
    outbox_id: str
    unsubscribe_url: str | None = None
    reply_to: Mailbox | None = None  # Only if all recipients have different ones.
    dedupe_key: str | None = None


@dataclass(frozen=True, slots=True)
class SharedHeaders:
    """The headers that are the same for every recipient."""

    sender: Mailbox
    reply_to: tuple[Mailbox, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    feedback_id: str | None = None
    unsubscribe_mailto: str | None = None


class Layout:
    """A compiled template. It is immutable, so any thread can fill it."""

    def __init__(self, template: Template, shared: SharedHeaders, links: LinkRewriter | None = None) -> None:
        """Prepare the layout. `links` replaces the links of the HTML, and adds parameters to those of the text."""
        self.variables = template.variables
        self._links = links
        subject, plan = template.subject.flat, _make_plan(template, links)
        self._sources = [
            None if part is None else part.source for part in (template.subject, template.html, template.text)
        ]
        # Drop the template if all parts are prepared, because it would take most of the layout's memory.
        self._compiled = template if subject is None or plan is None else (_Subject(subject), plan)
        self._is_subject_fixed = subject is not None and "".join(subject.pieces) == template.subject.source
        size = _IN_PIECES if self.is_flat else _COMPILED
        self.size_bytes = size.own_bytes + size.bytes_of_character * sum(len(source or "") for source in self._sources)
        self._mailto = shared.unsubscribe_mailto
        self._sender = headers.mailboxes("From", [shared.sender], field="from")
        self._fixed_lines = _fixed_lines(shared)

    @classmethod
    def compile(
        cls,
        shared: SharedHeaders,
        *,
        subject: str,
        html: str | None,
        text: str | None = None,
        links: LinkRewriter | None = None,
    ) -> "Layout":
        """Compile a template. Raises every problem of the template, except those that depend on a value."""
        return cls(Template(subject=subject, html=html, text=text), shared, links)

    @property
    def is_flat(self) -> bool:
        return not isinstance(self._compiled, Template)

    def own_subject(self, values: Values) -> str | None:
        """Return the subject of one recipient's email; None if it is the source of the template's subject."""
        if self._is_subject_fixed:
            return None
        if isinstance(self._compiled, Template):
            return self._compiled.subject.render(values)
        return self._compiled[0].fill(values)

    def fill(
        self,
        recipient: RecipientHeaders,
        values: Values,
        enclosure: Enclosure | None = None,
        tracked: TrackedRecipient | None = None,
    ) -> bytes:
        """Return the complete email for one recipient, with the attachments that all recipients share.

        `tracked` is the recipient that the tracked links identify. It is None if there are no tracked links or if they
        are anonymous.
        """
        if enclosure is None:
            return self._fill(recipient, values, b"", tracked)
        return self._fill(recipient, values, enclosure.before, tracked) + enclosure.after

    def _fill(
        self, recipient: RecipientHeaders, values: Values, opening: bytes, tracked: TrackedRecipient | None
    ) -> bytes:
        if isinstance(self._compiled, Template):
            return self._rendered(self._compiled, recipient, values, opening, tracked)
        subject, plan = self._compiled
        if plan.addresses and any(not lookup(values, path) for path in plan.addresses):
            source, html, text = self._sources
            template = Template(subject=source or "", html=html, text=text)
            return self._rendered(template, recipient, values, opening, tracked)
        head = self._head(recipient, subject.fill(values)) + opening
        if tracked is not None or plan.has_personal_links:
            values = {**values, **plan.personal_values(tracked, values)}
        return plan.fill(head, values)

    def _rendered(
        self,
        template: Template,
        recipient: RecipientHeaders,
        values: Values,
        opening: bytes,
        tracked: TrackedRecipient | None,
    ) -> bytes:
        subject, html, text = template.render(values)
        own = _recipient_links(values)
        if self._links is not None:
            text = self._links.rewrite_text(text or "", own)
        body = mime.text_part("plain", text or "")
        if html is None:
            return b"".join([self._head(recipient, subject), opening, body, b"\r\n"])
        if self._links is not None:
            html = self._links.rewrite(html, tracked, own)
        body = mime.alternative(_IDENTITY, [body, mime.text_part("html", html)])
        return b"".join([self._head(recipient, subject), opening, body])

    def _head(self, recipient: RecipientHeaders, subject: str) -> bytes:
        lines = [
            self._sender,
            headers.mailbox("To", recipient.to, field="to"),
            headers.unstructured("Subject", subject, field="subject"),
            headers.date_line(recipient.date),
            headers.message_id_line(recipient.message_id),
            headers.opaque("X-Mailwright-Message", recipient.outbox_id, field="outbox_id"),
        ]
        if recipient.unsubscribe_url:
            lines.append(headers.list_unsubscribe(UnsubscribeTargets(recipient.unsubscribe_url, self._mailto)))
        if recipient.reply_to:
            lines.append(headers.mailbox("Reply-To", recipient.reply_to, field="reply_to"))
        if recipient.dedupe_key:
            lines.append(headers.unstructured(headers.DEDUPE_KEY, recipient.dedupe_key, field="dedupe_key"))
        lines.append(self._fixed_lines)
        return "\r\n".join(lines).encode("ascii")


class LayoutCache(BoundedCache[Layout]):
    """LRU cache of layouts by version ID.

    Workers process the variants of an article in any order. If the cache held fewer layouts than there are variants,
    every email would compile its own layout. There is room for more than a thousand layouts of the usual size.
    """

    def __init__(self, most_bytes: int = MAX_CACHE_BYTES) -> None:
        super().__init__(most_bytes, lambda layout: layout.size_bytes)


# The MIME boundary cannot occur in encoded text, so every email can use the same one.
_IDENTITY = "layout"
_SOFT_BREAK = b"=\r\n"

# Values that neither escaping nor encoding changes and that fit on a line: most names and numbers.
_SAME_EVERYWHERE = re.compile(r"[A-Za-z0-9_:,!+-](?:[ A-Za-z0-9_:,.!+@-]{0,60}[A-Za-z0-9_:,!+-])?")
# The maximum lengths of values and of the beginnings of links that are cached for the next recipients.
_SHORT = 64
_LONGEST_START = 512
_TOKEN_LINE = 72
_TOKEN = re.compile(rf"[A-Za-z0-9_.-]{{0,{2 * _TOKEN_LINE}}}")
_LETTER_MARK = f"x{MARK_START} "
_SPACED_MARK = re.compile(f"{_LETTER_MARK}(\\d+) {MARK_END}")
# Text before a slot that a value could complete to an entity: `&` and `#106;` make a letter.
_OPEN_ENTITY = re.compile(r"&[#\w]*$")
_SCHEME_IS_OVER = re.compile("[:/?#]")
_PATH_BEGINS = re.compile("[/?#]")
# Elements in which entities are not resolved, and the tag of content that was not parsed.
_UNESCAPED_TEXT = frozenset(
    [html_rules.UNREAD, "style", "script", "xmp", "iframe", "noembed", "noframes", "noscript", "plaintext"]
)
# Attributes with their own syntax, in which a URL is only a part of the value.
_COMPOSED = frozenset(["style", "srcset", "imagesrcset", "srcdoc", "values", "ping", "archive"])


# The variables that link to the recipient's own pages, which are never tracked.
RECIPIENT_LINKS = ("unsubscribe_url", "preferences_url", "web_view_url")
# The names of the values in tracked links. They contain a mark, so no variable can have the same name.
_RECIPIENT_PART: Path = (f"{MARK_START}recipient",)
_PERSONAL_LINK = f"{MARK_START}link"
_PERSONAL_WORD = f"{MARK_START}word"
_WORD_WITH_VALUE = re.compile(rf"(?<!\S)[^\s{MARK_START}]*+{MARK_START}\S*+")


@dataclass(frozen=True, slots=True)
class _Slot:
    """A variable of the template, or a finished link or word."""

    path: Path
    is_url: bool
    is_link: bool


@dataclass(frozen=True, slots=True)
class _Personal:
    """The links of the HTML and the words of the text that contain values of the recipient."""

    rewriter: LinkRewriter
    links: dict[Path, FlatTemplate] = field(default_factory=dict)
    words: dict[Path, FlatTemplate] = field(default_factory=dict)

    def values(self, recipient: TrackedRecipient | None, values: Values) -> dict[str, str]:
        found = {} if recipient is None else {_RECIPIENT_PART[0]: recipient.part}
        for path, url in self.links.items():
            finished = _joined(url, values)
            if scheme := html_rules.dangerous_url(finished):
                raise UnsafeValue(
                    "The value of {paths} is a {scheme} URL.", paths=".".join(url.paths[0]), scheme=scheme
                )
            found[path[0]] = self.rewriter.personal_href(clean_url(finished), recipient)
        own = _recipient_links(values)
        for path, word in self.words.items():
            found[path[0]] = self.rewriter.rewrite_text(_joined(word, values), own)
        return found


def _joined(flat: FlatTemplate, values: Values) -> str:
    texts = [as_text(lookup(values, path)) for path in flat.paths]
    return "".join([flat.pieces[0], *(part for pair in zip(texts, flat.pieces[1:], strict=True) for part in pair)])


def _recipient_links(values: Values) -> tuple[str, ...]:
    return tuple(str(values.get(name, "")) for name in RECIPIENT_LINKS)


class _Plan:
    """Prepared pieces and slots, and their order in the email."""

    def __init__(
        self,
        fixed: list[bytes],
        slots: list[_Slot],
        order: list[int],
        addresses: tuple[Path, ...],
        personal: _Personal | None,
    ) -> None:
        """Prepare the pieces. `addresses` are variables that are the whole address of a link, omitted if empty."""
        self.addresses = addresses
        self._personal = personal
        self._fixed = tuple(fixed)
        self._special = [slot if slot.is_link or slot.is_url else None for slot in slots]
        self._pick = _value_picker([slot.path for slot in slots])
        # Picks from a list of the head, the fixed pieces, and each slot's value as HTML and as text.
        self._arrange = itemgetter(*order)

    @property
    def has_personal_links(self) -> bool:
        return self._personal is not None and bool(self._personal.links or self._personal.words)

    def personal_values(self, recipient: TrackedRecipient | None, values: Values) -> dict[str, str]:
        """Return the values of the slots in tracked links, and of words with values."""
        return {} if self._personal is None else self._personal.values(recipient, values)

    def fill(self, head: bytes, values: Values) -> bytes:
        pieces = [head, *self._fixed]
        for slot, found in zip(self._special, self._pick(values), strict=True):
            value = found if type(found) is str else as_text(found)
            if slot is not None:
                if slot.is_link:
                    written = mime.quoted_printable(value)
                    pieces += (written, written)
                    continue
                if scheme := html_rules.dangerous_url(value):
                    raise UnsafeValue("The value of {path} is a {scheme} URL.", path=".".join(slot.path), scheme=scheme)
            pieces += (
                _cached_link(value)
                if "/" in value
                else _cached_value(value)
                if len(value) <= _SHORT
                else _encode(value)
            )
        return b"".join(self._arrange(pieces))


def _value_picker(paths: list[Path]) -> Callable[[Values], Iterable[Any]]:
    def carefully(values: Values) -> list[Any]:
        return [lookup(values, path) for path in paths]

    if len(paths) < 2 or any(len(path) > 1 for path in paths):
        return carefully
    at_once: Callable[[Values], tuple[Any, ...]] = itemgetter(*[path[0] for path in paths])

    def quickly(values: Values) -> Iterable[Any]:
        try:
            return at_once(values)
        except LookupError:
            return carefully(values)  # raises an error that names the missing value

    return quickly


def _encode(value: str) -> tuple[bytes, bytes]:
    """Encode a value for a quoted-printable part: as HTML, and as text."""
    if _SAME_EVERYWHERE.fullmatch(value):
        encoded = value.encode("ascii")
        return encoded, encoded
    escaped = escape(value)
    encoded = mime.quoted_printable(escaped)
    return encoded, encoded if escaped is value else mime.quoted_printable(value)


# Values such as names, towns and plans repeat. A cached value takes 0.1 µs instead of 1 to 3 µs.
_cached_value = lru_cache(maxsize=4_096)(_encode)


def _cached_link(value: str) -> tuple[bytes, bytes]:
    """Encode a link with a cached beginning, because the recipients' links differ only in their last values.

    This takes 2 to 5 µs instead of 5 to 19 µs.
    """
    cut = max(value.rfind("/"), value.rfind("=")) + 1
    joint = value.rfind("&", 0, cut)
    start = cut if joint < 0 else max(value.rfind("/", 0, joint), value.rfind("=", 0, joint)) + 1
    last = _encode_token(value[cut:])
    if start > _LONGEST_START or last is None:
        return _encode(value)
    as_html, as_text = _cached_value(value[:start])
    if joint < 0:
        return as_html + last, as_text + last
    first = _encode_token(value[start:joint])
    if first is None or cut - joint > _SHORT:
        return _encode(value)
    joint_as_html, joint_as_text = _cached_value(value[joint:cut])
    first += _SOFT_BREAK
    return as_html + first + joint_as_html + last, as_text + first + joint_as_text + last


def _encode_token(token: str) -> bytes | None:
    """Put a token on one or two separate lines. Return None if it needs encoding or a line would begin with a dot."""
    if not _TOKEN.fullmatch(token) or token[:1] == "." or token[_TOKEN_LINE : _TOKEN_LINE + 1] == ".":
        return None
    end = f"=\r\n{token}" if len(token) <= _TOKEN_LINE else f"=\r\n{token[:_TOKEN_LINE]}=\r\n{token[_TOKEN_LINE:]}"
    return end.encode("ascii")


def _fixed_lines(shared: SharedHeaders) -> str:
    lines = [headers.custom_header(name, value) for name, value in shared.headers.items()]
    if shared.reply_to:
        lines.append(headers.mailboxes("Reply-To", shared.reply_to, field="reply_to"))
    if shared.feedback_id:
        lines.append(headers.opaque("Feedback-ID", shared.feedback_id, field="feedback_id"))
    return "\r\n".join([*lines, "MIME-Version: 1.0", ""])


class _Subject:
    """The fixed pieces of a subject, and its values."""

    __slots__ = ("_pick", "_pieces")

    def __init__(self, flat: FlatTemplate) -> None:
        self._pieces = flat.pieces
        self._pick = _value_picker(list(flat.paths))

    def fill(self, values: Values) -> str:
        subject, *following = self._pieces
        for value, piece in zip(self._pick(values), following, strict=True):
            subject += (value if type(value) is str else as_text(value)) + piece
        if problem := subject_rules.subject_problem(subject):
            raise InvalidTemplate(problem)
        return subject


def _make_plan(template: Template, links: LinkRewriter | None) -> _Plan | None:
    """Prepare all parts of the template. Return None if the engine must render a part for every recipient."""
    html = template.html.flat if template.html else None
    if template.html and html is None:
        return None
    text, addresses = (template.text.flat, ()) if template.text else _derive_text(html)
    if text is None:
        return None
    urls = _url_slots(html) if html else frozenset[int]()
    if urls is None:
        return None
    begin_urls = {html.paths[number] for number in urls} if html else set[Path]()
    if links is None:
        return _encode_plan(html, text, begin_urls, addresses, None)
    personal = _Personal(links)
    html, text = _track(html, personal) if html else None, _add_parameters(text, personal)
    return _encode_plan(html, text, begin_urls, addresses, personal)


def _track(html: FlatTemplate, personal: _Personal) -> FlatTemplate:
    """Replace the links of the HTML by slots: one for the recipient's token, one for each link with their values."""
    links, paths = personal.rewriter, [*html.paths, _RECIPIENT_PART]
    end = f"{MARK_START}{len(html.paths)}{MARK_END}" if links.is_individual else ""

    def replacement(value: str) -> str | None:
        pieces, numbers = split_marks(value)
        url, own = url_of(value), tuple(html.paths[number] for number in numbers)
        if not numbers and (fixed := links.fixed_href(url, end)) is not None:
            return fixed
        is_own_page = any(path[-1] in RECIPIENT_LINKS for path in own)
        begins_with_value = bool(numbers) and not pieces[0].strip()
        is_changed = begins_with_value or links.is_tracked(url) or links.takes_parameters(url)
        if not (end or links.parameters) or is_own_page or not is_changed:
            return None
        path = (f"{_PERSONAL_LINK}{len(personal.links)}",)
        personal.links[path] = FlatTemplate(tuple(unescape_attribute(piece) for piece in pieces), own)
        paths.append(path)
        return f"{MARK_START}{len(paths) - 1}{MARK_END}"

    unchanged = _with_marks(html, f"{MARK_START}{{}}{MARK_END}")
    changed = replace_hrefs(unchanged, replacement)
    marked = links.add_pixel(changed, end, has_links=changed != unchanged)
    pieces, numbers = split_marks(marked)
    return FlatTemplate(tuple(pieces), tuple(paths[number] for number in numbers))


def _add_parameters(text: FlatTemplate, personal: _Personal) -> FlatTemplate:
    """Add the parameters to the links of the text, and replace words with values by slots: they can be links too."""
    if not personal.rewriter.parameters:
        return text
    paths = [*text.paths]

    def replacement(word: re.Match[str]) -> str:
        pieces, numbers = split_marks(word[0])
        own = tuple(text.paths[number] for number in numbers)
        if "://" not in word[0] and any(path[-1] in RECIPIENT_LINKS for path in own):
            return word[0]
        path = (f"{_PERSONAL_WORD}{len(personal.words)}",)
        personal.words[path] = FlatTemplate(tuple(pieces), own)
        paths.append(path)
        return f"{MARK_START}{len(paths) - 1}{MARK_END}"

    marked = _WORD_WITH_VALUE.sub(replacement, _with_marks(text, f"{MARK_START}{{}}{MARK_END}"))
    pieces, numbers = split_marks(marked)
    return FlatTemplate(tuple(map(personal.rewriter.rewrite_text, pieces)), tuple(paths[number] for number in numbers))


def _derive_text(html: FlatTemplate | None) -> tuple[FlatTemplate | None, tuple[Path, ...]]:
    """Derive the text from the HTML with its slots, and return it with the slots that are a whole link address."""
    if html is None:
        return FlatTemplate(("",), ()), ()
    marked = _with_marks(html, f"{MARK_START}{{}}{MARK_END}")
    links = [*plain_text.links(marked)]
    if any(_text_may_be_address(*link) for link in links):
        return None, ()
    pieces, numbers = split_marks(plain_text.from_html(marked))
    whole = [split_marks(address) for _, address in links]
    addresses = [html.paths[found[0]] for around, found in whole if len(found) == 1 and not "".join(around).strip()]
    return FlatTemplate(tuple(pieces), tuple(html.paths[number] for number in numbers)), tuple(addresses)


def _text_may_be_address(shown: str, address: str) -> bool:
    """Return whether a link's text can be empty or equal to its address, depending on the values.

    The plain text then contains the address only once, so the engine must render it.
    """
    if MARK_START not in shown + address:
        return False
    fixed = "".join(split_marks(shown)[0]).strip()
    is_all_values = not fixed and MARK_START in shown
    return is_all_values or fixed.startswith(("https://", "http://")) or "@" in fixed


def _with_marks(flat: FlatTemplate, mark: str) -> str:
    marks = [mark.format(number) for number in range(len(flat.paths))]
    return "".join([flat.pieces[0], *[part for pair in zip(marks, flat.pieces[1:], strict=True) for part in pair]])


def _url_slots(html: FlatTemplate) -> frozenset[int] | None:
    """Return the slots that begin a URL, or None if a value could do more than fill a text or one attribute.

    A mark has a space on either side of its number, so that outside of quotes it is parsed as several attributes and
    not found as a whole. It begins with a letter, so that right after a `<` it makes a tag, as a value would.
    """
    if any(_OPEN_ENTITY.search(piece) for piece in html.pieces[:-1]):
        return None
    urls: set[int] = set()
    seen: set[int] = set()
    for place in html_rules.html_values(_with_marks(html, f"{_LETTER_MARK}{{}} {MARK_END}")):
        names = f"{place.tag}{place.attribute}"
        marks = [int(number) for number in _SPACED_MARK.findall(place.value)]
        if MARK_START in names or MARK_END in names or place.value.count(MARK_START) != len(marks):
            return None
        if not marks:
            continue
        seen.update(marks)
        risk = _slot_risk(place)
        if risk is _SlotRisk.ENGINE:
            return None
        if risk is _SlotRisk.URL:
            urls.add(marks[0])
    return frozenset(urls) if len(seen) == len(html.paths) else None


class _SlotRisk(Enum):
    NONE = "an escaped value is harmless here"
    URL = "the value decides the scheme of a URL"
    ENGINE = "only the rendered HTML shows the risk"


def _slot_risk(place: html_rules.HtmlValue) -> _SlotRisk:
    tag, attribute = place.tag.removeprefix("x-"), place.attribute
    if attribute is None:
        return _SlotRisk.ENGINE if tag in _UNESCAPED_TEXT else _SlotRisk.NONE
    if tag == "meta" or attribute in _COMPOSED or attribute.startswith("on"):
        return _SlotRisk.ENGINE
    if attribute in html_rules.TEXT_ATTRIBUTES or attribute.startswith(("aria-", "data-")):
        return _SlotRisk.NONE
    before, _, after = place.value.partition(_LETTER_MARK)
    before = before.strip().lower()
    if before.startswith("data:"):
        return _SlotRisk.ENGINE
    if _SCHEME_IS_OVER.search(before):
        return _SlotRisk.NONE
    rest = _PATH_BEGINS.split(after.partition(MARK_END)[2], maxsplit=1)[0]
    return _SlotRisk.ENGINE if before or ":" in rest or MARK_START in rest else _SlotRisk.URL


def _encode_plan(
    html: FlatTemplate | None,
    text: FlatTemplate,
    begin_urls: Collection[Path],
    addresses: tuple[Path, ...],
    personal: _Personal | None,
) -> _Plan:
    paths = list(dict.fromkeys([*text.paths, *(html.paths if html else ())]))
    opening, *between, closing = _FRAME_OF_BOTH if html else _FRAME_OF_TEXT
    pieces: list[bytes | _ValueSlot] = [opening, *_lay_out(text, as_html=False)]
    if html:
        pieces += [*between, *_lay_out(html, as_html=True)]
    fixed, order = [], [0]  # The first piece is the head.
    for piece in [*pieces, closing]:
        if isinstance(piece, bytes):
            fixed.append(piece)
            order.append(len(fixed))
        else:
            order.append(-2 * (len(paths) - paths.index(piece.path)) + (0 if piece.as_html else 1))
    return _Plan(
        fixed,
        [_Slot(path, path in begin_urls, path[0].startswith(MARK_START)) for path in paths],
        order,
        addresses,
        personal,
    )


class _ValueSlot(NamedTuple):
    """A slot of the layout, and whether its value is written as HTML or as text."""

    path: Path
    as_html: bool


def _lay_out(flat: FlatTemplate, *, as_html: bool) -> Iterator[bytes | _ValueSlot]:
    """Put every value on separate lines between soft line breaks, which recipients do not see, so any length fits."""
    last = len(flat.pieces) - 1
    for number, piece in enumerate(flat.pieces):
        fixed = mime.quoted_printable(piece)
        if number > 0 and (fixed or number < last):
            fixed = _SOFT_BREAK + fixed
        if number == last:
            yield fixed
            return
        yield fixed if not piece or piece.endswith("\n") else fixed + _SOFT_BREAK
        yield _ValueSlot(flat.paths[number], as_html)


def _split_frame(body: bytes) -> list[bytes]:
    return body.split(b"@@")


_FRAME_OF_BOTH = _split_frame(
    mime.alternative(_IDENTITY, [mime.text_part("plain", "@@"), mime.text_part("html", "@@")])
)
_FRAME_OF_TEXT = _split_frame(mime.text_part("plain", "@@") + b"\r\n")
