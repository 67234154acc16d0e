"""A mail in its parts, as SendGrid wants it: it takes no MIME, it writes its own."""

from dataclasses import dataclass, field
from typing import NamedTuple


class ParsedMailbox(NamedTuple):
    address: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class ParsedAttachment:
    filename: str
    content_type: str  # without parameters
    content: str  # base64 without line ends
    content_id: str | None = None  # the HTML shows it in place


@dataclass(slots=True)  # made for every mail
class ParsedMail:
    sender: ParsedMailbox
    to: list[ParsedMailbox]
    cc: list[ParsedMailbox]
    reply_to: list[ParsedMailbox]
    subject: str
    # All the others, unfolded and otherwise as they were written: SendGrid does not encode them.
    headers: list[tuple[str, str]]
    text: str | None = None
    html: str | None = None
    attached: list[ParsedAttachment] = field(default_factory=list)
