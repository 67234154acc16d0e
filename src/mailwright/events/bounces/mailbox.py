"""A box is where bounce mails lie. Each is handed over until somebody says that it is done; twice is harmless."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from mailwright.domain.errors import MailwrightError


@dataclass(frozen=True, slots=True)
class MailboxEmail:
    identity: str  # where in the box it lies, for logs
    mail: bytes  # as much of it as is ever looked at
    mark_done: Callable[[], Awaitable[None]]  # to be called once what it says is on disk
    flag: Callable[[], Awaitable[None]]  # it is not handed over again, and stays marked for a person


class MailboxUnavailable(MailwrightError):
    """The mailbox cannot be read now."""

    code = "BOUNCE_MAILBOX_UNAVAILABLE"


class BounceMailbox(Protocol):
    def unread_emails(self) -> AsyncGenerator[MailboxEmail, None]:
        """What lies there now and is not done, once through. Raises BoxUnavailable."""
        ...
