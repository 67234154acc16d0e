"""The format of Amazon SES' event publishing: an envelope of SNS for each event, signed with a certificate of ours.

The receiver loads the certificate from Mailwright. A new webhook gets a SubscriptionConfirmation, as SNS sends it.
Mailwright delivers events without a confirmation, too.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import orjson

from mailwright.domain import address
from mailwright.domain.clock import isoformat
from mailwright.domain.ids import created_at
from mailwright.domain.states import EventType
from mailwright.events.outbound.formats.webhook_format import (
    USUAL_TYPES,
    RequestContent,
    Secret,
    Signing,
    WebhookFormat,
)
from mailwright.events.outbound.outbound_event import CONFIRMATION, OutboundEvent, SuppressionCause

# Where Mailwright serves the certificates, and confirms subscriptions like SNS.
SNS_PATH: Final = "/sns"
_KEY_BITS: Final = 2_048
# A certificate is valid as long as its webhook has it.
_VALID_FROM: Final = datetime(2020, 1, 1, tzinfo=UTC)
_VALID_UNTIL: Final = datetime(2120, 1, 1, tzinfo=UTC)
_SUBJECT: Final = "Amazon SES Email Event Notification"
_CONTENT_TYPE: Final = "text/plain; charset=UTF-8"
_SIGNED: Final = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
}
_CONFIRMATION_TEXT: Final = (
    "You have chosen to subscribe to the topic {topic}.\n"
    "To confirm the subscription, visit the SubscribeURL included in this message."
)


class _KeyPair(NamedTuple):
    """What is stored as the secret of a webhook."""

    private: bytes
    certificate: bytes  # DER

    @classmethod
    def parse(cls, secret: str) -> "_KeyPair":
        private, certificate = map(b64decode, secret.split("."))
        return cls(private, certificate)


class SesFormat(WebhookFormat):
    name = "ses"
    label = "Amazon SES"
    types = USUAL_TYPES
    asks_to_confirm = True

    def make_secret(self) -> Secret:
        """Create a key and its certificate, which the receiver gets in base64."""
        from cryptography import x509  # noqa: PLC0415 - takes 50 ms, so imported on use
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

        key = rsa.generate_private_key(public_exponent=65_537, key_size=_KEY_BITS)
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mailwright")])
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(_VALID_FROM)
            .not_valid_after(_VALID_UNTIL)
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()
        return Secret(f"{b64encode(private).decode()}.{public}", public)

    def request(self, events: Sequence[OutboundEvent], signing: Signing) -> RequestContent:
        [event] = events
        envelope = _envelope(event, signing)
        headers = {
            "Content-Type": _CONTENT_TYPE,
            "x-amz-sns-message-type": envelope["Type"],
            "x-amz-sns-message-id": envelope["MessageId"],
            "x-amz-sns-topic-arn": envelope["TopicArn"],
        }
        return RequestContent(headers, orjson.dumps(envelope))


def topic_arn(webhook_id: str) -> str:
    return f"arn:aws:sns:us-east-1:000000000000:mailwright-{webhook_id}"


def confirmation_token(secret: str, webhook_id: str) -> str:
    return hmac.digest(_KeyPair.parse(secret).private, webhook_id.encode(), "sha256").hex()


def certificate_pem(secret: str) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415
    from cryptography.x509 import load_der_x509_certificate  # noqa: PLC0415

    return load_der_x509_certificate(_KeyPair.parse(secret).certificate).public_bytes(Encoding.PEM).decode()


def certificate_name(secret: str) -> str:
    """Return the file name of a certificate. Receivers keep a certificate by its name, so each has its own."""
    digest = hmac.digest(b"", _KeyPair.parse(secret).certificate, "sha256").hex()
    return f"SimpleNotificationService-{digest[:32]}.pem"


def _envelope(event: OutboundEvent, signing: Signing) -> dict[str, str]:
    secret, topic = signing.secrets[0], topic_arn(event.webhook_id)
    envelope = {
        "MessageId": event.delivery_id,
        "TopicArn": topic,
        "Timestamp": isoformat(signing.at) or "",
        "SignatureVersion": "2",
        "SigningCertURL": f"{signing.base_url}{SNS_PATH}/{event.webhook_id}/{certificate_name(secret)}",
    }
    if event.type == CONFIRMATION:
        token = confirmation_token(secret, event.webhook_id)
        query = urlencode({"Action": "ConfirmSubscription", "TopicArn": topic, "Token": token})
        envelope |= {
            "Type": "SubscriptionConfirmation",
            "Message": _CONFIRMATION_TEXT.format(topic=topic),
            "Token": token,
            "SubscribeURL": f"{signing.base_url}{SNS_PATH}/?{query}",
        }
    else:
        envelope |= {"Type": "Notification", "Subject": _SUBJECT, "Message": orjson.dumps(ses_event(event)).decode()}
    return {**envelope, "Signature": b64encode(_sign(secret, envelope)).decode()}


def _sign(secret: str, envelope: Mapping[str, str]) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_der_private_key  # noqa: PLC0415

    key = load_der_private_key(_KeyPair.parse(secret).private, None)
    assert isinstance(key, RSAPrivateKey)
    signed = "".join(f"{name}\n{envelope[name]}\n" for name in _SIGNED[envelope["Type"]])
    return key.sign(signed.encode(), PKCS1v15(), SHA256())


def ses_event(event: OutboundEvent) -> dict[str, Any]:
    """Return the document of an event as SES publishes it."""
    name, field, part = _PARTS[EventType(event.type)](event)
    return {"eventType": name, "mail": _mail(event), field: part}


def _mail(event: OutboundEvent) -> dict[str, Any]:
    message = event.about
    common = {"From": message.sender, "To": message.to, "Subject": message.subject}
    if message.message_id is not None:
        common["Message-ID"] = message.message_id
    given = {name: str(value) for name, value in message.custom.items()}
    own = {"ses:from-domain": address.domain_of(message.sender_address)} if message.sender else {}
    return {
        "timestamp": isoformat(created_at(message.outbox_id) if message.outbox_id else event.at),
        "source": message.sender,
        "messageId": message.email_id,
        "destination": [message.to],
        "headersTruncated": False,
        "headers": [{"name": name, "value": value} for name, value in {**common, **message.headers}.items()],
        "commonHeaders": {
            "from": [message.sender],
            "to": [message.to],
            "messageId": message.email_id,
            "subject": message.subject,
        },
        "tags": {name: [value] for name, value in {**own, **given}.items()},
    }


_Part = tuple[str, str, dict[str, Any]]


def _bounce(event: OutboundEvent, kind: str, subtype: str) -> _Part:
    recipient = {"emailAddress": event.about.to, "action": "failed"}
    recipient |= {"diagnosticCode": f"smtp; {event.reason}"} if event.reason else {}
    recipient |= {"status": event.smtp_status} if event.smtp_status else {}
    part = {
        "bounceType": kind,
        "bounceSubType": subtype,
        "bouncedRecipients": [recipient],
        "timestamp": isoformat(event.at),
        "feedbackId": str(event.event_id),
    }
    return "Bounce", "bounce", part


def _failed(event: OutboundEvent) -> _Part:
    """Return the event of a message that was not sent: the server rejected it, or Mailwright did not try."""
    if event.is_rejection:
        return _bounced(event)
    if event.suppression is not None:
        is_bounce = event.suppression is SuppressionCause.BOUNCE
        return _bounce(event, "Permanent", "Suppressed" if is_bounce else "OnAccountSuppressionList")
    return "Reject", "reject", {"reason": event.reason or event.error_code}


def _bounced(event: OutboundEvent) -> _Part:
    return _bounce(event, *(("Permanent", "General") if event.is_about_address else ("Transient", "ContentRejected")))


def _complained(event: OutboundEvent) -> _Part:
    part = {
        "complainedRecipients": [{"emailAddress": event.about.to}],
        "timestamp": isoformat(event.at),
        "feedbackId": str(event.event_id),
        "complaintFeedbackType": "abuse",
    }
    return "Complaint", "complaint", part


def _delivered(event: OutboundEvent) -> _Part:
    part = {"timestamp": isoformat(event.at), "recipients": [event.about.to], "smtpResponse": event.response or ""}
    return "Delivery", "delivery", part


def _delayed(event: OutboundEvent) -> _Part:
    recipient = {"emailAddress": event.about.to, "diagnosticCode": f"smtp; {event.response or event.reason or ''}"}
    recipient |= {"status": event.smtp_status} if event.smtp_status else {}
    part = {"timestamp": isoformat(event.at), "delayType": "General", "delayedRecipients": [recipient]}
    return "DeliveryDelay", "deliveryDelay", part


def _engaged(event: OutboundEvent) -> dict[str, Any]:
    return {"timestamp": isoformat(event.at), "userAgent": event.user_agent or "", "ipAddress": ""}


def _unsubscribed(event: OutboundEvent) -> _Part:
    preferences = {
        f"{name}TopicPreferences": {"unsubscribeAll": is_off, "topicSubscriptionStatus": []}
        for name, is_off in (("new", True), ("old", False))
    }
    part = {"contactList": event.about.list_key or "general", "timestamp": isoformat(event.at), **preferences}
    return "Subscription", "subscription", {**part, "source": "UnsubscribeHeader"}


_PARTS: Final[Mapping[EventType, Callable[[OutboundEvent], _Part]]] = {
    EventType.SENT: lambda _event: ("Send", "send", {}),
    EventType.FAILED: _failed,
    EventType.DELIVERED: _delivered,
    EventType.OPENED: lambda event: ("Open", "open", _engaged(event)),
    EventType.CLICKED: lambda event: ("Click", "click", {**_engaged(event), "link": event.url or ""}),
    EventType.BOUNCED: _bounced,
    EventType.COMPLAINED: _complained,
    EventType.UNSUBSCRIBED: _unsubscribed,
    EventType.DEFERRED: _delayed,
}
