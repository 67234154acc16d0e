"""Mark the text of HTML that has the tags of an earlier email, without reading its tags again.

The emails of one application repeat their tags; only some texts and links differ. A skeleton has the chunks of an
email (the HTML, split at every `<`) and says what each chunk adds to the marked text (see `text_lines`). Another email
with as many chunks fits if the chunks that never differed are the same, and the others have the same tags.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from html import unescape
from operator import itemgetter, ne
from threading import Lock
from typing import NamedTuple

from mailwright.content import text_lines

# The beginning of nearly every link; the value is cut at the next quote.
HREF = 'a href="'
_PLAIN_ADDRESSES = ("https://", "http://")

# Emails with more chunks are rare, and would make the skeletons large.
_MAX_CHUNKS = 4_000
_MAX_SKELETONS = 32
# After this number of emails in turn that did not fit, few of the next are learned from.
_MAX_FAILURES = 24
_SELDOM = 256


class Slot(NamedTuple):
    """What a chunk adds to the marked text: the mark of its tag and its text, or nothing if the text is not shown.

    For a plain link, `rest` is what follows the address in its tag. The text of the link is its only content.
    """

    opening: str  # The tag with its `>`, which is the same in every email. For a plain link, it is not used.
    mark: str = ""
    is_shown: bool = True
    rest: str | None = None


class Trace(NamedTuple):
    """How an email was read: the slots that may differ, by chunk, and the marked text that each chunk added."""

    slots: dict[int, Slot]
    added: list[str]


def unescaped(text: str) -> str:
    return unescape(text) if "&" in text else text


def write_plain_link(address: str, text: str) -> str:
    """Return the text of a link whose content is only text; an empty string if it needs a closer look."""
    if not address.startswith(_PLAIN_ADDRESSES):
        return ""
    if "&" in address:
        if address.count("&") != address.count("&amp;"):
            return ""
        address = address.replace("&amp;", "&")
    text = unescaped(text)
    shown = text.strip() if text.isascii() else text_lines.words_of(text)
    return f"{text} ({address})" if shown and shown not in address else ""


class Skeletons:
    """The skeletons of recent emails, by their number of chunks. Threads may share them.

    A skeleton never changes. A lock protects the collection, but is not held while an email is read.
    """

    def __init__(self, trace: Callable[[Sequence[str]], Trace | None]) -> None:
        self._trace = trace
        self._known: OrderedDict[int, _Skeleton | Sequence[str]] = OrderedDict()
        # By number of chunks of a known email: emails since the last one that fitted.
        self._failures: dict[int, int] = {}
        self._lock = Lock()

    def fill(self, chunks: Sequence[str]) -> str | None:
        """Return the marked text of an email; None if no skeleton fits."""
        known = self._known.get(len(chunks))
        marked = known.fill(chunks) if isinstance(known, _Skeleton) else None
        if marked is not None:
            with self._lock:
                self._failures.pop(len(chunks), None)
        return marked

    def learn(self, chunks: Sequence[str]) -> None:
        """Remember an email that no skeleton fits. The second email with the same tags makes a skeleton."""
        count = len(chunks)
        if count > _MAX_CHUNKS:
            return
        with self._lock:
            failures = self._failures[count] = self._failures.get(count, 0) + 1
            known = self._known.get(count)
        if failures > _MAX_FAILURES and failures % _SELDOM:
            return
        learned = self._learned(known, chunks) or chunks
        with self._lock:
            self._known[count] = learned
            self._known.move_to_end(count)
            if len(self._known) > _MAX_SKELETONS:
                self._failures.pop(self._known.popitem(last=False)[0], None)

    def _learned(self, known: "_Skeleton | Sequence[str] | None", chunks: Sequence[str]) -> "_Skeleton | None":
        if known is None:
            return None
        before = known.chunks if isinstance(known, _Skeleton) else known
        differing = {number for number, differs in enumerate(map(ne, before, chunks)) if differs}
        if isinstance(known, _Skeleton):
            differing |= known.varying
        if 2 * len(differing) > len(chunks):
            return None
        trace = known.trace if isinstance(known, _Skeleton) else self._trace(before)
        if trace is None or not differing <= trace.slots.keys():
            return None
        skeleton = _Skeleton(before, trace, differing)
        return skeleton if skeleton.fill(chunks) is not None else None


class _Text(NamedTuple):
    """A chunk whose text differs between emails, and its place in the pieces of the marked text."""

    chunk: int
    place: int
    opening: str
    length: int
    mark: str


class _Link(NamedTuple):
    """A plain link that differs between emails, and its place in the pieces of the marked text."""

    chunk: int
    place: int
    rest: str


class _Skeleton:
    """The chunks of an email, and which of them vary: at most half."""

    __slots__ = ("_fixed", "_fixed_chunks", "_hidden", "_links", "_pieces", "_texts", "chunks", "trace", "varying")

    def __init__(self, chunks: Sequence[str], trace: Trace, varying: set[int]) -> None:
        self.chunks, self.trace, self.varying = chunks, trace, varying
        self._fixed = itemgetter(*[number for number in range(len(chunks)) if number not in varying])
        self._fixed_chunks = self._fixed(chunks)
        self._hidden: list[tuple[int, str]] = []
        self._texts: list[_Text] = []
        self._links: list[_Link] = []
        self._pieces: list[str] = [""]
        for number, added in enumerate(trace.added):
            slot = trace.slots[number] if number in varying else None
            if slot is None:
                self._pieces[-1] += added
            elif not slot.is_shown:
                self._hidden.append((number, slot.opening))
            else:
                place = len(self._pieces)
                self._pieces += ["", ""]
                if slot.rest is not None:
                    self._links.append(_Link(number, place, slot.rest))
                else:
                    self._texts.append(_Text(number, place, slot.opening, len(slot.opening), slot.mark))

    def fill(self, chunks: Sequence[str]) -> str | None:
        if self._fixed(chunks) != self._fixed_chunks:
            return None
        for number, opening in self._hidden:
            if not chunks[number].startswith(opening):
                return None
        pieces = self._pieces.copy()
        for number, place, opening, length, mark in self._texts:
            chunk = chunks[number]
            if not chunk.startswith(opening):
                return None
            text = chunk[length:]
            pieces[place] = mark + (unescape(text) if "&" in text else text)
        for number, place, rest in self._links:
            tag, _, text = chunks[number].partition(">")
            address, quote, after = tag[len(HREF) :].partition('"')
            if not quote or after != rest or not tag.startswith(HREF):
                return None
            link = write_plain_link(address, text)
            if not link:
                return None
            pieces[place] = link
        return "".join(pieces)
