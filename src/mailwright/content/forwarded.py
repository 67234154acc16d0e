"""Forward an email: keep its body, and send it from our own address, so that it passes SPF, DKIM and DMARC.

The author becomes the Reply-To, unless the email has no author or one whose address cannot be written in a header.
Headers that describe the path of the original email are dropped.
"""

import re
from collections.abc import Iterator
from typing import Final

from mailwright.content.headers import (
    Mailbox,
    date_line,
    mailboxes,
    message_id,
    message_id_line,
    unstructured,
)
from mailwright.content.raw import FIELD_START, MAX_RAW_BYTES, InvalidEmail, check_lines
from mailwright.domain import address
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass

# The headers that describe the body, and those that programs use to show a conversation.
_KEPT: Final = frozenset(
    {
        *(b"mime-version", b"content-type", b"content-transfer-encoding", b"content-language"),
        *(b"in-reply-to", b"references"),
    }
)
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class ForwardHeaders:
    outbox_id: str
    sender: Mailbox
    author: Mailbox | None
    to: str
    subject: str
    date: Instant


def forward_email(content: bytes, headers: ForwardHeaders) -> bytes:
    """Return the email to send. Raise `InvalidEmail` if it is too large, or cannot be sent over SMTP."""
    if len(content) > MAX_RAW_BYTES:
        raise InvalidEmail(f"The email is larger than {MAX_RAW_BYTES // 1024 // 1024} MB.")
    head, _, body = _LINE_END.sub(b"\r\n", content.lstrip(b"\r\n")).partition(b"\r\n\r\n")
    identity = message_id(headers.outbox_id, address.domain_of(headers.sender.address))
    lines = [
        mailboxes("From", [_shown_sender(headers)], field="from"),
        *_reply_to(headers.author),
        mailboxes("To", [Mailbox(headers.to, None)], field="to"),
        unstructured("Subject", headers.subject, field="subject"),
        date_line(headers.date),
        message_id_line(identity),
    ]
    forwarded = b"\r\n".join([*(line.encode() for line in lines), *_kept_fields(head), b"", body.rstrip(b"\r\n"), b""])
    check_lines(forwarded)
    return forwarded


def _reply_to(author: Mailbox | None) -> list[str]:
    if author is None or not author.address.isascii():
        return []
    return [mailboxes("Reply-To", [author], field="reply_to")]


def _shown_sender(headers: ForwardHeaders) -> Mailbox:
    """Return our address with the name of the author, who cannot be the sender."""
    author = headers.author or Mailbox("", "Unknown sender")
    name = author.name or author.address.replace("@", " at ")
    return Mailbox(headers.sender.address, f"{name} via {headers.sender.name or headers.sender.address}")


def _kept_fields(head: bytes) -> Iterator[bytes]:
    seen: set[bytes] = set()
    for source in FIELD_START.split(head):
        name = source.partition(b":")[0].strip().lower()
        if name in _KEPT and name not in seen:
            seen.add(name)
            yield source
