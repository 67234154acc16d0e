"""MIME: a letter becomes the bytes that leave. Seven-bit, CRLF, short lines, and the same letter is the same bytes."""

import re
from binascii import b2a_base64, b2a_qp
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from urllib.parse import quote

from mailwright.content import headers, text
from mailwright.content.headers import InvalidHeader, Mailbox, UnsubscribeTargets, message_id
from mailwright.domain.clock import Instant

__all__ = [
    "Attachment",
    "EmailParts",
    "InvalidHeader",
    "Mailbox",
    "UnsubscribeTargets",
    "alternative",
    "boundary",
    "build_email",
    "message_id",
    "quoted_printable",
    "text_part",
]


@dataclass(frozen=True, slots=True)
class Attachment:
    filename: str
    content_type: str
    content: bytes
    # With a content id the HTML shows it in place, as in <img src="cid:logo">.
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class EmailParts:
    """Who is in blind copy is not part of a letter: only the envelope knows."""

    message_id: str
    date: Instant
    sender: Mailbox
    to: Mailbox
    subject: str
    html: str | None = None
    text: str | None = None
    reply_to: Mailbox | None = None
    cc: tuple[Mailbox, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    outbox_id: str | None = None
    unsubscribe: UnsubscribeTargets | None = None
    feedback_id: str | None = None


def build_email(letter: EmailParts) -> bytes:
    """Headers, then text and HTML as alternatives, images beside the HTML that shows them, attachments around all."""
    content = b"\r\n".join([_head(letter).encode("ascii"), _body(letter)])
    return content if content.endswith(b"\r\n") else content + b"\r\n"


def boundary(kind: str, identity: str) -> str:
    """Never part of what it divides: `=_` is neither quoted-printable nor base64, and we write nothing else."""
    return f"=_{kind}_{blake2b(identity.encode(), digest_size=12).hexdigest()}"


def text_part(subtype: str, content: str) -> bytes:
    """Quoted-printable where most of it stays readable, base64 where most of it would not."""
    data = _lines(content)
    encoded_characters = len(data) - len(content)
    if encoded_characters * 6 > len(content):
        return _part(f"text/{subtype}; charset=utf-8", "base64", _base64(data.replace(b"\n", b"\r\n")))
    return _part(f"text/{subtype}; charset=utf-8", "quoted-printable", _quoted_printable(data))


def quoted_printable(content: str) -> bytes:
    """Text as it stands in a quoted-printable part. No line is longer than 75, so that `=` may follow the last."""
    if _UNCHANGED.fullmatch(content):
        return content.encode("ascii")
    return _quoted_printable(_lines(content))


def alternative(identity: str, parts: Iterable[bytes]) -> bytes:
    return _multipart("alternative", identity, parts)


_CONTENT_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}(?:; ?[a-z-]+=[A-Za-z0-9._-]{1,64})?")
_CONTENT_ID = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.@-]{1,200}")
# RFC 2046 allows no base64 in these. The file name still says what it is.
_COMPOSITE = ("message/", "multipart/")
_BASE64_LINE = 76
# Most values: one short line of visible characters that begins and ends with none that would be encoded.
_UNCHANGED = re.compile(r"[!-\-/-<>-~](?:[ -<>-~]{0,70}[!-<>-~])?")
# One less than allowed: a soft line break may follow.
_LONGEST_ENCODED_LINE = 75
# Long names go on in further parameters; 54 characters leave room for `filename*10*=`.
_PARAMETER_LINE = 54
_PLAIN_FILENAME = re.compile(r"[A-Za-z0-9!#$&+^_`{}~ .,;@()\[\]=-]{1,54}")


def _head(letter: EmailParts) -> str:
    """Every header but those of the content, without the last line's end."""
    lines = [
        headers.mailboxes("From", [letter.sender], field="from"),
        headers.mailboxes("To", [letter.to], field="to"),
        headers.unstructured("Subject", letter.subject, field="subject"),
        headers.date_line(letter.date),
        headers.message_id_line(letter.message_id),
    ]
    if letter.cc:
        lines.append(headers.mailboxes("Cc", letter.cc, field="cc"))
    if letter.reply_to:
        lines.append(headers.mailboxes("Reply-To", [letter.reply_to], field="reply_to"))
    if letter.unsubscribe:
        lines.append(headers.list_unsubscribe(letter.unsubscribe))
    if letter.feedback_id:
        lines.append(headers.opaque("Feedback-ID", letter.feedback_id, field="feedback_id"))
    if letter.outbox_id:
        lines.append(headers.opaque("X-Mailwright-Message", letter.outbox_id, field="outbox_id"))
    lines.extend([headers.custom_header(name, value) for name, value in letter.headers.items()])
    lines.append("MIME-Version: 1.0")
    return "\r\n".join(lines)


