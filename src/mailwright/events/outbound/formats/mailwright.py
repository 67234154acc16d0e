"""Mailwright's own format: one event, signed with HMAC-SHA256."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from mailwright.domain.clock import SECOND, isoformat
from mailwright.domain.states import WEBHOOK_EVENT_TYPES
from mailwright.events.outbound import signature
from mailwright.events.outbound.formats.webhook_format import RequestContent, Secret, Signing, WebhookFormat
from mailwright.events.outbound.outbound_event import OutboundEvent


class MailwrightFormat(WebhookFormat):
    name = "mailwright"
    label = "Mailwright"
    types = WEBHOOK_EVENT_TYPES
    signs_with_all = True
    is_own = True

    def make_secret(self) -> Secret:
        made = signature.make_secret()
        return Secret(made, made)

    def request(self, events: Sequence[OutboundEvent], signing: Signing) -> RequestContent:
        [event] = events
        body = orjson.dumps(document(event))
        headers = {
            signature.ID_HEADER: event.delivery_id,
            signature.SIGNATURE_HEADER: signature.signature_header(signing.secrets, signing.at // SECOND, body),
        }
        return RequestContent(headers, body)


_MESSAGE_FIELDS: Final = {
    "outboxId": "outbox_id",
    "to": "to",
    "recipientId": "recipient_id",
    "externalId": "external_id",
    "requestId": "request_id",
    "source": "source",
    "listKey": "list_key",
}


def document(event: OutboundEvent) -> dict[str, Any]:
    """Return the fields of an event."""
    message = event.message
    return {
        "id": event.delivery_id,
        "webhookId": event.webhook_id,
        "type": event.type,
        "createdAt": isoformat(event.at),
        "message": None
        if message is None
        else {name: getattr(message, field) for name, field in _MESSAGE_FIELDS.items()},
        "contact": event.contact,
        "campaign": event.campaign,
        "metadata": event.metadata,
    }
