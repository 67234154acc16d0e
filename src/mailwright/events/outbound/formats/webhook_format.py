"""The shape of webhook requests: body, headers, signature, and how many events one request has."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from mailwright.domain.clock import Instant
from mailwright.domain.states import EventType
from mailwright.events.outbound.outbound_event import OutboundEvent

# The event types that most services have.
USUAL_TYPES: Final = (
    EventType.SENT,
    EventType.FAILED,
    EventType.DELIVERED,
    EventType.OPENED,
    EventType.CLICKED,
    EventType.BOUNCED,
    EventType.COMPLAINED,
    EventType.UNSUBSCRIBED,
    EventType.DEFERRED,
)


class RequestContent(NamedTuple):
    """The headers and the body of a request, except the content type, which is JSON unless the headers say other."""

    headers: dict[str, str]
    body: bytes


class Secret(NamedTuple):
    """What Mailwright signs with, and what the receiver needs to verify it. They differ for a pair of keys."""

    stored: str
    shown: str


@dataclass(frozen=True, slots=True)
class Signing:
    """The secrets that sign a request, newest first, the time of the request, and the public URL of Mailwright."""

    secrets: Sequence[str]
    at: Instant
    base_url: str


class WebhookFormat(ABC):
    """One format."""

    name: ClassVar[str]
    label: ClassVar[str]  # in the dashboard
    # The event types that the format can express.
    types: ClassVar[tuple[EventType, ...]]
    # Whether a request has a signature for each secret. Otherwise a replaced secret ends at once.
    signs_with_all: ClassVar[bool] = False
    # Whether one request has all events that are due.
    is_batch: ClassVar[bool] = False
    # Whether a new webhook gets a request that asks the receiver to confirm it.
    asks_to_confirm: ClassVar[bool] = False
    # Whether the documents are those of Mailwright. Others need what the application gave with the message, such as its
    # tags, and have no test event.
    is_own: ClassVar[bool] = False

    @abstractmethod
    def make_secret(self) -> Secret:
        """Create the secret of an endpoint."""

    @abstractmethod
    def request(self, events: Sequence[OutboundEvent], signing: Signing) -> RequestContent:
        """Return the signed request for these events: one, unless the format has batches."""
