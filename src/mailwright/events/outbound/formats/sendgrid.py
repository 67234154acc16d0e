"""The format of SendGrid's event webhook: a list of events, signed with ECDSA."""

from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

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

SIGNATURE_HEADER: Final = "X-Twilio-Email-Event-Webhook-Signature"
TIMESTAMP_HEADER: Final = "X-Twilio-Email-Event-Webhook-Timestamp"
# Longer list keys are not numbers of groups. Programs read numbers of this length exactly.
_MAX_GROUP_DIGITS: Final = 15
# The reason of an event for a message that Mailwright did not send, by its error code.
_DROP_REASONS: Final = {"RECIPIENT_NOT_FOUND": "Invalid", "EXPIRED": "Expired"}
_SUPPRESSION_REASONS: Final = {
    SuppressionCause.BOUNCE: "Bounced Address",
    SuppressionCause.COMPLAINT: "Spam Reporting Address",
    SuppressionCause.UNSUBSCRIBE: "Unsubscribed Address",
}


class SendGridFormat(WebhookFormat):
    name = "sendgrid"
    label = "SendGrid"
    is_batch = True
    types = USUAL_TYPES

    def make_secret(self) -> Secret:
        """Create a pair of keys. The receiver gets the public key, which SendGrid calls the verification key."""
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - takes 50 ms, so imported on use
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

        made = ec.generate_private_key(ec.SECP256R1())
        private = made.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = made.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return Secret(b64encode(private).decode(), b64encode(public).decode())

    def request(self, events: Sequence[OutboundEvent], signing: Signing) -> RequestContent:
        timestamp = str(signing.at // SECOND)
        body = orjson.dumps([_event(each) for each in events])
        signed = _sign(signing.secrets[0], timestamp.encode() + body)
        return RequestContent({SIGNATURE_HEADER: b64encode(signed).decode(), TIMESTAMP_HEADER: timestamp}, body)


def _sign(secret: str, content: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_der_private_key  # noqa: PLC0415

    key = load_der_private_key(b64decode(secret), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    return key.sign(content, ECDSA(SHA256()))


def _event(event: OutboundEvent) -> dict[str, Any]:
    """Return an event. The custom arguments are fields of it, as far as SendGrid has no field of that name."""
    message = event.about
    shared = {
        "email": message.to,
        "timestamp": event.at // SECOND,
        "sg_event_id": urlsafe_b64encode(event.delivery_id.encode()).rstrip(b"=").decode(),
        "sg_message_id": f"{message.email_id}.{message.outbox_id}",
        "smtp-id": message.message_id,
        "category": list(message.tags),
        "asm_group_id": _group(message),
        **_PARTS[EventType(event.type)](event),
    }
    return {**message.custom, **{name: value for name, value in shared.items() if value not in (None, [])}}


def _group(message: OutboundMessage) -> int | None:
    """Return the number of the unsubscribe group, which is the key of a list of Mailwright."""
    key = message.list_key or ""
    return int(key) if key.isdecimal() and len(key) <= _MAX_GROUP_DIGITS else None


def _failed(event: OutboundEvent) -> dict[str, Any]:
    """Return the event of a message that was not sent: the server rejected it, or Mailwright did not try."""
    if event.is_rejection:
        return _bounced(event)
    found = _SUPPRESSION_REASONS.get(event.suppression or SuppressionCause.OTHER, event.reason)
    return {"event": "dropped", "reason": _DROP_REASONS.get(event.error_code, found)}


def _bounced(event: OutboundEvent) -> dict[str, Any]:
    kind = "bounce" if event.is_about_address else "blocked"
    return {"event": "bounce", "type": kind, "reason": event.reason, "status": event.smtp_status}


def _opened(event: OutboundEvent) -> dict[str, Any]:
    return {"event": "open", "useragent": event.user_agent, "sg_machine_open": event.is_machine}


def _clicked(event: OutboundEvent) -> dict[str, Any]:
    return {"event": "click", "useragent": event.user_agent, "url": event.url}


def _unsubscribed(event: OutboundEvent) -> dict[str, Any]:
    return {"event": "unsubscribe" if _group(event.about) is None else "group_unsubscribe"}


_PARTS: Final[Mapping[EventType, Callable[[OutboundEvent], dict[str, Any]]]] = {
    EventType.SENT: lambda _event: {"event": "processed"},
    EventType.DELIVERED: lambda event: {"event": "delivered", "response": event.response},
    EventType.DEFERRED: lambda event: {"event": "deferred", "response": event.response or event.reason},
    EventType.BOUNCED: _bounced,
    EventType.FAILED: _failed,
    EventType.OPENED: _opened,
    EventType.CLICKED: _clicked,
    EventType.COMPLAINED: lambda _event: {"event": "spamreport"},
    EventType.UNSUBSCRIBED: _unsubscribed,
}
