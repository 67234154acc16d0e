"""A mail that is ready to leave: what a provider is handed."""

from dataclasses import dataclass

from mailwright.domain.clock import Instant


@dataclass(slots=True)  # made for every mail: see domain.message
class OutgoingMessage:
    outbox_id: str
    sender: str  # envelope sender, where bounces go
    recipients: tuple[str, ...]  # envelope recipients, domains as A-labels
    content: bytes  # headers and body, lines end in CRLF, not dot-stuffed
    # Our lock on the message ends then. A provider that has not begun to transmit by this time must not begin:
    # another worker may already have taken the message over.
    send_before: Instant | None = None
    # Written by our own MIME writer: ASCII, every line ends in CRLF, none begins with a dot. Then a provider need not
    # look through the whole content again; anything else it must look through.
    is_canonical: bool = False
    # False where the request chose the envelope sender: should it be refused, nobody else's mail is to blame.
    uses_default_sender: bool = True
    # The same of the From in the mail itself, which SES and SendGrid look at.
    uses_default_from: bool = True
