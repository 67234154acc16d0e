"""An event that a webhook gets, before a format gives it its shape."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mailwright.content.headers import message_id
from mailwright.domain import address
from mailwright.domain.clock import Instant
from mailwright.domain.results import ErrorCategory
from mailwright.domain.states import EventType
from mailwright.providers.inbound.soft_bounces import is_about_address

# The type of a test delivery, which belongs to no message.
TEST: Final = "test"
_STATUS: Final = re.compile(r"\b[245]\.\d{1,3}\.\d{1,3}\b")


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """The message of an event, with what the application gave: its name for the email, tags and custom arguments."""

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
    tags: tuple[str, ...] = ()
    custom: Mapping[str, Any] = field(default_factory=dict)

    @property
    def email_id(self) -> str:
        """The ID that the application got for the email, which may be that of the message to another recipient."""
        return self.own_email_id or self.outbox_id

    @property
    def message_id(self) -> str | None:
        """The value of the Message-ID header; None if the content of the message was deleted."""
        if self.own_message_id is not None or not self.sender:
            return self.own_message_id
        return message_id(self.outbox_id, address.domain_of(address.split_mailbox(self.sender)[1]))


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
