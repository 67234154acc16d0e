"""Raw email: read the headers of an email that an application composed, and add or remove only whole header fields."""

import re
from collections.abc import Collection, Iterator, Mapping
from email.utils import getaddresses
from functools import lru_cache
from typing import Final

from mailwright.content.headers import (
    MAX_LINE,
    PROVIDER_COMMANDS,
    PROVIDER_METADATA_PREFIX,
    PROVIDER_OPTIONS,
    Mailbox,
)
from mailwright.domain import address
from mailwright.domain.encoded_words import decode_words
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass

MAX_RAW_BYTES: Final = 25 * 1024 * 1024
MAX_HEADER_BYTES: Final = 256 * 1024
MAX_SUBJECT: Final = 998
# Parsing takes time in proportion to the length, or more, so longer values are refused first.
MAX_FROM: Final = 4 * 1024
MAX_RECIPIENT_HEADERS: Final = 32 * 1024

FIELD_START: Final = re.compile(rb"\r\n(?![ \t])")
_FIELD: Final = re.compile(rb"([!-9;-~]{1,76})[ \t]*:(.*)", re.DOTALL)
_PLAIN_MAILBOX: Final = re.compile(r"(?:[\w =?.-]+ )?<[\w.+-]+@[\w.-]+>|[\w.+-]+@[\w.-]+", re.ASCII)
_FOLD: Final = re.compile(r"\r\n(?=[ \t])")
# Headers that mail servers prepend to an email that they relay.
_TRACE: Final = frozenset({"received", "return-path", "delivered-to"})
_SINGLE: Final = frozenset({"from", "sender", "subject", "date", "message-id"})
_SENDERS: Final = ("from", "sender", "resent-from", "resent-sender")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
# A mailbox without comments, groups, routes and domain literals, after quoted names were replaced.
_UNAMBIGUOUS: Final = re.compile(
    r"(?:[^<>()@,:;\[\]\\\"]*<([^<>()@,:;\[\]\\\"\s]+@[\w.-]+)>|([^<>()@,:;\[\]\\\"\s]+@[\w.-]+))"
)

_AMBIGUOUS: Final = (
    "From and Sender must be plain if senders are checked: name@example.com or Name <name@example.com>, "
    "without comments and groups."
)


class InvalidEmail(InvalidInput):
    """The email cannot be sent as it is."""

    code = "INVALID_EMAIL_SOURCE"

    def __init__(self, message: str) -> None:
        super().__init__(message, field="body")


class AmbiguousLines(InvalidEmail):
    """The email contains bytes that some programs read as line ends and others do not."""


@dataclass(slots=True)  # Not declared frozen: one is created for each header, and that takes three times as long.
class HeaderField:
    name: str  # In lower case.
    value: str  # Unfolded, not decoded.
    source: bytes  # As the application wrote it, without the last line end.


@dataclass(slots=True)
class RawEmail:
    """An email whose header fields can be read. The bytes of each field and of the body stay as they are."""

    fields: tuple[HeaderField, ...]
    rest: bytes  # The empty line and the body; only a line end if there is no body.
    firsts: Mapping[str, str]  # The value of the first field of each name.
    source: bytes  # The whole email.
    provider_options: tuple[HeaderField, ...] = ()  # Options for the SMTP server of another service.

    def values(self, name: str) -> list[str]:
        return [field.value for field in self.fields if field.name == name]

    def first(self, name: str) -> str | None:
        return self.firsts.get(name)

    @property
    def sender(self) -> Mailbox:
        """The mailbox in the From header; the first one if there are several."""
        return _author(self.first("from") or "")

    @property
    def all_senders(self) -> list[Mailbox]:
        """Every mailbox in From, Sender and their Resent- fields.

        Syntax that mail programs could read differently raises `InvalidEmail`.
        """
        values = [value for name in _SENDERS for value in self.values(name)]
        boxes = _mailboxes(values, MAX_FROM)
        found = [email for value in values for email in _unambiguous(value)]
        if [box.address for box in boxes] != [address.deliverable(email) for email in found]:
            raise InvalidEmail(_AMBIGUOUS)
        return boxes

    @property
    def resender(self) -> str | None:
        """The sender of the last resending: Resent-Sender, otherwise Resent-From."""
        block = self._resent_block()
        for name in ("resent-sender", "resent-from"):
            if boxes := _mailboxes([field.value for field in block if field.name == name], MAX_FROM):
                return boxes[0].address
        return None

    @property
    def is_resent(self) -> bool:
        return bool(self._resent_block())

    @property
    def recipients(self) -> list[str]:
        """The addresses in To, Cc and Bcc; for an email that was resent, those of the last resending."""
        block = self._resent_block()
        fields, prefix = (block, "resent-") if block else (self.fields, "")
        wanted = [prefix + name for name in ("to", "cc", "bcc")]
        values = [field.value for name in wanted for field in fields if field.name == name]
        return list(dict.fromkeys([box.address for box in _mailboxes(values, MAX_RECIPIENT_HEADERS)]))

    @property
    def subject(self) -> str:
        """The decoded subject."""
        return readable_line(self.first("subject") or "")[:MAX_SUBJECT]

    @property
    def identity(self) -> str | None:
        """The Message-ID; None if it is missing or empty."""
        return (self.first("message-id") or "").strip() or None

    @property
    def untraced(self) -> bytes:
        """The email without the headers that mail servers prepended, so that a repeated submission is recognised."""
        if self.fields[0].name not in _TRACE:
            return self.source
        start = next((number for number, field in enumerate(self.fields) if field.name not in _TRACE), 0)
        return self.to_bytes(self.fields[start:])

    def _resent_block(self) -> list[HeaderField]:
        """Return the first block of Resent- headers: the last resending, because each one is prepended (RFC 5322)."""
        block: dict[str, HeaderField] = {}
        for field in self.fields:
            if field.name.startswith("resent-") and field.name not in block:
                block[field.name] = field
            elif block:
                break
        return list(block.values())

    def to_bytes(self, fields: Collection[HeaderField]) -> bytes:
        """Return the email with only these of its header fields."""
        if len(fields) == len(self.fields):
            return self.source
        return b"\r\n".join([*[field.source for field in fields], self.rest])


