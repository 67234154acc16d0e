"""Models of outgoing webhooks and their deliveries."""

from typing import Annotated, Literal

from pydantic import Field

from mailwright.events.outbound.deliveries import PENDING, WebhookDelivery
from mailwright.events.outbound.endpoints import (
    MAX_URL_LENGTH,
    WEBHOOK_EVENT_TYPES,
    WebhookEndpoint,
    WebhookEndpointInput,
)
from mailwright.schemas.base import ResponseModel, Time, extend
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import Name, RequestModel


class WebhookRequest(RequestModel):
    """The receiver's URL and the event types to send. Without `types`, all events are sent."""

    url: Annotated[str, Field(min_length=1, max_length=MAX_URL_LENGTH, description="https://example.com/hooks/mail")]
    types: Annotated[
        tuple[Annotated[str, Field(json_schema_extra={"enum": [str(type_) for type_ in WEBHOOK_EVENT_TYPES]})], ...],
        Field(max_length=len(WEBHOOK_EVENT_TYPES)),
    ] = ()
    description: Name = ""
    is_active: bool = True

    def endpoint(self) -> WebhookEndpointInput:
        return WebhookEndpointInput(self.url, self.types, self.description, self.is_active)


class WebhookDeliveryPage(Page):
    status: Annotated[
        Literal["PENDING", "DELIVERED", "FAILED"] | None, Field(description="Only deliveries with this status.")
    ] = None


class WebhookResponse(ResponseModel):
    """`state`: `active`; `failing`, but still attempted; `paused` until the webhook is edited; or `off`."""

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
    """`secret` is shown only in this response."""

    secret: str


class WebhookListResponse(ResponseModel):
    webhooks: list[WebhookResponse]


class DeliveryAttemptResponse(ResponseModel):
    """One attempt: `status` and the beginning of the response, or `error` if there was no complete response."""

    at: Time
    attempt: int
    status: int | None
    answer: str
    error: str | None
    milliseconds: int


class WebhookDeliveryResponse(ResponseModel):
    """`deliveryId` is the `id` that the receiver sees in every attempt."""

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


def webhook_response(endpoint: WebhookEndpoint) -> WebhookResponse:
    return WebhookResponse(
        webhook_id=endpoint.webhook_id,
        url=endpoint.url,
        description=endpoint.description,
        types=endpoint.types,
        is_active=endpoint.is_active,
        state=endpoint.state,
        paused_at=endpoint.paused_at,
        pause_reason=endpoint.pause_reason,
        failing_since=endpoint.failing_since,
        secrets=len(endpoint.secrets),
        created_at=endpoint.created_at,
        updated_at=endpoint.updated_at,
    )


def webhook_secret_response(endpoint: WebhookEndpoint, secret: str) -> WebhookSecretResponse:
    return extend(WebhookSecretResponse, webhook_response(endpoint), secret=secret)


def webhook_delivery_response(delivery: WebhookDelivery) -> WebhookDeliveryResponse:
    return WebhookDeliveryResponse(
        delivery_id=delivery.delivery_id,
        webhook_id=delivery.webhook_id,
        type=delivery.type,
        status=delivery.status,
        outbox_id=delivery.outbox_id,
        attempts=delivery.attempts,
        next_attempt_at=delivery.due_at if delivery.status == PENDING else None,
        event_at=delivery.event_at,
        created_at=delivery.created_at,
        ended_at=delivery.ended_at,
        log=delivery.log,
    )
