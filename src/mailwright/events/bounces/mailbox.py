"""The interface of a bounce mailbox. It yields each email until it is marked as done."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

from mailwright.content.raw import MAX_RAW_BYTES
from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass

# One byte more than the largest email that can be forwarded, so that a larger one is recognised.
MAX_READ_BYTES = MAX_RAW_BYTES + 1


@dataclass(frozen=True, slots=True)
class MailboxEmail:
    identity: str  # identifies the email in the mailbox, for logs
    content: bytes  # the first `MAX_READ_BYTES` of the email
    mark_done: Callable[[], Awaitable[None]]  # call this after the content is recorded
    flag: Callable[[], Awaitable[None]]  # excludes the email from later reads and flags it for an operator


class MailboxUnavailable(MailwrightError):
    """The bounce mailbox is unavailable."""

    code = "BOUNCE_MAILBOX_UNAVAILABLE"


class BounceMailbox(Protocol):
    def unread_emails(self) -> AsyncGenerator[MailboxEmail, None]:
        """Yield each email that is not marked as done, once. Raises `MailboxUnavailable`."""
        ...
