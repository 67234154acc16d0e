"""The format of Standard Webhooks: one event, with the headers and the signature of that specification."""

import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Sequence

import orjson

from mailwright.domain.clock import SECOND, isoformat
from mailwright.domain.states import WEBHOOK_EVENT_TYPES
from mailwright.events.outbound.formats.mailwright import document
from mailwright.events.outbound.formats.webhook_format import RequestContent, Secret, Signing, WebhookFormat
from mailwright.events.outbound.outbound_event import OutboundEvent
from mailwright.events.outbound.signature import PREFIX


class StandardFormat(WebhookFormat):
    name = "standard"
    label = "Standard Webhooks"
    types = WEBHOOK_EVENT_TYPES
    signs_with_all = True
    is_own = True

    def make_secret(self) -> Secret:
        return make_standard_secret()

    def request(self, events: Sequence[OutboundEvent], signing: Signing) -> RequestContent:
        [event] = events
        body = orjson.dumps({"type": event.type, "timestamp": isoformat(event.at), "data": document(event)})
        return RequestContent(standard_headers("webhook", event.delivery_id, signing, body), body)


def make_standard_secret() -> Secret:
    made = PREFIX + b64encode(secrets.token_bytes(32)).decode()
    return Secret(made, made)


def standard_headers(prefix: str, delivery_id: str, signing: Signing, body: bytes) -> dict[str, str]:
    """Return the headers, with one signature per secret, so that either one verifies during a rotation."""
    timestamp = str(signing.at // SECOND)
    content = f"{delivery_id}.{timestamp}.".encode() + body
    signatures = [hmac.digest(b64decode(each.removeprefix(PREFIX)), content, "sha256") for each in signing.secrets]
    return {
        f"{prefix}-id": delivery_id,
        f"{prefix}-timestamp": timestamp,
        f"{prefix}-signature": " ".join(f"v1,{b64encode(each).decode()}" for each in signatures),
    }
