"""Reports about sent messages (bounces, complaints, opens …) in one format for all providers."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType


class ContactVerdict(StrEnum):
    """The consequence of a report for its contact."""

    NOTHING = "nothing"
    HARD_BOUNCE = "hard_bounce"  # The address is invalid and is suppressed.
    SOFT_BOUNCE = "soft_bounce"  # A temporary failure; the address is suppressed after several in a short time.
    COMPLAINT = "complaint"  # Marked as spam: the address is suppressed and the contact unsubscribed.
    UNSUBSCRIBE = "leaves"  # Unsubscribed at the provider: no bulk email. The value is stored in the database.


@dataclass(frozen=True, slots=True)
class ReportScope:
    """The messages that a source of reports may report about. None means any tenant or any provider."""

    tenant_id: int | None = None
    provider: str | None = None
    needs_own_recipient: bool = False  # Whether a report about an address that the message did not go to is unknown.

    def covers(self, tenant_id: int, provider: str | None) -> bool:
        return self.tenant_id in (None, tenant_id) and self.provider in (None, provider)


@dataclass(frozen=True, slots=True)
class Report:
    """A report about one message and one recipient. The message is found by its most reliable identifier."""

    key: str  # Unique for the report; every copy of it has the same key.
    source: str  # A provider, or the name of another source of reports.
    type: EventType
    at: Instant
    recipient: str | None = None
    outbox_id: str | None = None  # Our message id, as included in the message.
    provider_message_id: str | None = None
    verdict: ContactVerdict = ContactVerdict.NOTHING
    bounce_type: str | None = None  # The reporter's own type, for example Permanent.
    bounce_subtype: str | None = None  # The reporter's own subtype, for example General.
    metadata: Mapping[str, Any] = field(default_factory=dict)
    scope: ReportScope | None = None  # None if the reporter may report about every message.
    is_response: bool = False  # It was a response to the send, so it does not show that events of the provider arrive.

    @property
    def provider(self) -> str:
        """The provider whose message ID the report contains."""
        return self.source if self.scope is None or self.scope.provider is None else self.scope.provider
