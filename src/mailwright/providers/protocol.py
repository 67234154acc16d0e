"""The protocol of a provider. A new provider is one module and one entry in `app`."""

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult


@dataclass(frozen=True, slots=True)
class ProviderCheck:
    """The result of a provider check, with a one-line summary."""

    is_ok: bool
    summary: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class AccountQuota:
    """The quota of an account as the provider counts it. None means not reported or no limit."""

    limit_per_day: float | None
    sent_today: float | None
    rate_per_second: float | None
    remaining: float | None
    limit_per_hour: int | None = None
    sent_this_hour: int | None = None
    is_sending_enabled: bool = True
    detail: str = ""
    left_in_plan: int | None = None  # Messages left in the plan, which is not renewed automatically.


ResultCallback = Callable[[SendResult], None]


class SendHandle(Protocol):
    """A message that was handed to a provider."""

    def cancel(self) -> object:
        """Stop waiting for the result. A message whose transmission has not started is not sent."""


class Provider(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def reports_events(self) -> bool:
        """Whether the provider reports events later; a message in doubt then waits for a report."""
        ...

    @property
    def capacity(self) -> int:
        """The number of messages that the provider can process at once now, including those in flight.

        A worker begins no more attempts than this, so that an attempt never waits for a connection.
        """
        ...

    @property
    def bulk_capacity(self) -> int:
        """The number of bulk messages within `capacity`. Bulk messages leave a tenth of the capacity free."""
        ...

    def send(self, message: OutgoingMessage) -> Awaitable[SendResult]:
        """Send a message. Never raise: every failure is a result."""
        ...

    async def check(self) -> ProviderCheck:
        """Check whether the provider would accept a message now, without sending one."""
        ...

    async def close(self, grace: Instant = 0) -> None:
        """Let messages in flight finish, for at most `grace` milliseconds."""
        ...


@dataclass(frozen=True, slots=True)
class RetractedAcceptance:
    """A message that a provider accepted and then rejected with an unsolicited response."""

    outbox_id: str
    recipient: str
    rejection: SendResult


RetractionCallback = Callable[[RetractedAcceptance], None]


@runtime_checkable
class RetractingProvider(Protocol):
    """A provider that may reject a message after its result was SENT."""

    def watch_retractions(self, on_retraction: RetractionCallback) -> None: ...


@runtime_checkable
class CallbackProvider(Protocol):
    """A provider that passes the result to a callback, which avoids an expensive future or task per message."""

    def send_with_callback(self, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle: ...


@runtime_checkable
class VariableCapacity(Protocol):
    """A provider whose capacity changes, because it opens connections on demand."""

    def watch_capacity(self, on_growth: Callable[[], None]) -> None:
        """Call `on_growth` each time the capacity grows."""