def _body(letter: EmailParts) -> bytes:
    identity = letter.message_id
    shown = [each for each in letter.attachments if each.content_id and letter.html is not None]
    attached = [each for each in letter.attachments if each not in shown]
    body = _readable(letter, shown)
    if attached:
        body = _multipart("mixed", identity, [body, *[_attachment(each) for each in attached]])
    return body


def _readable(letter: EmailParts, shown: list[Attachment]) -> bytes:
    if letter.html is None:
        return text_part("plain", letter.text or "")
    plain = letter.text if letter.text is not None else text.from_html(letter.html)
    html = text_part("html", letter.html)
    if shown:
        html = _multipart(
            "related", letter.message_id, [html, *[_attachment(each) for each in shown]], 'type="text/html"'
        )
    return _multipart("alternative", letter.message_id, [text_part("plain", plain), html])


def _multipart(subtype: str, identity: str, parts: Iterable[bytes], parameter: str = "") -> bytes:
    divider = boundary(subtype, identity)
    kind = f"multipart/{subtype}; {parameter};" if parameter else f"multipart/{subtype};"
    opening = f'Content-Type: {kind}\r\n boundary="{divider}"\r\n'.encode()
    between = f"\r\n--{divider}\r\n".encode()
    return b"".join([opening, between, between.join(parts), f"\r\n--{divider}--\r\n".encode()])


def _part(content_type: str, encoding: str, body: bytes, more: str = "") -> bytes:
    opening = f"Content-Type: {content_type}\r\nContent-Transfer-Encoding: {encoding}\r\n{more}\r\n"
    return opening.encode() + body


def _attachment(attachment: Attachment) -> bytes:
    content_type = attachment.content_type
    if not _CONTENT_TYPE.fullmatch(content_type):
        raise InvalidHeader(f"{content_type[:80]!r} is not a content type", field="attachments.content_type")
    if content_type.lower().startswith(_COMPOSITE):
        content_type = "application/octet-stream"
    disposition = "attachment"
    more = ""
    if attachment.content_id is not None:
        if not _CONTENT_ID.fullmatch(attachment.content_id):
            raise InvalidHeader("a content id is a word of ASCII characters", field="attachments.content_id")
        disposition = "inline"
        more = f"Content-ID: <{attachment.content_id}>\r\n"
    more += f"Content-Disposition: {disposition}{_filename(attachment.filename)}\r\n"
    return _part(content_type, "base64", _base64(attachment.content), more)


def _filename(name: str) -> str:
    if what := headers.find_unwritable(name):
        raise InvalidHeader(f"the file name contains {what}", field="attachments.filename")
    name = name.replace("\t", " ").strip()
    if not name:
        return ""
    if _PLAIN_FILENAME.fullmatch(name):
        return f';\r\n filename="{name}"'
    encoded = quote(name, safe="")
    if len(encoded) <= _PARAMETER_LINE:
        return f";\r\n filename*=utf-8''{encoded}"
    return "".join([f";\r\n filename*{number}*={piece}" for number, piece in enumerate(_percent_pieces(encoded))])


def _percent_pieces(encoded: str) -> Iterable[str]:
    """RFC 2231: the first piece names the character set; no `%41` is divided."""
    rest = f"utf-8''{encoded}"
    while rest:
        end = _PARAMETER_LINE
        while "%" in rest[max(end - 2, 0) : end] and end < len(rest):
            end -= 1
        yield rest[:end]
        rest = rest[end:]


def _lines(content: str) -> bytes:
    """One way to end a line. A bare CR or LF never leaves us: servers disagree on what it means."""
    if "\r" in content:
        content = content.replace("\r\n", "\n").replace("\r", "\n")
    return content.encode("utf-8", "replace")


def _quoted_printable(data: bytes) -> bytes:
    encoded = b2a_qp(data, istext=True)
    if encoded.startswith(b".") or b"\n." in encoded:
        encoded = b"\n".join([_undotted(line) for line in encoded.split(b"\n")])
    return encoded.replace(b"\n", b"\r\n")


def _undotted(line: bytes) -> bytes:
    """No line begins with a dot: what leaves us needs no dot-stuffing, and a server that forgets it does no harm."""
    if not line.startswith(b"."):
        return line
    line = b"=2E" + line[1:]
    if len(line) <= _LONGEST_ENCODED_LINE:
        return line
    # Two more characters may be two too many; a coded character is never cut.
    end = _LONGEST_ENCODED_LINE - 1
    while b"=" in line[end - 2 : end]:
        end -= 1
    return line[:end] + b"=\n" + _undotted(line[end:])


def _base64(data: bytes) -> bytes:
    encoded = b2a_base64(data, newline=False)
    return b"\r\n".join([encoded[start : start + _BASE64_LINE] for start in range(0, len(encoded), _BASE64_LINE)])
