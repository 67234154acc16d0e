"""An event that a webhook gets, before a format gives it its shape."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final
from uuid import NAMESPACE_OID, UUID, uuid5

from mailwright.content.headers import message_id
from mailwright.domain import address
from mailwright.domain.clock import Instant
from mailwright.domain.results import ErrorCategory
from mailwright.domain.states import EventType
from mailwright.providers.inbound.soft_bounces import is_about_address

# The type of a test delivery, which belongs to no message.
TEST: Final = "test"
# The type of the delivery that asks the receiver to confirm the webhook.
CONFIRMATION: Final = "confirmation"
_STATUS: Final = re.compile(r"\b[245]\.\d{1,3}\.\d{1,3}\b")
_REPLY_CODE: Final = re.compile(r"\b[245]\d\d\b")


class SuppressionCause(Enum):
    """Why the address of a message that Mailwright did not send is on the suppression list."""

    BOUNCE = re.compile("bounce")
    COMPLAINT = re.compile("complain|spam")
    UNSUBSCRIBE = re.compile("unsubscribe")
    OTHER = re.compile("")


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """The message of an event, with what the application gave: its name for the email, tags and custom arguments.

    `copy_of` is the message that a later copy for a Cc or Bcc recipient repeats, with the same headers.
    """

    outbox_id: str
    to: str
    recipient_id: str | None = None
    external_id: str | None = None
    request_id: str = ""
    source: str = ""
    list_key: str | None = None
    subject: str = ""
    sender: str = ""
    own_message_id: str | None = None
    own_email_id: str | None = None
    copy_of: str | None = None
    tags: tuple[str, ...] = ()
    custom: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def email_id(self) -> str:
        """The ID that the application got for the email, which may be that of the message to another recipient."""
        return self.own_email_id or self.outbox_id

    @property
    def message_id(self) -> str | None:
        """The value of the Message-ID header; None if the content of the message was deleted."""
        return self.own_message_id or self._derived_id(self.copy_of or self.outbox_id)

    @property
    def email_message_id(self) -> str | None:
        """The Message-ID that the application got for the email."""
        return self.own_message_id or self._derived_id(self.email_id)

    @property
    def sender_address(self) -> str:
        return address.split_mailbox(self.sender)[1]

    @property
    def tag(self) -> str | None:
        return self.tags[0] if self.tags else None

    def _derived_id(self, identity: str) -> str | None:
        return message_id(identity, address.domain_of(self.sender_address)) if self.sender else None


@dataclass(frozen=True, slots=True)
class OutboundEvent:
    delivery_id: str
    webhook_id: str
    type: str
    at: Instant
    message: OutboundMessage | None = None
    contact: Mapping[str, Any] | None = None
    campaign: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    event_key: int | None = None

    @property
    def event_id(self) -> UUID:
        """The ID of the event, which is the same in all webhooks; of the delivery if it has no event."""
        return UUID(self.delivery_id) if self.event_key is None else uuid5(NAMESPACE_OID, f"event:{self.event_key}")

    @property
    def about(self) -> OutboundMessage:
        """The message; an empty one if it was deleted."""
        return self.message or OutboundMessage("", "")

    @property
    def error_code(self) -> str:
        return self.metadata.get("errorCode") or ""

    @property
    def reason(self) -> str | None:
        """The words of the server or of Mailwright about a failure."""
        return self._text("reason") or self._text("errorMessage")

    @property
    def response(self) -> str | None:
        return self._text("response")

    @property
    def smtp_status(self) -> str | None:
        """The status code such as 5.1.1, which may be part of the reason."""
        found = _STATUS.search(f"{self.metadata.get('status')} {self.reason}")
        return found[0] if found else None

    @property
    def smtp_code(self) -> int | None:
        """The reply code such as 550, which may be part of the reason or response."""
        found = _REPLY_CODE.search(self.reason or self.response or "")
        return int(found[0]) if found else None

    @property
    def suppression(self) -> SuppressionCause | None:
        """Why the address is on the suppression list, if Mailwright did not send the message because of that."""
        if self.error_code != "RECIPIENT_SUPPRESSED":
            return None
        reason = (self.reason or "").lower()
        return next(each for each in SuppressionCause if each.value.search(reason))

    @property
    def is_rejection(self) -> bool:
        """Whether a provider or server rejected the message. Otherwise, Mailwright did not send it."""
        return self.type == EventType.BOUNCED or self.metadata.get("errorCategory") == ErrorCategory.PERMANENT

    @property
    def is_about_address(self) -> bool:
        """Whether the address itself was rejected, and not, for example, the content."""
        return is_about_address(self.smtp_status, self.reason or "", is_permanent=True)

    @property
    def is_machine(self) -> bool:
        return self.metadata.get("isMachine") is True

    @property
    def user_agent(self) -> str | None:
        return self._text("userAgent")

    @property
    def url(self) -> str | None:
        return self._text("url")

    def as_sample(self) -> "OutboundEvent":
        """Return an event about no real message, for the test of a format that has no test event."""
        message = OutboundMessage(self.delivery_id, "test@example.com", sender="sender@example.com", subject="Test")
        return replace(self, type=EventType.DELIVERED, message=message, metadata={"response": "250 OK"})

    def _text(self, name: str) -> str | None:
        found = self.metadata.get(name)
        return None if found is None else str(found)
