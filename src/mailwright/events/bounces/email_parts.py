"""Split an untrusted email into its MIME parts. Any bytes are accepted. Size, depth and number of parts are limited."""

import binascii
import quopri
import re
from collections.abc import Iterator
from contextlib import suppress
from email.message import Message

from mailwright.domain.lazy_dataclass import dataclass

# Only the first bytes are needed: the report and the original headers come before our own message with its images.
MAX_BYTES = 512 * 1024
MAX_DEPTH = 8
MAX_PARTS = 100
MAX_HEADERS = 500
MAX_LINES = 100  # lines of one header
# Maximum length of a header value, because the standard library's parameter parser takes quadratic time.
MAX_VALUE = 4_000

_BLANK_LINE = re.compile(rb"(?:\A|\n)\r?\n")
_DELIMITER = re.compile(
    rb"^--([^\s-][^\r\n]{0,69}|-{1,30}[^\s-][^\r\n]{0,69})[ \t\r]*\nContent-", re.MULTILINE | re.IGNORECASE
)
_CHARSET = re.compile(r"charset[ \t]*=[ \t]*[\"']?([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
# Charsets that write addresses and codes as ASCII. Others, such as UTF-7, could change an address.
_LANGUAGE_CHARSET = re.compile(
    r"(?:iso-2022-|iso-8859-|windows-|cp12|koi8-|gb|big5|shift_jis|euc-|ks_c)", re.IGNORECASE
)
_EMAIL_FILE = re.compile(r"name\*?[ \t]*=[^;]{0,200}\.eml\b", re.IGNORECASE)
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
    depth: int  # levels of enclosing emails: 0 is the email itself, 1 an email attached to it

    @property
    def content(self) -> bytes:
        return _decode(self.headers.first("content-transfer-encoding"), self.body)

    @property
    def text(self) -> str:
        charset = _CHARSET.search(self.headers.first("content-type"))
        return decode_text(self.content, charset[1] if charset else "").replace("\r\n", "\n")


def split_parts(email: bytes, max_bytes: int = MAX_BYTES) -> list[EmailPart]:
    """Return the email and all its parts, in order."""
    parts: list[EmailPart] = []
    # A stack of parts to parse: (content, default type, levels of emails, levels of any nesting).
    pending = [(email[:max_bytes].lstrip(b"\r\n"), "text/plain", 0, 0)]
    while pending and len(parts) < MAX_PARTS:
        content, default_type, depth, level = pending.pop()
        head, body = _head_and_body(content)
        part = EmailPart(parse_headers(head), "", body, depth)
        content_type, boundary = _content_type(part.headers.first("content-type"), default_type)
        if content_type == "application/octet-stream" and _is_email_file(part.headers):
            content_type = "message/rfc822"
        part = EmailPart(part.headers, content_type, body, depth)
        parts.append(part)
        if level >= MAX_DEPTH:
            continue
        if content_type.startswith("multipart/") and (boundary := boundary or _guess_boundary(body)):
            inner_type = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
            inner = [(each, inner_type, depth, level + 1) for each in _split(body, boundary.encode("utf-8", "replace"))]
            pending.extend(reversed(inner))
        elif content_type in ("message/rfc822", "message/global"):
            pending.append((part.content.lstrip(b"\r\n"), "text/plain", depth + 1, level + 1))
    return parts


def parse_headers(head: bytes) -> EmailHeaders:
    """Parse headers, also those quoted as text. Lines that are not fields are skipped."""
    fields: list[tuple[str, list[str]]] = []
    for line in decode_text(head).splitlines():
        if line[:1] in (" ", "\t"):
            if fields and len(fields[-1][1]) < MAX_LINES:
                fields[-1][1].append(line.strip())
        elif len(fields) < MAX_HEADERS and (named := _FIELD_NAME.match(line)):
            fields.append((named[0].rstrip(": \t").lower(), [line[named.end() :].strip()]))
    return EmailHeaders(tuple((name, " ".join(lines)[:MAX_VALUE].strip()) for name, lines in fields))


def decode_text(content: bytes, charset: str = "") -> str:
    """Decode with the stated charset if that works, otherwise as ISO-2022-JP, UTF-8 or Latin-1.

    Japanese servers often state no charset.
    """
    stated = charset if _LANGUAGE_CHARSET.match(charset) else "iso-2022-jp" if b"\x1b$" in content else "utf-8"
    for encoding in (stated, "utf-8"):
        with suppress(UnicodeDecodeError, LookupError):
            return content.decode(encoding)
    return content.decode("latin-1")


def _head_and_body(content: bytes) -> tuple[bytes, bytes]:
    end = _BLANK_LINE.search(content)
    head, body = (content[: end.start()], content[end.end() :]) if end else (content, b"")
    first, _, _ = head.partition(b"\n")
    # If a part has neither headers nor the blank line, all of it is text. mbox files begin with "From ".
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
    except ValueError:  # a boundary in an invalid charset
        return message.get_content_type(), None


def _is_email_file(headers: EmailHeaders) -> bool:
    """Return whether a part is an email by its file name. Some programs attach emails as files of unknown type."""
    return any(_EMAIL_FILE.search(headers.first(name)) for name in ("content-type", "content-disposition"))


def _guess_boundary(body: bytes) -> str | None:
    """Return the boundary of the first delimiter line, for servers that damage the boundary in the header."""
    found = _DELIMITER.search(body[:MAX_VALUE])
    return decode_text(found[1]) if found else None


def _split(body: bytes, boundary: bytes) -> Iterator[bytes]:
    """Yield the parts between the delimiters. The closing one may be missing, because reports are often truncated."""
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


def _decode(encoding: str, body: bytes) -> bytes:
    match encoding.strip().lower():
        case "base64":
            try:
                return binascii.a2b_base64(body)
            except binascii.Error:  # If the content is truncated, complete groups of four can still be decoded.
                characters = re.sub(rb"[^A-Za-z0-9+/]", b"", body)
                return binascii.a2b_base64(characters[: len(characters) // 4 * 4])
        case "quoted-printable":
            return quopri.decodestring(body)
        case _:
            return body
