"""Write header lines: 7-bit, folded, and encoded if needed. A value can never add another header or a recipient."""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from time import gmtime
from typing import Any, NamedTuple

from mailwright.domain import address as addresses
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.translation import lazy_gettext


class InvalidHeader(InvalidInput, ValueError):
    """A header name or value is not allowed."""

    code = "INVALID_HEADER"


class Mailbox(NamedTuple):
    address: str
    name: str | None = None


def parse_mailbox(value: Any) -> Mailbox:
    """Parse `name@example.com`, `Name <name@example.com>` or an object with `email` and `name`."""
    if isinstance(value, Mapping):
        return Mailbox(value["email"], value.get("name"))
    name, email = addresses.split_mailbox(str(value))
    return Mailbox(email, name)


class UnsubscribeTargets(NamedTuple):
    """The List-Unsubscribe targets: a URL for one-click unsubscribe, and an optional mailto: address."""

    url: str
    mailto: str | None = None


_OURS = """
    apparently-to authentication-results bcc cc date delivered-to dkim-signature from message-id
    mime-version received received-spf reply-to return-path sender subject to x-original-to
"""
# Headers that senders cannot set: Mailwright writes them itself, or they would add a recipient, forge a trace header,
# or change how the content is parsed.
RESERVED = frozenset(_OURS.split())
# Prefixes of headers that are commands to a provider; some of them add recipients.
PROVIDER_COMMANDS = ("x-mailgun-", "x-mc-", "x-mj-", "x-msys-api", "x-pm-", "x-ses-", "x-smtpapi")
# Headers that raw email may have, because Mailwright reads and removes them.
PROVIDER_METADATA_PREFIX = "x-pm-metadata-"
_READ = """
    x-mailgun-tag x-mailgun-track x-mailgun-track-clicks x-mailgun-track-opens x-mailgun-variables x-mc-metadata
    x-mc-tags x-mc-track x-pm-keepid x-pm-message-stream x-pm-tag x-pm-tracklinks x-pm-trackopens
    x-ses-configuration-set x-ses-message-tags x-smtpapi
"""
PROVIDER_OPTIONS = frozenset(_READ.split())
RESERVED_PREFIXES = ("arc-", "content-", "resent-", "x-mailwright-", *PROVIDER_COMMANDS)
# Headers of one-click unsubscribe. Senders can set them in email for which Mailwright does not write them.
UNSUBSCRIBE_HEADERS = frozenset({"list-unsubscribe", "list-unsubscribe-post"})

# Mailwright writes this one unless the sender set it.
FEEDBACK_ID = "feedback-id"
# The key by which the program that requested the message recognises duplicates.
DEDUPE_KEY = "X-Dedupe-Key"

# RFC 5322 forbids longer lines. Lines are folded before column 78 where possible.
MAX_LINE = 998
PREFERRED_LINE = 76

# Every character that some program treats as a line end, all other control characters, and surrogates.
_UNWRITABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LINE_BREAK = lazy_gettext("a line break")
_NAMES = {"\r": _LINE_BREAK, "\n": _LINE_BREAK, "\0": lazy_gettext("a NUL character")}
_LINE_BREAKS = frozenset("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")

_FIELD_NAME = re.compile(r"[!-9;-~]{1,76}")
_OPAQUE = re.compile(r"[!-~]+(?: [!-~]+)*")
_URI = re.compile(r"[a-z]+:[!-;=?-~]+")
_MESSAGE_ID = re.compile(r"<[!-;=?A-~]+@[!-;=?A-~]+>")
_ATEXT = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_ATOMS = re.compile(rf"{_ATEXT}(?: {_ATEXT})*")
_PLAIN_ADDRESS = re.compile(rf"{_ATEXT}(?:\.{_ATEXT})*@[a-z0-9-]+(?:\.[a-z0-9-]+)+")
_PLAIN_TEXT = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_FOLD = re.compile(r"(?<=[^ ]) (?=[^ ])")

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def find_unwritable(text: str) -> str | None:
    """Return a name for the first character that no header may contain, or None."""
    match = _UNWRITABLE.search(text)
    if not match:
        return None
    character, code = match[0], f"U+{ord(match[0]):04X}"
    if character in _LINE_BREAKS:
        return lazy_gettext("a line break ({code})", code=code)
    return _NAMES.get(character) or lazy_gettext("a control character ({code})", code=code)


