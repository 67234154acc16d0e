"""The format of Postmark's webhooks: a document for each event, with a user and a password."""

import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from mailwright.domain.clock import isoformat
from mailwright.domain.states import EventType
from mailwright.events.outbound.formats.webhook_format import RequestContent, Secret, Signing, WebhookFormat
from mailwright.events.outbound.outbound_event import OutboundEvent, SuppressionCause

# The stream of transactional email. Others are lists.
TRANSACTIONAL_STREAM: Final = "outbound"
_USER: Final = "mailwright"
# The largest number that programs in JavaScript read exactly has 53 bits.
_ID_BITS: Final = 53
# Postmark's number and name of each type of bounce.
_BOUNCES: Final = {
    "HardBounce": (1, "Hard bounce"),
    "Transient": (2, "Message delayed"),
    "BadEmailAddress": (100000, "Invalid email address"),
    "SpamComplaint": (100001, "Spam complaint"),
    "ManuallyDeactivated": (100002, "Manually deactivated"),
    "Blocked": (100006, "ISP block"),
    "SMTPApiError": (100007, "SMTP API error"),
}
_SUPPRESSED: Final = {SuppressionCause.BOUNCE: "HardBounce", SuppressionCause.COMPLAINT: "SpamComplaint"}


class PostmarkFormat(WebhookFormat):
    name = "postmark"
    label = "Postmark"
    types = (
        EventType.FAILED,
        EventType.DELIVERED,
        EventType.OPENED,
        EventType.CLICKED,
        EventType.BOUNCED,
        EventType.COMPLAINED,
        EventType.UNSUBSCRIBED,
        EventType.DEFERRED,
    )

    def make_secret(self) -> Secret:
        """Create a user and a password, which Postmark sends instead of a signature."""
        made = f"{_USER}:{secrets.token_urlsafe(32)}"
        return Secret(made, made)

    def request(self, events: Sequence[OutboundEvent], signing: Signing) -> RequestContent:
        [event] = events
        credentials = b64encode(signing.secrets[0].encode()).decode()
        return RequestContent({"Authorization": f"Basic {credentials}"}, orjson.dumps(_document(event)))


def _document(event: OutboundEvent) -> dict[str, Any]:
    message = event.about
    shared = {
        "MessageID": message.email_id,
        "Metadata": message.custom,
        "MessageStream": message.list_key or TRANSACTIONAL_STREAM,
        "ServerID": 0,
        **_PARTS[EventType(event.type)](event),
    }
    return shared if message.tag is None else {**shared, "Tag": message.tag}


def _bounce(event: OutboundEvent, kind: str, record_type: str = "Bounce") -> dict[str, Any]:
    message, (code, name) = event.about, _BOUNCES[kind]
    return {
        "RecordType": record_type,
        "ID": event.event_id.int % 2**_ID_BITS,
        "Type": kind,
        "TypeCode": code,
        "Name": name,
        "Description": event.reason or name,
        "Details": event.reason or event.response or "",
        "Email": message.to,
        "From": message.sender_address,
        "BouncedAt": isoformat(event.at),
        "DumpAvailable": False,
        "Inactive": kind in ("HardBounce", "SpamComplaint", "ManuallyDeactivated"),
        "CanActivate": kind in ("HardBounce", "ManuallyDeactivated"),
        "Subject": message.subject,
    }


def _failed(event: OutboundEvent) -> dict[str, Any]:
    """Return the bounce of a message that was not sent: the server rejected it, or Mailwright did not try."""
    if event.is_rejection:
        return _bounced(event)
    if event.suppression is not None:
        return _bounce(event, _SUPPRESSED.get(event.suppression, "ManuallyDeactivated"))
    return _bounce(event, "BadEmailAddress" if event.error_code == "RECIPIENT_NOT_FOUND" else "SMTPApiError")


def _bounced(event: OutboundEvent) -> dict[str, Any]:
    return _bounce(event, "HardBounce" if event.is_about_address else "Blocked")


def _engaged(event: OutboundEvent) -> dict[str, Any]:
    return {
        "RecordType": "Open",
        "Recipient": event.about.to,
        "ReceivedAt": isoformat(event.at),
        "UserAgent": event.user_agent or "",
        "Platform": "Unknown",
        **{name: {} for name in ("Client", "OS", "Geo")},
    }


_PARTS: Final[Mapping[EventType, Callable[[OutboundEvent], dict[str, Any]]]] = {
    EventType.FAILED: _failed,
    EventType.DELIVERED: lambda event: {
        "RecordType": "Delivery",
        "Recipient": event.about.to,
        "DeliveredAt": isoformat(event.at),
        "Details": event.response or "",
    },
    EventType.OPENED: _engaged,
    EventType.CLICKED: lambda event: {
        **_engaged(event),
        "RecordType": "Click",
        "OriginalLink": event.url or "",
        "ClickLocation": "HTML",
    },
    EventType.BOUNCED: _bounced,
    EventType.DEFERRED: lambda event: _bounce(event, "Transient"),
    EventType.COMPLAINED: lambda event: _bounce(event, "SpamComplaint", "SpamComplaint"),
    EventType.UNSUBSCRIBED: lambda event: {
        "RecordType": "SubscriptionChange",
        "Recipient": event.about.to,
        "ChangedAt": isoformat(event.at),
        "Origin": "Recipient",
        "SuppressSending": True,
        "SuppressionReason": "ManualSuppression",
    },
}
