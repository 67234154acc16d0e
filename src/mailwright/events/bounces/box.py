"""A box is where bounce mails lie. Each is handed over until somebody says that it is done; twice is harmless."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from mailwright.domain.errors import MailwrightError


@dataclass(frozen=True, slots=True)
class Arrival:
    identity: str  # where in the box it lies, for logs
    mail: bytes  # as much of it as is ever looked at
    done: Callable[[], Awaitable[None]]  # to be called once what it says is on disk
    lay_aside: Callable[[], Awaitable[None]]  # it is not handed over again, and stays marked for a person


class BoxUnavailable(MailwrightError):
    """The mailbox cannot be read now."""

    code = "BOUNCE_MAILBOX_UNAVAILABLE"


class Box(Protocol):
    def arrivals(self) -> AsyncGenerator[Arrival, None]:
        """What lies there now and is not done, once through. Raises BoxUnavailable."""
        ...