def custom_header(name: str, value: str, *, has_unsubscribe: bool = False) -> str:
    """Return the line of a header that the sender has set.

    `has_unsubscribe`: whether Mailwright writes List-Unsubscribe.
    """
    if not _FIELD_NAME.fullmatch(name):
        raise InvalidHeader("{name} is not a header name.", field="headers", name=repr(name[:80]))
    lowered, field = name.lower(), f"headers.{name}"
    is_unsubscribe = lowered in UNSUBSCRIBE_HEADERS
    if lowered in RESERVED or lowered.startswith(RESERVED_PREFIXES) or (is_unsubscribe and has_unsubscribe):
        raise InvalidHeader("The header {name} is written by Mailwright and cannot be set.", field="headers", name=name)
    value = value.strip(" \t")
    is_opaque = is_unsubscribe or lowered == FEEDBACK_ID
    return opaque(name, value, field=field) if is_opaque else unstructured(name, value, field=field)


def unstructured(name: str, text: str, *, field: str) -> str:
    """Return `Name: text` for free text. Non-ASCII text becomes encoded words."""
    if _PLAIN_TEXT.fullmatch(text) and "=?" not in text and len(name) + 2 + len(text) <= PREFERRED_LINE:
        return f"{name}: {text}"  # Most subjects and nearly all other texts need no encoding.
    _check(field, text)
    text = text.replace("\t", " ")
    line = f"{name}: {text}"
    if text.isascii() and "=?" not in text and text.strip(" ") == text:
        if len(line) <= PREFERRED_LINE:
            return line
        folded = _fold(line)
        if all(len(part) <= MAX_LINE for part in folded.split("\r\n")):
            return folded
    return f"{name}: {_encoded_words(text, len(name) + 2)}"


def opaque(name: str, value: str, *, field: str) -> str:
    """Return a header with a machine-readable value on one line, never encoded, as one-click unsubscribe requires."""
    line = f"{name}: {value}"
    if not _OPAQUE.fullmatch(value) or len(line) > MAX_LINE:
        raise InvalidHeader("{name} must be one line of visible ASCII characters.", field=field, name=field)
    return line


def mailboxes(name: str, boxes: Iterable[Mailbox], *, field: str) -> str:
    """Return `Name: "Jane Doe" <jane@example.com>`, with each further mailbox on a line of its own."""
    start = len(name) + 2
    return f"{name}: " + ",\r\n ".join([_mailbox(box, start, field) for box in boxes])


def mailbox(name: str, box: Mailbox, *, field: str) -> str:
    """Return the line of a single mailbox."""
    return f"{name}: {_mailbox(box, len(name) + 2, field)}"


def list_unsubscribe(unsubscribe: UnsubscribeTargets) -> str:
    """Return both headers of RFC 8058, each on one line, because programs do not parse folded or encoded ones."""
    if not unsubscribe.url.startswith(("https://", "http://")):
        raise InvalidHeader("The unsubscribe URL must begin with https:// or http://.", field="unsubscribe")
    url, mailto = unsubscribe
    if not _URI.fullmatch(url) or (mailto and not _URI.fullmatch(mailto)):
        raise InvalidHeader("The unsubscribe URL must be visible ASCII without < and >.", field="unsubscribe")
    line = f"List-Unsubscribe: <{url}>, <{mailto}>" if mailto else f"List-Unsubscribe: <{url}>"
    if len(line) > MAX_LINE:
        raise InvalidHeader("The unsubscribe URL is too long for one line.", field="unsubscribe")
    return f"{line}\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click"


def list_id(list_key: str, sender: str, tenant: str | None = None) -> str:
    """Return `<weekly.example.com>` (RFC 2919), the same for every email of a list, so that recipients can filter."""
    domain = _ascii_domain(addresses.domain_of(sender))
    return f"<{list_key}.{domain}>" if tenant is None else f"<{list_key}.{tenant}.{domain}>"


def message_id(outbox_id: str, domain: str) -> str:
    """Return `<outbox_id@domain>`, the same for every attempt, so that a duplicate is recognised."""
    return f"<{outbox_id}@{_ascii_domain(domain)}>"


