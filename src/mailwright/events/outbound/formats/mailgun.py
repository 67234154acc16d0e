"""The format of Mailgun's webhooks and of the items of its events API, signed with HMAC-SHA256."""

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from mailwright.domain import address
from mailwright.domain.clock import SECOND
from mailwright.domain.states import EventType
from mailwright.events.outbound.formats.webhook_format import (
    USUAL_TYPES,
    RequestContent,
    Secret,
    Signing,
    WebhookFormat,
)
from mailwright.events.outbound.outbound_event import OutboundEvent, OutboundMessage, SuppressionCause

_SUPPRESSED: Final = {
    SuppressionCause.BOUNCE: "suppress-bounce",
    SuppressionCause.COMPLAINT: "suppress-complaint",
    SuppressionCause.UNSUBSCRIBE: "suppress-unsubscribe",
}
# Mailgun's code of a message that it did not try to deliver.
_NOT_TRIED: Final = 605


class MailgunFormat(WebhookFormat):
    name = "mailgun"
    label = "Mailgun"
    types = USUAL_TYPES

    def make_secret(self) -> Secret:
        """Create the key that Mailgun calls the webhook signing key."""
        made = secrets.token_hex(16)
        return Secret(made, made)

    def request(self, events: Sequence[OutboundEvent], signing: Signing) -> RequestContent:
        """Return the request with a new token each time, because receivers refuse a token that they have seen."""
        [event] = events
        timestamp, token = str(signing.at // SECOND), secrets.token_hex(25)
        signature = hmac.digest(signing.secrets[0].encode(), f"{timestamp}{token}".encode(), "sha256").hex()
        signed = {"timestamp": timestamp, "token": token, "signature": signature}
        return RequestContent({}, orjson.dumps({"signature": signed, "event-data": mailgun_event(event)}))


def mailgun_message_id(message: OutboundMessage) -> str:
    """Return the ID of the email as in events: its Message-ID without angle brackets."""
    return (message.email_message_id or message.email_id).strip("<>")


def mailgun_event(event: OutboundEvent) -> dict[str, Any]:
    """Return the data of an event, as in webhooks and in the events API."""
    message = event.about
    headers = {
        "message-id": mailgun_message_id(message),
        "to": message.to,
        "from": message.sender,
        "subject": message.subject,
    }
    return {
        "id": urlsafe_b64encode(event.event_id.bytes).rstrip(b"=").decode(),
        "timestamp": event.at / SECOND,
        "log-level": "info",
        "recipient": message.to,
        "recipient-domain": address.domain_of(message.to),
        "message": {"headers": headers, "attachments": [], "size": 0},
        "envelope": {"sender": message.sender_address, "targets": message.to, "transport": "smtp"},
        "tags": list(message.tags),
        "campaigns": [],
        "user-variables": message.custom,
        "flags": {"is-test-mode": False, "is-authenticated": True, "is-routed": False, "is-system-test": False},
        **_PARTS[EventType(event.type)](event),
    }


def _failure(event: OutboundEvent, severity: str, reason: str, code: int) -> dict[str, Any]:
    status = {"message": event.reason or event.response or "", "description": "", "code": event.smtp_code or code}
    if event.smtp_status is not None:
        status["enhanced-code"] = event.smtp_status
    level = "error" if severity == "permanent" else "warn"
    return {"event": "failed", "severity": severity, "reason": reason, "log-level": level, "delivery-status": status}


def _failed(event: OutboundEvent) -> dict[str, Any]:
    """Return the event of a message that was not sent: the server rejected it, or Mailwright did not try."""
    if event.is_rejection:
        return _bounced(event)
    return _failure(
        event, "permanent", _SUPPRESSED.get(event.suppression or SuppressionCause.OTHER, "generic"), _NOT_TRIED
    )


def _bounced(event: OutboundEvent) -> dict[str, Any]:
    return _failure(event, "permanent", "bounce" if event.is_about_address else "generic", 550)


def _engaged(name: str) -> Callable[[OutboundEvent], dict[str, Any]]:
    def part(event: OutboundEvent) -> dict[str, Any]:
        client = {"user-agent": event.user_agent or "", "client-type": "robot" if event.is_machine else "browser"}
        found = {"event": name, "client-info": client}
        return found if event.url is None else {**found, "url": event.url}

    return part


_PARTS: Final[Mapping[EventType, Callable[[OutboundEvent], dict[str, Any]]]] = {
    EventType.SENT: lambda _event: {"event": "accepted"},
    EventType.FAILED: _failed,
    EventType.DELIVERED: lambda event: {
        "event": "delivered",
        "delivery-status": {
            "message": event.response or "OK",
            "description": "",
            "code": event.smtp_code or 250,
            "attempt-no": 1,
        },
    },
    EventType.OPENED: _engaged("opened"),
    EventType.CLICKED: _engaged("clicked"),
    EventType.BOUNCED: _bounced,
    EventType.DEFERRED: lambda event: _failure(event, "temporary", "generic", 451),
    EventType.COMPLAINED: lambda _event: {"event": "complained"},
    EventType.UNSUBSCRIBED: _engaged("unsubscribed"),
}
