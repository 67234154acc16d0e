"""A message split into its parts, for providers whose API accepts no MIME."""

from dataclasses import field
from typing import NamedTuple

from mailwright.domain.lazy_dataclass import dataclass


class ParsedMailbox(NamedTuple):
    address: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class ParsedAttachment:
    filename: str
    content_type: str  # The media type without parameters.
    content: str  # Base64 without line ends.
    content_id: str | None = None  # Set if the HTML shows the attachment inline.


@dataclass(slots=True)  # Not frozen, for speed: see domain.message.
class ParsedMessage:
    sender: ParsedMailbox
    to: list[ParsedMailbox]
    cc: list[ParsedMailbox]
    reply_to: list[ParsedMailbox]
    subject: str
    # All other headers, unfolded but otherwise as written: the APIs do not encode them.
    headers: list[tuple[str, str]]
    text: str | None = None
    html: str | None = None
    attachments: list[ParsedAttachment] = field(default_factory=list)