def parse_raw(content: bytes) -> RawEmail:
    """Parse an email whose lines end in CRLF. Raises `InvalidEmail` if it cannot be sent unchanged."""
    if not content.strip():
        raise InvalidEmail("The email is empty.")
    check_lines(content)
    head, _, body = content.partition(b"\r\n\r\n")
    if len(head) > MAX_HEADER_BYTES:
        raise InvalidEmail(f"The headers are larger than {MAX_HEADER_BYTES // 1024} KB.")
    is_only_head = len(head) == len(content)
    head = head.removesuffix(b"\r\n")
    fields = _fields(head)
    firsts: dict[str, str] = {}
    options: list[HeaderField] = []
    for field in fields:
        name = field.name
        if name in firsts and name in _SINGLE:
            raise InvalidEmail(f"The header {name.title()} occurs more than once. Keep only one.")
        if name.startswith(PROVIDER_COMMANDS):
            if name not in PROVIDER_OPTIONS and not name.startswith(PROVIDER_METADATA_PREFIX):
                raise InvalidEmail(f"The header {name} is a command for a provider. Remove it.")
            options.append(field)
        firsts.setdefault(name, field.value)
    return RawEmail(fields, b"" if is_only_head else b"\r\n" + body, firsts, content, tuple(options))


def with_crlf(content: bytes) -> bytes:
    """Convert an email in which every line ends in LF to CRLF; leave any other email unchanged."""
    if b"\r" not in content and b"\n" in content:
        content = content.replace(b"\n", b"\r\n")
    return content if content.endswith(b"\r\n") else content + b"\r\n"


def readable_line(value: str) -> str:
    """Decode a header for display: one line without control characters, which databases may reject."""
    text = decode_words(value)
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())


def check_lines(content: bytes) -> None:
    """Raise `InvalidEmail` if the lines of an email cannot be sent unchanged."""
    if b"\0" in content:
        raise AmbiguousLines("The email contains a NUL byte. Encode binary content as base64.")
    ends = content.count(b"\r\n")
    if ends != content.count(b"\n") or ends != content.count(b"\r"):
        raise AmbiguousLines("Every line of the email must end in CRLF, but it contains a CR or LF alone.")
    if not content.endswith(b"\r\n"):
        raise InvalidEmail("The last line of the email must end in CRLF.")
    start, length = 0, len(content)
    while start < length:  # Every line up to the last line end within reach is short enough.
        end = content.rfind(b"\r\n", start, start + MAX_LINE + 2)
        if end < 0:
            raise InvalidEmail(
                f"A line of the email is longer than {MAX_LINE} bytes. Encode the part as quoted-printable or base64."
            )
        start = end + 2


def _fields(head: bytes) -> tuple[HeaderField, ...]:
    fields = []
    for number, source in enumerate(FIELD_START.split(head), 1):
        found = _FIELD.fullmatch(source)
        if found is None:
            raise InvalidEmail(f"Header {number} is not of the form Name: value. An empty line ends the headers.")
        value = found[2].decode("utf-8", "replace")
        unfolded = _FOLD.sub("", value) if "\n" in value else value
        fields.append(HeaderField(found[1].decode().lower(), unfolded.strip(), source))
    return tuple(fields)


def _split(values: Collection[str]) -> Iterator[tuple[str | None, str]]:
    for value in values:
        if _PLAIN_MAILBOX.fullmatch(value):  # True for nearly every From header; the full parser is ten times slower.
            yield address.split_mailbox(value)
        else:
            yield from getaddresses([value])


def _unambiguous(value: str) -> Iterator[str]:
    for part in _QUOTED.sub("quoted", value).split(","):
        found = _UNAMBIGUOUS.fullmatch(part.strip())
        if found is None:
            raise InvalidEmail(_AMBIGUOUS)
        yield found[1] or found[2]


@lru_cache(maxsize=256)  # Cached because most emails of an application have the same From header.
def _author(value: str) -> Mailbox:
    boxes = _mailboxes([value], MAX_FROM)
    if not boxes:
        raise InvalidEmail("The email needs a From header with an address, for example From: shop@example.com.")
    return boxes[0]


def _mailboxes(values: Collection[str], max_length: int) -> list[Mailbox]:
    """Parse mailboxes. Split before decoding, because an encoded comma is not a separator."""
    if sum(map(len, values)) > max_length:
        raise InvalidEmail(f"The addresses in a header are longer than {max_length // 1024} KB. Name fewer addresses.")
    try:
        split = list(_split(values))
    except RecursionError as error:
        raise InvalidEmail("The addresses in a header have too many nested comments. Remove the comments.") from error
    found = []
    for name, email in split:
        try:
            found.append(Mailbox(address.deliverable(email), readable_line(name or "") or None))
        except address.InvalidAddress as error:
            if email:
                raise InvalidEmail(f"The address {email[:80]!r} in a header is not valid: {error}.") from error
    return found
