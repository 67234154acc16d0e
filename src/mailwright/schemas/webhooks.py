"""Answers about outgoing webhooks: the same for the HTTP API and for `--json` at the command line."""

from typing import Any, Literal

from mailwright.domain.clock import isoformat
from mailwright.events.outbound.deliveries import PENDING, WebhookDelivery
from mailwright.events.outbound.endpoints import WebhookEndpoint
from mailwright.schemas.answers import ResponseModel, Time


class WebhookResponse(ResponseModel):
    """`state` is what becomes of the next event: `active`, `failing` and told all the same, `paused` until somebody
    edits it, or `off`."""

    webhook_id: str
    url: str
    description: str
    types: list[str]
    is_active: bool
    state: Literal["active", "failing", "paused", "off"]
    paused_at: Time | None
    pause_reason: str | None
    failing_since: Time | None
    secrets: int
    created_at: Time
    updated_at: Time


class WebhookSecretResponse(WebhookResponse):
    """`secret` is shown here and nowhere else."""

    secret: str


class WebhookListResponse(ResponseModel):
    webhooks: list[WebhookResponse]


class DeliveryAttemptResponse(ResponseModel):
    """What came of one attempt: `status` and the beginning of the answer, or `error` where no whole answer came."""

    at: Time
    attempt: int
    status: int | None
    answer: str
    error: str | None
    milliseconds: int


class WebhookDeliveryResponse(ResponseModel):
    """`deliveryId` is the `id` that the receiver sees, however often it is told."""

    delivery_id: str
    webhook_id: str
    type: str
    status: Literal["PENDING", "DELIVERED", "FAILED"]
    outbox_id: str | None
    attempts: int
    next_attempt_at: Time | None
    event_at: Time
    created_at: Time
    ended_at: Time | None
    log: list[DeliveryAttemptResponse]


class WebhookDeliveryListResponse(ResponseModel):
    deliveries: list[WebhookDeliveryResponse]
    next_cursor: str | None


def webhook(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {
        "webhookId": endpoint.webhook_id,
        "url": endpoint.url,
        "description": endpoint.description,
        "types": list(endpoint.types),
        "isActive": endpoint.is_active,
        "state": endpoint.state,
        "pausedAt": isoformat(endpoint.paused_at),
        "pauseReason": endpoint.pause_reason,
        "failingSince": isoformat(endpoint.failing_since),
        "secrets": len(endpoint.secrets),
        "createdAt": isoformat(endpoint.created_at),
        "updatedAt": isoformat(endpoint.updated_at),
    }


def delivery(found: WebhookDelivery) -> dict[str, Any]:
    return {
        "deliveryId": found.delivery_id,
        "webhookId": found.webhook_id,
        "type": found.type,
        "status": found.status,
        "outboxId": found.outbox_id,
        "attempts": found.attempts,
        "nextAttemptAt": isoformat(found.due_at) if found.status == PENDING else None,
        "eventAt": isoformat(found.event_at),
        "createdAt": isoformat(found.created_at),
        "endedAt": isoformat(found.ended_at),
        "log": [{**each, "at": isoformat(each["at"])} for each in found.log],
    }
