"""The format of Resend's webhooks: one event, with the headers and the signature of Svix."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from mailwright.domain.clock import isoformat
from mailwright.domain.states import EventType
from mailwright.events.outbound.formats.standard import make_standard_secret, standard_headers
from mailwright.events.outbound.formats.webhook_format import RequestContent, Secret, Signing, WebhookFormat
from mailwright.events.outbound.outbound_event import OutboundEvent

_SUPPRESSED: Final = (
    "Mailwright has suppressed sending to this address because it is on the suppression list of the tenant."
)


class ResendFormat(WebhookFormat):
    name = "resend"
    label = "Resend"
    types = (
        EventType.SENT,
        EventType.FAILED,
        EventType.DELIVERED,
        EventType.OPENED,
        EventType.CLICKED,
        EventType.BOUNCED,
        EventType.COMPLAINED,
        EventType.DEFERRED,
    )
    signs_with_all = True

    def make_secret(self) -> Secret:
        return make_standard_secret()

    def request(self, events: Sequence[OutboundEvent], signing: Signing) -> RequestContent:
        [event] = events
        body = orjson.dumps(_document(event))
        return RequestContent(standard_headers("svix", event.delivery_id, signing, body), body)


def _document(event: OutboundEvent) -> dict[str, Any]:
    message = event.about
    name, part = _PARTS[EventType(event.type)](event)
    data = {
        "created_at": isoformat(event.at),
        "email_id": message.email_id,
        "message_id": message.message_id,
        "from": message.sender,
        "to": [message.to],
        "subject": message.subject,
        "tags": message.custom,
        "headers": [{"name": name, "value": value} for name, value in message.headers.items()],
    }
    return {"type": f"email.{name}", "created_at": isoformat(event.at), "data": {**data, **part}}


def _failed(event: OutboundEvent) -> tuple[str, dict[str, Any]]:
    """Return the event of a message that was not sent: the server rejected it, or Mailwright did not try."""
    if event.is_rejection:
        return _bounced(event)
    if event.suppression is not None:
        return "suppressed", {"suppressed": {"message": _SUPPRESSED, "type": "OnAccountSuppressionList"}}
    return "failed", {"failed": {"reason": event.reason or event.error_code}}


def _bounced(event: OutboundEvent) -> tuple[str, dict[str, Any]]:
    is_hard, reason = event.is_about_address, event.reason or ""
    bounce = {
        "type": "Permanent" if is_hard else "Transient",
        "subType": "General" if is_hard else "ContentRejected",
        "message": f"The recipient's email server sent a {'hard ' if is_hard else ''}bounce message: {reason}",
        "diagnosticCode": reason,
    }
    return "bounced", {"bounce": bounce}


def _engaged(event: OutboundEvent) -> dict[str, Any]:
    return {"timestamp": isoformat(event.at), "userAgent": event.user_agent or "", "ipAddress": ""}


_PARTS: Final[Mapping[EventType, Callable[[OutboundEvent], tuple[str, dict[str, Any]]]]] = {
    EventType.SENT: lambda _event: ("sent", {}),
    EventType.FAILED: _failed,
    EventType.DELIVERED: lambda _event: ("delivered", {}),
    EventType.DEFERRED: lambda _event: ("delivery_delayed", {}),
    EventType.OPENED: lambda event: ("opened", {"open": _engaged(event)}),
    EventType.CLICKED: lambda event: ("clicked", {"click": {**_engaged(event), "link": event.url or ""}}),
    EventType.BOUNCED: _bounced,
    EventType.COMPLAINED: lambda _event: ("complained", {}),
}
