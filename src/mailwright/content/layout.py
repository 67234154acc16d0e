"""Layouts: a campaign's mail is laid out once, and a recipient's mail is one join of ready pieces.

What only puts variables between fixed text is encoded at compile time, with slots for the values. Anything more is
rendered for each recipient by the engine and put into the same frame. Both roads give the same mail.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from mailwright.content import headers, mime
from mailwright.content import html as html_rules
from mailwright.content import subject as subject_rules
from mailwright.content import text as plain_text
from mailwright.content.headers import Mailbox, Unsubscribe
from mailwright.content.template import (
    MARK_END,
    MARK_START,
    Flat,
    MissingVariable,
    Path,
    Template,
    TemplateFailed,
    UnsafeValue,
    Values,
    as_text,
    escape,
    lookup,
    split_marks,
)
from mailwright.domain.clock import Instant

__all__ = ["Addressed", "Frame", "Layout", "Layouts", "MissingVariable", "TemplateFailed", "UnsafeValue"]


@dataclass(frozen=True, slots=True)
class Addressed:
    """What changes with every recipient beside the values."""

    to: Mailbox
    message_id: str
    date: Instant
    outbox_id: str
    unsubscribe_url: str | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """What stays the same for every recipient beside the template."""

    sender: Mailbox
    reply_to: Mailbox | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    feedback_id: str | None = None
    unsubscribe_mailto: str | None = None


class Layout:
    """Compiled once and used from any thread: filling changes nothing in it."""

    def __init__(self, template: Template, frame: Frame) -> None:
        self._template = template
        self._subject = template.subject.flat
        self._plan = _plan(template)
        self._mailto = frame.unsubscribe_mailto
        self._sender = headers.mailboxes("From", [frame.sender], field="from")
        self._fixed_lines = _fixed_lines(frame)

    @classmethod
    def compile(cls, frame: Frame, *, subject: str, html: str | None, text: str | None = None) -> "Layout":
        """Everything that is wrong with a template is raised here, except what depends on a value."""
        return cls(Template(subject=subject, html=html, text=text), frame)

    @property
    def variables(self) -> frozenset[str]:
        return self._template.variables

    @property
    def is_flat(self) -> bool:
        return self._subject is not None and self._plan is not None

    def fill(self, addressed: Addressed, values: Values) -> bytes:
        """The whole mail for one recipient."""
        if self._subject is None or self._plan is None:
            return self._rendered(addressed, values)
        subject = _fill_subject(self._subject, values)
        pieces = self._plan.fill(values)
        pieces[0] = self._head(addressed, subject)
        return b"".join(pieces)

    def _rendered(self, addressed: Addressed, values: Values) -> bytes:
        subject, html, text = self._template.render(values)
        body = mime.text_part("plain", text or "")
        if html is None:
            return b"".join([self._head(addressed, subject), body, b"\r\n"])
        body = mime.alternative(_IDENTITY, [body, mime.text_part("html", html)])
        return self._head(addressed, subject) + body

    def _head(self, addressed: Addressed, subject: str) -> bytes:
        lines = [
            self._sender,
            headers.mailboxes("To", [addressed.to], field="to"),
            headers.unstructured("Subject", subject, field="subject"),
            headers.date_line(addressed.date),
            headers.message_id_line(addressed.message_id),
            headers.opaque("X-Mailwright-Message", addressed.outbox_id, field="outbox_id"),
        ]
        if addressed.unsubscribe_url:
            lines.append(headers.list_unsubscribe(Unsubscribe(addressed.unsubscribe_url, self._mailto)))
        lines.append(self._fixed_lines)
        return "\r\n".join(lines).encode("ascii")


class Layouts:
    """The layouts in use, by the id of their version. The least recently used makes room for a new one."""

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._layouts: OrderedDict[Hashable, Layout] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, version: Hashable, compiled: Callable[[], Layout]) -> Layout:
        with self._lock:
            if version in self._layouts:
                self._layouts.move_to_end(version)
                return self._layouts[version]
        # Compiling takes milliseconds, and the same layout twice does no harm: others need not wait for it.
        layout = compiled()
        with self._lock:
            self._layouts[version] = layout
            while len(self._layouts) > self._capacity:
                self._layouts.popitem(last=False)
        return layout


# The boundary needs no message id: it cannot occur in encoded text, so one does for every mail.
_IDENTITY = "layout"
_SOFT_BREAK = b"=\r\n"

# Names and numbers, mostly: neither escaping nor encoding changes them, and they fit on a line.
_SAME_EVERYWHERE = re.compile(r"[A-Za-z0-9_:,!+-](?:[ A-Za-z0-9_:,.!+@-]{0,60}[A-Za-z0-9_:,!+-])?")
_LETTER_MARK = f"x{MARK_START} "
_SPACED_MARK = re.compile(f"{_LETTER_MARK}(\\d+) {MARK_END}")
# A value could complete it: `&` and `#106;` make a letter.
_OPEN_ENTITY = re.compile(r"&[#\w]*$")
_SCHEME_IS_OVER = re.compile("[:/?#]")
_PATH_BEGINS = re.compile("[/?#]")
# No entity is resolved inside these, or nobody has looked inside.
_UNESCAPED_TEXT = frozenset(
    [html_rules.TOO_MUCH, "style", "script", "xmp", "iframe", "noembed", "noframes", "noscript", "plaintext"]
)
# Attributes with a language of their own, of which a URL is only a part.
_COMPOSED = frozenset(["style", "srcset", "imagesrcset", "srcdoc", "values", "ping", "archive"])


@dataclass(slots=True)
class _Slot:
    """A variable, and where its value goes: positions in the list of pieces, as HTML and as text."""

    path: Path
    is_url: bool = False
    html: list[int] = field(default_factory=list)
    text: list[int] = field(default_factory=list)
    both: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Plan:
    pieces: list[bytes]
    slots: list[_Slot]

    def fill(self, values: Values) -> list[bytes]:
        pieces = self.pieces.copy()
        for slot in self.slots:
            value = as_text(lookup(values, slot.path))
            if slot.is_url and (scheme := html_rules.dangerous_url(value)):
                raise UnsafeValue(f"the value of {'.'.join(slot.path)} is a {scheme} URL")
            if _SAME_EVERYWHERE.fullmatch(value):
                encoded = value.encode("ascii")
                for position in slot.both:
                    pieces[position] = encoded
                continue
            if slot.html:
                encoded = mime.quoted_printable(escape(value))
                for position in slot.html:
                    pieces[position] = encoded
            if slot.text:
                encoded = mime.quoted_printable(value)
                for position in slot.text:
                    pieces[position] = encoded
        return pieces


def _fixed_lines(frame: Frame) -> str:
    lines = [headers.custom(name, value) for name, value in frame.headers.items()]
    if frame.reply_to:
        lines.append(headers.mailboxes("Reply-To", [frame.reply_to], field="reply_to"))
    if frame.feedback_id:
        lines.append(headers.opaque("Feedback-ID", frame.feedback_id, field="feedback_id"))
    return "\r\n".join([*lines, "MIME-Version: 1.0", ""])


def _fill_subject(flat: Flat, values: Values) -> str:
    subject = flat.pieces[0]
    for path, piece in zip(flat.paths, flat.pieces[1:], strict=True):
        subject += as_text(lookup(values, path)) + piece
    if found := subject_rules.objection(subject):
        raise TemplateFailed(found)
    return subject


def _plan(template: Template) -> _Plan | None:
    """None where a part needs the engine for every recipient."""
    html = template.html.flat if template.html else None
    if template.html and html is None:
        return None
    text = template.text.flat if template.text else _derived(html)
    if text is None:
        return None
    urls = _url_slots(html) if html else frozenset[int]()
    if urls is None:
        return None
    return _encoded(html, text, urls)


def _derived(html: Flat | None) -> Flat | None:
    """The text of the HTML with the slots still in it."""
    if html is None:
        return Flat(("",), ())
    pieces, numbers = split_marks(plain_text.from_html(_marked(html, f"{MARK_START}{{}}{MARK_END}")))
    return Flat(tuple(pieces), tuple(html.paths[number] for number in numbers))


def _marked(flat: Flat, mark: str) -> str:
    marks = [mark.format(number) for number in range(len(flat.paths))]
    return "".join([flat.pieces[0], *[part for pair in zip(marks, flat.pieces[1:], strict=True) for part in pair]])


def _url_slots(html: Flat) -> frozenset[int] | None:
    """The slots that begin a URL. None where a value could do more than fill in a text or one attribute.

    A mark has a blank on either side of its number: outside of quotes it falls apart, and is not found as a whole.
    It begins with a letter: right after a `<` it makes a tag, as a value would.
    """
    if any(_OPEN_ENTITY.search(piece) for piece in html.pieces[:-1]):
        return None
    urls: set[int] = set()
    seen: set[int] = set()
    for place in html_rules.places(_marked(html, f"{_LETTER_MARK}{{}} {MARK_END}")):
        names = f"{place.tag}{place.attribute}"
        marks = [int(number) for number in _SPACED_MARK.findall(place.value)]
        if MARK_START in names or MARK_END in names or place.value.count(MARK_START) != len(marks):
            return None
        if not marks:
            continue
        seen.update(marks)
        verdict = _verdict(place)
        if verdict is _Verdict.ENGINE:
            return None
        if verdict is _Verdict.URL:
            urls.add(marks[0])
    return frozenset(urls) if len(seen) == len(html.paths) else None


class _Verdict(Enum):
    PLAIN = "an escaped value can do no harm here"
    URL = "a value decides on the scheme of a URL"
    ENGINE = "only the finished HTML can tell"


def _verdict(place: html_rules.Place) -> _Verdict:
    tag, attribute = place.tag.removeprefix("x-"), place.attribute
    if attribute is None:
        return _Verdict.ENGINE if tag in _UNESCAPED_TEXT else _Verdict.PLAIN
    if tag == "meta" or attribute in _COMPOSED or attribute.startswith("on"):
        return _Verdict.ENGINE
    if attribute in html_rules.TEXT_ATTRIBUTES or attribute.startswith(("aria-", "data-")):
        return _Verdict.PLAIN
    before, _, after = place.value.partition(_LETTER_MARK)
    before = before.strip().lower()
    if before.startswith("data:"):
        return _Verdict.ENGINE
    if _SCHEME_IS_OVER.search(before):
        return _Verdict.PLAIN
    rest = _PATH_BEGINS.split(after.partition(MARK_END)[2], maxsplit=1)[0]
    return _Verdict.ENGINE if before or ":" in rest or MARK_START in rest else _Verdict.URL


def _encoded(html: Flat | None, text: Flat, urls: Iterable[int]) -> _Plan:
    """The first piece is kept for the headers."""
    slots: dict[Path, _Slot] = {}
    opening, *between, closing = _FRAME_OF_BOTH if html else _FRAME_OF_TEXT
    pieces = [b"", opening]
    for path, position in _lay_out(text, pieces):
        slots.setdefault(path, _Slot(path)).text.append(position)
    if html:
        pieces.extend(between)
        for path, position in _lay_out(html, pieces):
            slots.setdefault(path, _Slot(path)).html.append(position)
        for number in urls:
            slots[html.paths[number]].is_url = True
    pieces.append(closing)
    for slot in slots.values():
        slot.both = [*slot.html, *slot.text]
    return _Plan(pieces, list(slots.values()))


def _lay_out(flat: Flat, pieces: list[bytes]) -> Iterator[tuple[Path, int]]:
    """Every value stands on lines of its own, between soft breaks that a reader does not see: any length fits."""
    last = len(flat.pieces) - 1
    for number, piece in enumerate(flat.pieces):
        fixed = mime.quoted_printable(piece)
        if number > 0 and (fixed or number < last):
            fixed = _SOFT_BREAK + fixed
        if number == last:
            pieces.append(fixed)
            return
        pieces.append(fixed if not piece or piece.endswith("\n") else fixed + _SOFT_BREAK)
        pieces.append(b"")
        yield flat.paths[number], len(pieces) - 1


def _frame(body: bytes) -> list[bytes]:
    return body.split(b"@@")


_FRAME_OF_BOTH = _frame(mime.alternative(_IDENTITY, [mime.text_part("plain", "@@"), mime.text_part("html", "@@")]))
_FRAME_OF_TEXT = _frame(mime.text_part("plain", "@@") + b"\r\n")
