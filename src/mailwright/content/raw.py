"""Raw email: read the headers of an email that an application composed, and add or remove only whole header fields."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from email.header import decode_header, make_header
from email.utils import getaddresses
from typing import Final

from mailwright.content.headers import MAX_LINE, PROVIDER_COMMANDS, Mailbox
from mailwright.domain import address
from mailwright.domain.errors import InvalidInput

MAX_RAW_BYTES: Final = 25 * 1024 * 1024
MAX_HEADER_BYTES: Final = 256 * 1024
MAX_SUBJECT: Final = 998
# Parsing takes time in proportion to the length, or more, so longer values are cut or refused first.
MAX_ENCODED: Final = 4 * 1024
MAX_FROM: Final = 4 * 1024
MAX_RECIPIENT_HEADERS: Final = 32 * 1024

FIELD_START: Final = re.compile(rb"\r\n(?![ \t])")
_FIELD: Final = re.compile(rb"([!-9;-~]{1,76})[ \t]*:(.*)", re.DOTALL)
_PLAIN_MAILBOX: Final = re.compile(r"(?:[\w =?.-]+ )?<[\w.+-]+@[\w.-]+>|[\w.+-]+@[\w.-]+", re.ASCII)
_FOLD: Final = re.compile(r"\r\n(?=[ \t])")
# Headers that mail servers prepend to an email that they relay.
_TRACE: Final = frozenset({"received", "return-path", "delivered-to"})
_SINGLE: Final = frozenset({"from", "sender", "subject", "date", "message-id"})


class InvalidEmail(InvalidInput):
    """The email cannot be sent as it is."""

    code = "INVALID_EMAIL_SOURCE"

    def __init__(self, message: str) -> None:
        super().__init__(message, field="body")


@dataclass(frozen=True, slots=True)
class HeaderField:
    name: str  # In lower case.
    value: str  # Unfolded, not decoded.
    source: bytes  # As the application wrote it, without the last line end.


@dataclass(frozen=True, slots=True)
class RawEmail:
    """An email whose header fields can be read. The bytes of each field and of the body stay as they are."""

    fields: tuple[HeaderField, ...]
    rest: bytes  # The empty line and the body; only a line end if there is no body.

    def values(self, name: str) -> list[str]:
        return [field.value for field in self.fields if field.name == name]

    def first(self, name: str) -> str | None:
        return next((field.value for field in self.fields if field.name == name), None)

    @property
    def sender(self) -> Mailbox:
        """The mailbox in the From header; the first one if there are several."""
        boxes = _mailboxes(self.values("from"), MAX_FROM)
        if not boxes:
            raise InvalidEmail("The email needs a From header with an address, for example From: shop@example.com.")
        return boxes[0]

    @property
    def resender(self) -> str | None:
        """The sender of the last resending: Resent-Sender, otherwise Resent-From."""
        block = self._resent_block()
        for name in ("resent-sender", "resent-from"):
            if boxes := _mailboxes([field.value for field in block if field.name == name], MAX_FROM):
                return boxes[0].address
        return None

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

    def to_bytes(self, fields: Collection[HeaderField] | None = None) -> bytes:
        return b"\r\n".join([*[field.source for field in (self.fields if fields is None else fields)], self.rest])


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
    fields = tuple(_fields(head))
    seen: set[str] = set()
    for field in fields:
        if field.name in seen and field.name in _SINGLE:
            raise InvalidEmail(f"The header {field.name.title()} occurs more than once. Keep only one.")
        if field.name.startswith(PROVIDER_COMMANDS):
            raise InvalidEmail(f"The header {field.name} is a command for a provider. Remove it.")
        seen.add(field.name)
    return RawEmail(fields, b"" if is_only_head else b"\r\n" + body)


def with_crlf(content: bytes) -> bytes:
    """Convert an email in which every line ends in LF to CRLF; leave any other email unchanged."""
    if b"\r" not in content and b"\n" in content:
        content = content.replace(b"\n", b"\r\n")
    return content if content.endswith(b"\r\n") else content + b"\r\n"


def decode_words(value: str) -> str:
    """Decode RFC 2047 words; leave undecodable text as it is. A very long text is cut."""
    if "=?" not in value:
        return value
    if len(value) > MAX_ENCODED:
        value = value[:MAX_ENCODED].rsplit(None, 1)[0]
    try:
        return str(make_header(decode_header(value)))
    except (ValueError, LookupError):
        return value


def readable_line(value: str) -> str:
    """Decode a header for display: one line without control characters, which databases may reject."""
    text = decode_words(value)
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())


def check_lines(content: bytes) -> None:
    """Raise `InvalidEmail` if the lines of an email cannot be sent unchanged."""
    if b"\0" in content:
        raise InvalidEmail("The email contains a NUL byte. Encode binary content as base64.")
    ends = content.count(b"\r\n")
    if ends != content.count(b"\n") or ends != content.count(b"\r"):
        raise InvalidEmail("Every line of the email must end in CRLF, but it contains a CR or LF alone.")
    if not content.endswith(b"\r\n"):
        raise InvalidEmail("The last line of the email must end in CRLF.")
    if max(map(len, content.split(b"\n"))) > MAX_LINE + 1:
        raise InvalidEmail(
            f"A line of the email is longer than {MAX_LINE} bytes. Encode the part as quoted-printable or base64."
        )


def _fields(head: bytes) -> Iterator[HeaderField]:
    for number, source in enumerate(FIELD_START.split(head), 1):
        found = _FIELD.fullmatch(source)
        if found is None:
            raise InvalidEmail(f"Header {number} is not of the form Name: value. An empty line ends the headers.")
        value = found[2].decode("utf-8", "replace")
        unfolded = _FOLD.sub("", value) if "\n" in value else value
        yield HeaderField(found[1].decode().lower(), unfolded.strip(), source)


def _split(values: Collection[str]) -> Iterator[tuple[str | None, str]]:
    for value in values:
        if _PLAIN_MAILBOX.fullmatch(value):  # True for nearly every From header; the full parser is ten times slower.
            yield address.split_mailbox(value)
        else:
            yield from getaddresses([value])


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
