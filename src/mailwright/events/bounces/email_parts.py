"""The parts of a mail that anyone may have written: every byte is allowed, and size, depth and number are bounded."""

import binascii
import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message

# A report and the headers of the original come first; what follows is our own mail with its pictures.
MAX_BYTES = 512 * 1024
MAX_DEPTH = 8
MAX_PARTS = 100
MAX_HEADERS = 500
MAX_LINES = 100  # of one header
# The standard library's reader of parameters takes quadratic time.
MAX_VALUE = 4_000

_BLANK_LINE = re.compile(rb"(?:\A|\n)\r?\n")
_FIELD_NAME = re.compile(r"[!-9;-~]{1,100}[ \t]{0,10}:")


@dataclass(frozen=True, slots=True)
class EmailHeaders:
    fields: tuple[tuple[str, str], ...]  # names in lower case, values unfolded

    def first(self, name: str) -> str:
        return next((value for field, value in self.fields if field == name), "")

    def all(self, name: str) -> list[str]:
        return [value for field, value in self.fields if field == name]


@dataclass(frozen=True, slots=True)
class EmailPart:
    headers: EmailHeaders
    content_type: str
    body: bytes
    depth: int  # how many mails it lies inside of: 0 is the letter itself, 1 is what the letter carries

    @property
    def text(self) -> str:
        content = decode_text(_decoded(self.headers.first("content-transfer-encoding"), self.body))
        return content.replace("\r\n", "\n")


def split_parts(mail: bytes) -> list[EmailPart]:
    """The mail, then everything inside, in the order in which it is written."""
    found: list[EmailPart] = []
    # What is still to be read, the next on top: (bytes, type where none is given, levels of mails, levels of anything).
    waiting = [(mail[:MAX_BYTES].lstrip(b"\r\n"), "text/plain", 0, 0)]
    while waiting and len(found) < MAX_PARTS:
        content, default_type, depth, level = waiting.pop()
        head, body = _head_and_body(content)
        part = EmailPart(parse_headers(head), "", body, depth)
        content_type, boundary = _content_type(part.headers.first("content-type"), default_type)
        part = EmailPart(part.headers, content_type, body, depth)
        found.append(part)
        if level >= MAX_DEPTH:
            continue
        if content_type.startswith("multipart/") and boundary:
            inner_type = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
            inner = [(each, inner_type, depth, level + 1) for each in _split(body, boundary.encode("utf-8", "replace"))]
            waiting.extend(reversed(inner))
        elif content_type in ("message/rfc822", "message/global"):
            raw = _decoded(part.headers.first("content-transfer-encoding"), body)
            waiting.append((raw.lstrip(b"\r\n"), "text/plain", depth + 1, level + 1))
    return found


def parse_headers(head: bytes) -> EmailHeaders:
    """Also of headers that somebody quotes as text. What is not a field is left out."""
    fields: list[tuple[str, list[str]]] = []
    for line in decode_text(head).splitlines():
        if line[:1] in (" ", "\t"):
            if fields and len(fields[-1][1]) < MAX_LINES:
                fields[-1][1].append(line.strip())
        elif len(fields) < MAX_HEADERS and (named := _FIELD_NAME.match(line)):
            fields.append((named[0].rstrip(": \t").lower(), [line[named.end() :].strip()]))
    return EmailHeaders(tuple((name, " ".join(lines)[:MAX_VALUE].strip()) for name, lines in fields))


def decode_text(content: bytes) -> str:
    """Without asking for the charset: addresses, codes and the words we look for are ASCII in all that mail uses."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _head_and_body(content: bytes) -> tuple[bytes, bytes]:
    end = _BLANK_LINE.search(content)
    head, body = (content[: end.start()], content[end.end() :]) if end else (content, b"")
    first, _, _ = head.partition(b"\n")
    # A part without any header, whose writer forgot the empty line: all of it is text. Mailboxes write "From " first.
    if head and not first.startswith(b"From ") and not _FIELD_NAME.match(decode_text(first)):
        return b"", content
    return head, body


def _content_type(value: str, default: str) -> tuple[str, str | None]:
    if not value:
        return default, None
    message = Message()
    message["Content-Type"] = value
    try:
        return message.get_content_type(), message.get_boundary()
    except ValueError:  # a boundary in a charset that cannot be
        return message.get_content_type(), None


def _split(body: bytes, boundary: bytes) -> Iterator[bytes]:
    """What stands between the delimiters. A missing end is forgiven: many a report is cut short on its way."""
    delimiter = re.compile(rb"^--" + re.escape(boundary) + rb"(--)?[ \t\r]*(?:\n|\Z)", re.MULTILINE)
    start: int | None = None
    for count, found in enumerate(delimiter.finditer(body)):
        if start is not None:
            yield body[start : found.start()]
        start = found.end()
        if found[1] or count >= MAX_PARTS:
            return
    if start is not None:
        yield body[start:]


def _decoded(encoding: str, body: bytes) -> bytes:
    match encoding.strip().lower():
        case "base64":
            try:
                return binascii.a2b_base64(body)
            except binascii.Error:  # cut short: whole groups of four can still be read
                letters = re.sub(rb"[^A-Za-z0-9+/]", b"", body)
                return binascii.a2b_base64(letters[: len(letters) // 4 * 4])
        case "quoted-printable":
            return quopri.decodestring(body)
        case _:
            return body
