"""What every provider is: one small protocol. A new provider is one module and one entry in `app`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mailwright.domain.clock import Instant
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult


@dataclass(frozen=True, slots=True)
class ProviderCheck:
    """What a trial found, in one line for people."""

    is_ok: bool
    summary: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class AccountQuota:
    """What an account may send, as its provider counts it. None: not told, or without a limit."""

    limit_per_day: float | None
    sent_today: float | None
    rate_per_second: float | None
    remaining: float | None
    limit_per_hour: int | None = None
    sent_this_hour: int | None = None
    is_sending_enabled: bool = True
    detail: str = ""


ResultCallback = Callable[[SendResult], None]


class SendHandle(Protocol):
    """A mail that a provider has been handed."""

    def cancel(self) -> object:
        """Nobody waits for the answer any more: what has not begun to leave does not leave."""


class Provider(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def reports_events(self) -> bool:
        """Whether it later tells what became of a mail; a doubt then waits for that before it is decided."""
        ...

    def send(self, message: OutgoingMessage) -> Awaitable[SendResult]:
        """An `async def` in most providers. It never raises: whatever happens is a result."""
        ...

    async def check(self) -> ProviderCheck:
        """Whether it would take a mail now, found out without sending one."""
        ...

    async def close(self, grace: Instant = 0) -> None:
        """Lets what is under way end, for at most `grace` milliseconds."""
        ...


@runtime_checkable
class CallbackProvider(Protocol):
    """A provider that answers by calling back, once: a future or a task for every mail costs more than settling it."""

    def send_with_callback(self, message: OutgoingMessage, answered: ResultCallback) -> SendHandle: ...
