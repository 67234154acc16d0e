"""Parse an email for display: headers, HTML, plain text and attachments."""

import base64
import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.encoded_words import decode_text, decode_words
from mailwright.domain.errors import NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sizes import size_text
from mailwright.domain.translation import gettext, lazy_gettext, lazy_pgettext
from mailwright.web.dashboard import previews
from mailwright.web.dashboard.shell import email_frame

VIEWS: Final = {
    "html": "HTML",
    "text": lazy_gettext("Text"),
    "headers": lazy_gettext("Headers"),
    "source": lazy_pgettext("code", "Source"),
}
# Longer sources are cut on the page; the download is complete.
MAX_SOURCE_BYTES: Final = 200_000
_MAX_PART_HEADER: Final = 4_000
_INLINE: Final = re.compile(r"cid:([^\"'\s)>]+)")


@dataclass(frozen=True, slots=True)
class AttachmentView:
    number: int
    name: str
    kind: str
    content: bytes

    @property
    def size(self) -> str:
        return size_text(len(self.content))


@dataclass(frozen=True, slots=True)
class ParsedEmail:
    """A parsed email. Inline images in `html` are embedded as data URLs."""

    headers: tuple[tuple[str, str], ...]
    html: str | None
    text: str | None
    attachments: tuple[AttachmentView, ...]
    source: bytes

    def header(self, name: str) -> str:
        return next((value for each, value in self.headers if each.lower() == name), "")

    @property
    def date(self) -> Instant | None:
        """The time of the header Date, or None if there is no valid one."""
        try:
            return int(parsedate_to_datetime(self.header("date")).timestamp() * SECOND)
        except (ValueError, OverflowError):
            return None

    @property
    def views(self) -> list[tuple[str, str]]:
        missing = {"html": self.html is None, "text": self.text is None}
        return [(name, words) for name, words in VIEWS.items() if not missing.get(name)]

    @property
    def source_text(self) -> str:
        return self.source[:MAX_SOURCE_BYTES].decode("utf-8", "replace").replace("\r\n", "\n")

    @property
    def is_source_cut(self) -> bool:
        return len(self.source) > MAX_SOURCE_BYTES

    def view(self, wanted: str) -> str:
        """Return the wanted view, or the first one that this email has."""
        names = [name for name, _ in self.views]
        return wanted if wanted in names else names[0]


def parse_email(source: bytes) -> ParsedEmail:
    """Parse any email. Unreadable parts become attachments; headers are shown as they are."""
    try:
        message = message_from_bytes(source, policy=_ShortParameters())
    except ValueError:  # a boundary in an invalid charset
        message = BytesHeaderParser().parsebytes(source)
    html = text = None
    inline: dict[str, str] = {}
    attachments: list[AttachmentView] = []
    for part in _leaves(message):
        kind, content = part.get_content_type(), _content(part)
        is_attachment = part.get_content_disposition() == "attachment"
        if kind == "text/html" and html is None and not is_attachment:
            html = _text_of(part, content)
        elif kind == "text/plain" and text is None and not is_attachment:
            text = _text_of(part, content)
        else:
            cid = str(part.get("Content-ID", "")).strip("<> ")
            if cid and kind.startswith("image/"):
                inline[cid] = f"data:{kind};base64,{base64.b64encode(content).decode()}"
            name = _file_name(part) or cid or f"part-{len(attachments) + 1}"
            attachments.append(AttachmentView(len(attachments), readable(name), kind, content))
    if html is not None and inline:
        html = _INLINE.sub(lambda found: inline.get(found[1], found[0]), html)
    headers = tuple((name, readable(str(value))) for name, value in message.items())
    return ParsedEmail(headers, html, text, tuple(attachments), source)


def frame_response(email: ParsedEmail | str, *, is_dark: bool = False) -> Response:
    """Serve the email for a sandboxed frame."""
    if isinstance(email, str):
        return email_frame(previews.notice(email))
    if email.html is None:
        return email_frame(previews.notice(gettext("This email has no HTML.")))
    return email_frame(previews.in_dark(email.html) if is_dark else previews.in_light(email.html))


def file_response(email: ParsedEmail | str, number: int) -> Response:
    """Serve an attachment as a download, so that nothing in it runs on our origin."""
    if isinstance(email, str) or not 0 <= number < len(email.attachments):
        raise NotFound
    attachment = email.attachments[number]
    return download(attachment.content, attachment.name)


def download(content: bytes, name: str, kind: str = "application/octet-stream") -> Response:
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    return Response(content, HTTPStatus.OK, headers=headers, media_type=kind)


class _ShortParameters(policy.Compat32):
    """Cut very long headers of parts, because the standard library reads their parameters in quadratic time."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_MAX_PART_HEADER] if name.lower().startswith("content-") else value


def _leaves(message: Message) -> Iterator[Message]:
    for part in message.walk():
        if not part.is_multipart():
            yield part


def _file_name(part: Message) -> str | None:
    try:
        return part.get_filename()
    except ValueError:  # a name in an invalid charset
        return None


def _content(part: Message) -> bytes:
    found: Any = part.get_payload(decode=True)
    return found if isinstance(found, bytes) else b""


def _text_of(part: Message, content: bytes) -> str:
    return decode_text(content, part.get_content_charset() or "utf-8")


def readable(value: str) -> str:
    return decode_words(re.sub(r"\r?\n\s+", " ", value))