def own_message_id(text: str) -> str:
    """Return the Message-ID that an application chose. Angle brackets that it left out are added."""
    identity = text.strip(" \t")
    return message_id_line(identity if identity.startswith("<") else f"<{identity}>").partition(" ")[2]


def message_id_line(identity: str) -> str:
    line = f"Message-ID: {identity}"
    if not _MESSAGE_ID.fullmatch(identity) or len(line) > MAX_LINE:
        raise InvalidHeader("The message ID must look like <id@example.com>.", field="message_id")
    return line


def date_line(instant: Instant) -> str:
    return _date_line(instant // 1000)


# Cached, because the emails of a batch are built within a second or two and share their dates.
@lru_cache(maxsize=64)
def _date_line(seconds: int) -> str:
    time = gmtime(seconds)
    day, month = _DAYS[time.tm_wday], _MONTHS[time.tm_mon - 1]
    clock = f"{time.tm_hour:02}:{time.tm_min:02}:{time.tm_sec:02}"
    return f"Date: {day}, {time.tm_mday:02} {month} {time.tm_year} {clock} +0000"


@lru_cache(maxsize=256)
def _ascii_domain(domain: str) -> str:
    return addresses.parse(f"postmaster@{domain}")[1]


def _check(field: str, text: str) -> None:
    if what := find_unwritable(text):
        raise InvalidHeader("{name} contains {what}.", field=field, name=field, what=what)


def _mailbox(box: Mailbox, start: int, field: str) -> str:
    address = _address(box.address, field)
    if not box.name:
        return address
    _check(field, box.name)
    name = " ".join(box.name.split())
    if not name:
        return address
    phrase = _phrase(name, start)
    last_line = len(phrase) - phrase.rfind("\r\n") if "\r\n" in phrase else start + len(phrase)
    gap = " " if last_line + len(address) + 3 <= PREFERRED_LINE else "\r\n "
    return f"{phrase}{gap}<{address}>"


def _address(text: str, field: str) -> str:
    # Nearly every address is already normalized, and the full parser takes as long as building the rest of the email.
    if len(text) <= addresses.MAX_LENGTH and _PLAIN_ADDRESS.fullmatch(text):
        return text
    _check(field, text)
    try:
        deliverable = addresses.deliverable(text)
    except addresses.InvalidAddress as error:
        raise InvalidHeader("{name} is not a valid address: {error}.", field=field, name=field, error=error) from error
    if not deliverable.isascii():
        raise InvalidHeader(
            "{name} has characters before the @ that mail servers do not accept.", field=field, name=field
        )
    return deliverable


def _phrase(name: str, start: int) -> str:
    if name.isascii() and "=?" not in name and start + len(name) < PREFERRED_LINE - 2:
        if _ATOMS.fullmatch(name):
            return name
        return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return _encoded_words(name, start)


def _encoded_words(text: str, start: int) -> str:
    """Encode text as RFC 2047 words in base64, one word per line. No character is split between two words."""
    words = []
    for piece in _split_text(text, start):
        words.append(f"=?utf-8?b?{b64encode(piece).decode()}?=")
    return "\r\n ".join(words)


def _split_text(text: str, start: int) -> Iterable[bytes]:
    """Split into pieces whose encoded words end before column 76. Each word has 12 characters of syntax."""
    rest, room = text.encode(), max((PREFERRED_LINE - start - 12) // 4 * 3, 12)
    while len(rest) > room:
        end = room
        while rest[end] & 0xC0 == 0x80:  # Do not split a UTF-8 character.
            end -= 1
        yield rest[:end]
        rest, room = rest[end:], 45
    yield rest


def _fold(line: str) -> str:
    """Fold at single spaces only, because some programs treat a line of spaces as the end of the headers."""
    lines, start, last = [], 0, None
    for space in _FOLD.finditer(line, line.index(": ") + 2):
        if space.start() - start > PREFERRED_LINE and last is not None:
            lines.append(line[start:last])
            start = last
        last = space.start()
    if len(line) - start > PREFERRED_LINE and last is not None and last > start:
        lines.append(line[start:last])
        start = last
    return "\r\n".join([*lines, line[start:]])
