"""Build the bytes of an email: 7-bit, CRLF, short lines. The same parts always give the same bytes."""

import re
from binascii import b2a_base64, b2a_qp
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from hashlib import blake2b
from typing import Final, NamedTuple
from urllib.parse import quote

from mailwright.content import headers, text
from mailwright.content.bounded_cache import BoundedCache
from mailwright.content.headers import InvalidHeader, Mailbox, UnsubscribeTargets, message_id
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass

__all__ = [
    "ALTERNATIVE_TYPE_PATTERN",
    "CONTENT_TYPE_PATTERN",
    "EmailAlternative",
    "EmailAttachment",
    "EmailParts",
    "Enclosure",
    "InvalidHeader",
    "Mailbox",
    "UnsubscribeTargets",
    "alternative",
    "boundary",
    "build_email",
    "enclose",
    "message_id",
    "quoted_printable",
    "text_part",
]


@dataclass(frozen=True, slots=True)
class EmailAttachment:
    filename: str
    content_type: str
    content: bytes
    # If set, the HTML can show the attachment inline: <img src="cid:logo">.
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class EmailAlternative:
    """Text that mail programs which know its type show instead of the text and the HTML."""

    content_type: str
    content: str


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Attachments that many emails share, encoded once: the bytes before and after the body of each email."""

    before: bytes
    after: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.before) + len(self.after)


@dataclass(frozen=True, slots=True)
class EmailParts:
    """All parts of an email. Bcc recipients are not included, because they appear only in the envelope."""

    message_id: str
    date: Instant
    sender: Mailbox
    to: Mailbox | None  # None if all recipients are in Cc or Bcc.
    subject: str  # Without text, the email has no Subject header.
    html: str | None = None
    text: str | None = None
    reply_to: tuple[Mailbox, ...] = ()
    further_to: tuple[Mailbox, ...] = ()  # More recipients in the To header.
    cc: tuple[Mailbox, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    attachments: tuple[EmailAttachment, ...] = ()
    alternatives: tuple[EmailAlternative, ...] = ()
    sender_header: Mailbox | None = None  # Who sends the email for the person in From.
    enclosure: Enclosure | None = None
    outbox_id: str | None = None
    unsubscribe: UnsubscribeTargets | None = None
    feedback_id: str | None = None


def build_email(email: EmailParts) -> bytes:
    """Write the headers, text and HTML as alternatives, inline images related to the HTML, and other attachments."""
    content = b"\r\n".join([_head(email).encode("ascii"), _body(email)])
    return content if content.endswith(b"\r\n") else content + b"\r\n"


def enclose(attachments: Sequence[EmailAttachment]) -> Enclosure:
    """Encode attachments for many emails. Inline images are related to the whole body, which refers to content IDs."""
    inline = [_attachment(attachment) for attachment in attachments if attachment.content_id is not None]
    attached = [_attachment(attachment) for attachment in attachments if attachment.content_id is None]
    body = _ENCLOSED
    if inline:
        body = _multipart("related", _ENCLOSURE, [body, *inline], 'type="multipart/alternative"')
    if attached:
        body = _multipart("mixed", _ENCLOSURE, [body, *attached])
    before, _, after = body.partition(_ENCLOSED)
    return Enclosure(before, after)


def boundary(kind: str, identity: str) -> str:
    """Return a boundary that cannot occur in the parts, because `=_` is neither quoted-printable nor base64."""
    return f"=_{kind}_{blake2b(identity.encode(), digest_size=12).hexdigest()}"


def text_part(subtype: str, content: str) -> bytes:
    """Use quoted-printable if most of the text stays readable, otherwise base64."""
    data = _encode_lines(content)
    encoded_characters = len(data) - len(content)
    if encoded_characters * 6 > len(content):
        return _part(f"text/{subtype}; charset=utf-8", "base64", _base64(data.replace(b"\n", b"\r\n")))
    return _part(f"text/{subtype}; charset=utf-8", "quoted-printable", _quoted_printable(data))


def quoted_printable(content: str) -> bytes:
    """Encode as quoted-printable. Lines have at most 75 characters, so that a soft break (`=`) may follow."""
    if _UNCHANGED.fullmatch(content):
        return content.encode("ascii")
    return _quoted_printable(_encode_lines(content))


def alternative(identity: str, parts: Iterable[bytes]) -> bytes:
    return _multipart("alternative", identity, parts)


_PARAMETERS: Final = r'(; ?[A-Za-z-]{1,32}=([A-Za-z0-9._-]{1,64}|"[ !#-\[\]-~]{1,128}")){0,4}'
CONTENT_TYPE_PATTERN: Final = r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}" + _PARAMETERS
ALTERNATIVE_TYPE_PATTERN: Final = r"text/(calendar|x-amp-html)" + _PARAMETERS
_AMP: Final = "text/x-amp-html"
_CHARSET = re.compile(r'; ?charset=("[^"]*"|[^;]*)', re.IGNORECASE)
_CONTENT_TYPE = re.compile(CONTENT_TYPE_PATTERN)
_CONTENT_ID = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.@-]{1,200}")
# RFC 2046 forbids base64 in these types, so they are sent as generic binary; the file name still shows the type.
_COMPOSITE = ("message/", "multipart/")
_BASE64_LINE = 76
# A boundary cannot occur in encoded text, so every email can use the same one.
_CONTENT = "content"
MAX_CACHED_BODIES = 8 * 1024 * 1024
# Every email with the same attachments uses the same boundary; the mark is the place of each email's body.
_ENCLOSURE = "enclosure"
_ENCLOSED = b"@@"
# Values that need no encoding: one short line of visible characters, as most values are.
_UNCHANGED = re.compile(r"[!-\-/-<>-~](?:[ -<>-~]{0,70}[!-<>-~])?")
# One less than allowed, because a soft line break may follow.
_LONGEST_ENCODED_LINE = 75
# Long names continue in further parameters; 54 characters leave room for `filename*10*=`.
_PARAMETER_LINE = 54
_PLAIN_FILENAME = re.compile(r"[A-Za-z0-9!#$&+^_`{}~ .,;@()\[\]=-]{1,54}")


def _to_lines(email: EmailParts) -> list[str]:
    if email.to is not None:
        return [headers.mailboxes("To", [email.to, *email.further_to], field="to")]
    return [] if email.cc else ["To: undisclosed-recipients:;"]


def _head(email: EmailParts) -> str:
    """Return all headers except the Content-* headers, without the last line end."""
    lines = [headers.mailboxes("From", [email.sender], field="from"), *_to_lines(email)]
    if email.subject.strip():
        lines.append(headers.unstructured("Subject", email.subject, field="subject"))
    lines += [headers.date_line(email.date), headers.message_id_line(email.message_id)]
    if email.sender_header:
        lines.append(headers.mailbox("Sender", email.sender_header, field="sender_header"))
    if email.cc:
        lines.append(headers.mailboxes("Cc", email.cc, field="cc"))
    if email.reply_to:
        lines.append(headers.mailboxes("Reply-To", email.reply_to, field="reply_to"))
    if email.unsubscribe:
        lines.append(headers.list_unsubscribe(email.unsubscribe))
    if email.feedback_id:
        lines.append(headers.opaque("Feedback-ID", email.feedback_id, field="feedback_id"))
    if email.outbox_id:
        lines.append(headers.opaque("X-Mailwright-Message", email.outbox_id, field="outbox_id"))
    has_unsubscribe = email.unsubscribe is not None
    for name, value in email.headers.items():
        lines.append(headers.custom_header(name, value, has_unsubscribe=has_unsubscribe))
    lines.append("MIME-Version: 1.0")
    return "\r\n".join(lines)


def _body(email: EmailParts) -> bytes:
    identity = email.message_id
    inline = [attachment for attachment in email.attachments if attachment.content_id and email.html is not None]
    attached = [attachment for attachment in email.attachments if attachment not in inline]
    body = _text_and_html(email, inline)
    if attached:
        body = _multipart("mixed", identity, [body, *[_attachment(attachment) for attachment in attached]])
    if email.enclosure is not None:
        body = b"".join([email.enclosure.before, body, email.enclosure.after])
    return body


def _text_and_html(email: EmailParts, inline: list[EmailAttachment]) -> bytes:
    html = email.html
    if inline or email.alternatives:
        return _alternatives(html, email.text, [_attachment(image) for image in inline], email.alternatives)
    if html is None:
        return text_part("plain", email.text or "")
    return _bodies.get((html, email.text), lambda: _Body(_alternatives(html, email.text), len(html))).content


def _alternatives(
    html: str | None, plain: str | None, images: Sequence[bytes] = (), others: Sequence[EmailAlternative] = ()
) -> bytes:
    """Order the parts from the simplest to the richest; AMP is before the HTML, because many programs show the last."""
    parts = [text_part("plain", text.from_html(html or "") if plain is None else plain)]
    parts += [_other_part(each) for each in others if each.content_type.startswith(_AMP)]
    if html is not None:
        shown = text_part("html", html)
        parts.append(_multipart("related", _CONTENT, [shown, *images], 'type="text/html"') if images else shown)
    parts += [_other_part(each) for each in others if not each.content_type.startswith(_AMP)]
    return alternative(_CONTENT, parts)


def _other_part(other: EmailAlternative) -> bytes:
    return text_part(_CHARSET.sub("", other.content_type).removeprefix("text/"), other.content)


class _Body(NamedTuple):
    """The encoded text and HTML of an email, and the number of characters they were made of."""

    content: bytes
    characters: int


# Bodies are cached, because messages often share content, for example a notice to all users, sent one by one.
_bodies = BoundedCache[_Body](MAX_CACHED_BODIES, lambda body: len(body.content) + 2 * body.characters)


def _multipart(subtype: str, identity: str, parts: Iterable[bytes], parameter: str = "") -> bytes:
    divider = boundary(subtype, identity)
    kind = f"multipart/{subtype}; {parameter};" if parameter else f"multipart/{subtype};"
    opening = f'Content-Type: {kind}\r\n boundary="{divider}"\r\n'.encode()
    between = f"\r\n--{divider}\r\n".encode()
    return b"".join([opening, between, between.join(parts), f"\r\n--{divider}--\r\n".encode()])


def _part(content_type: str, encoding: str, body: bytes, more: str = "") -> bytes:
    opening = f"Content-Type: {content_type}\r\nContent-Transfer-Encoding: {encoding}\r\n{more}\r\n"
    return opening.encode() + body


def _attachment(attachment: EmailAttachment) -> bytes:
    content_type = attachment.content_type
    if not _CONTENT_TYPE.fullmatch(content_type):
        raise InvalidHeader(
            "{content_type} is not a content type.",
            field="attachments.content_type",
            content_type=repr(content_type[:80]),
        )
    if content_type.lower().startswith(_COMPOSITE):
        content_type = "application/octet-stream"
    disposition = "attachment"
    more = ""
    if attachment.content_id is not None:
        if not _CONTENT_ID.fullmatch(attachment.content_id):
            raise InvalidHeader("A content ID must be one word of ASCII characters.", field="attachments.content_id")
        disposition = "inline"
        more = f"Content-ID: <{attachment.content_id}>\r\n"
    more += f"Content-Disposition: {disposition}{_filename(attachment.filename)}\r\n"
    return _part(content_type, "base64", _base64(attachment.content), more)


def _filename(name: str) -> str:
    if what := headers.find_unwritable(name):
        raise InvalidHeader("The file name contains {what}.", field="attachments.filename", what=what)
    name = name.replace("\t", " ").strip()
    if not name:
        return ""
    if _PLAIN_FILENAME.fullmatch(name):
        return f';\r\n filename="{name}"'
    encoded = quote(name, safe="")
    if len(encoded) <= _PARAMETER_LINE:
        return f";\r\n filename*=utf-8''{encoded}"
    return "".join([f";\r\n filename*{number}*={piece}" for number, piece in enumerate(_percent_pieces(name))])


def _percent_pieces(name: str) -> Iterable[str]:
    """Encode as RFC 2231 pieces, each of whole characters, because some programs decode each piece alone.

    The first piece states the character set.
    """
    piece = "utf-8''"
    for character in name:
        encoded = quote(character, safe="")
        if len(piece) + len(encoded) > _PARAMETER_LINE:
            yield piece
            piece = ""
        piece += encoded
    yield piece


def _encode_lines(content: str) -> bytes:
    """Convert all line ends to CRLF. Bare CR or LF are never sent, because servers interpret them differently."""
    if "\r" in content:
        content = content.replace("\r\n", "\n").replace("\r", "\n")
    return content.encode("utf-8", "replace")


def _quoted_printable(data: bytes) -> bytes:
    encoded = b2a_qp(data, istext=True)
    if encoded.startswith(b".") or b"\n." in encoded:
        encoded = b"\n".join([_encode_leading_dot(line) for line in encoded.split(b"\n")])
    return encoded.replace(b"\n", b"\r\n")


def _encode_leading_dot(line: bytes) -> bytes:
    """Encode a leading dot, so that no line needs dot-stuffing, which some servers handle wrongly."""
    if not line.startswith(b"."):
        return line
    line = b"=2E" + line[1:]
    if len(line) <= _LONGEST_ENCODED_LINE:
        return line
    # The line is now two characters longer and may exceed the limit. Never split an encoded character.
    end = _LONGEST_ENCODED_LINE - 1
    while b"=" in line[end - 2 : end]:
        end -= 1
    return line[:end] + b"=\n" + _encode_leading_dot(line[end:])


def _base64(data: bytes) -> bytes:
    encoded = b2a_base64(data, newline=False)
    return b"\r\n".join([encoded[start : start + _BASE64_LINE] for start in range(0, len(encoded), _BASE64_LINE)])
