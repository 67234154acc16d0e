"""The message as a provider receives it."""

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass


@dataclass(slots=True)  # Not frozen, for speed: see domain.message.
class OutgoingMessage:
    outbox_id: str
    sender: str  # Envelope sender, which receives bounces.
    recipients: tuple[str, ...]  # Envelope recipients, domains as A-labels.
    content: bytes  # Headers and body; lines end in CRLF; not dot-stuffed.
    # When the worker's lease on the message ends. A provider must not start to transmit later, because another worker
    # may have claimed the message.
    send_before: Instant | None = None
    # True if our MIME writer produced the content: ASCII, every line ends in CRLF, no line begins with a dot. Providers
    # must scan any other content.
    is_canonical: bool = False
    # False if the request chose the envelope sender; a rejected sender is then an error of this message only.
    uses_default_sender: bool = True
    # False if the request chose the From header, which SES and SendGrid check.
    uses_default_from: bool = True
    # True if the links and the pixel of the email identify its recipient.
    is_tracked: bool = False
    # The key by which the program that requested the message recognises duplicates; providers get it as a tag.
    dedupe_key: str | None = None
    # The rendered subject, if it differs from the subject that was stored when the message was accepted.
    own_subject: str | None = None
    # True if other messages go first when connections are scarce.
    is_bulk: bool = False
