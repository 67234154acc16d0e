"""Parse any MIME message with the standard library's slow but tolerant parser."""

import re
from base64 import b64encode
from collections.abc import Iterator
from email import policy
from email.header import Header
from email.headerregistry import HeaderRegistry
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.utils import getaddresses
from typing import Any, cast

from mailwright.domain.encoded_words import decode_text, decode_words
from mailwright.providers.parsed_mime.parse_own_mime import ADDRESSES
from mailwright.providers.parsed_mime.parsed_message import ParsedAttachment, ParsedMailbox, ParsedMessage

Fields = list[tuple[str, str]]


class UnreadableMime(ValueError):
    """The message cannot be sent through an API that takes fields instead of MIME."""


def parse(content: bytes) -> ParsedMessage:
    try:
        return _read(BytesParser(policy=_TOLERANT).parsebytes(content))
    except UnreadableMime:
        raise
    except Exception as error:  # The parser should accept anything, but its header classes sometimes raise.
        raise UnreadableMime(f"the message cannot be parsed: {type(error).__name__}") from error


# The parser of the standard library takes quadratic time, and only the headers of parts are parsed by it.
_MAX_PARSED_VALUE = 4_000
_EXTENDED_PARAMETER = re.compile(r";\s*[\w-]{1,60}\*(?:\d{1,3}\*?)?\s*=[^;]*")


class _TolerantHeaders(HeaderRegistry):
    """Header classes that drop parameters in an invalid charset, for which the standard library raises, and the end of
    very long headers."""

    def __call__(self, name: str, value: Any) -> Any:
        written = str(value)[:_MAX_PARSED_VALUE]
        for each in (written, _EXTENDED_PARAMETER.sub("", written), written.partition(";")[0]):
            try:
                return super().__call__(name, each)
            except Exception:  # noqa: S112 - the parser raises errors of many classes
                continue
        return super().__call__(name, "")


_TOLERANT = policy.default.clone(header_factory=_TolerantHeaders())

# Types whose bytes must not change.
_SEALED = frozenset({"multipart/signed", "multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})
_FOLD = re.compile(r"\r?\n(?=[ \t])")


def _read(message: EmailMessage) -> ParsedMessage:
    if message.get_content_type() in _SEALED:
        raise UnreadableMime(
            "the message is signed or encrypted, and the provider's API would change its bytes; use SMTP"
        )
    fields = [(name, _unfolded(str(raw))) for name, raw in message.raw_items()]
    senders = _mailboxes(fields, "from")
    if not senders:
        raise UnreadableMime("the message has no sender")
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    return ParsedMessage(
        senders[0],
        _mailboxes(fields, "to"),
        _mailboxes(fields, "cc"),
        _mailboxes(fields, "reply-to"),
        next((decode_words(value) for name, value in fields if name.lower() == "subject"), ""),
        list(_other_headers(fields)),
        None if text is None else _text(text),
        None if html is None else _text(html),
        [_parse_attachment(part) for part in _leaves(message) if part is not text and part is not html],
    )


def _unfolded(raw: str) -> str:
    value = _FOLD.sub("", raw).strip()
    return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _mailboxes(fields: Fields, wanted: str) -> list[ParsedMailbox]:
    """Parse mailboxes. Split before decoding, because an encoded comma is not a separator."""
    found = getaddresses([value for name, value in fields if name.lower() == wanted])
    return [ParsedMailbox(address, decode_words(name)) for name, address in found if "@" in address]


def _other_headers(fields: Fields) -> Iterator[tuple[str, str]]:
    for name, value in fields:
        lowered = name.lower()
        if lowered not in ADDRESSES and lowered != "subject" and not lowered.startswith("content-"):
            yield name, value if value.isascii() else Header(value, "utf-8").encode(linesep="")


def _leaves(message: MIMEPart) -> Iterator[MIMEPart]:
    if message.get_content_maintype() != "multipart":
        yield message
        return
    for part in message.iter_parts():
        yield from _leaves(part)


def _text(part: MIMEPart) -> str:
    data = cast("bytes", part.get_payload(decode=True) or b"")
    text = decode_text(data, part.get_content_charset("utf-8"))
    return text.replace("\r\n", "\n")


def _parse_attachment(part: MIMEPart) -> ParsedAttachment:
    content_id = str(part["content-id"] or "").strip().strip("<>")
    is_inline = part.get_content_disposition() == "inline" and bool(content_id)
    return ParsedAttachment(
        part.get_filename("") or "",
        part.get_content_type(),
        b64encode(_data(part)).decode(),
        content_id if is_inline else None,
    )


def _data(part: MIMEPart) -> bytes:
    if part.get_content_maintype() == "message":  # An attached message.
        return b"".join([inner.as_bytes() for inner in part.iter_parts()])
    return cast("bytes", part.get_payload(decode=True) or b"")
