"""Outbound webhooks and their deliveries."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from mailwright.access.roles import Role
from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    MANAGE,
    Argument,
    Aside,
    Badge,
    Details,
    Line,
    Noun,
    Option,
    Table,
    Tone,
    TwoLines,
    time_of,
)
from mailwright.domain.states import WEBHOOK_EVENT_TYPES
from mailwright.events.outbound.deliveries import WebhookDeliveries
from mailwright.events.outbound.endpoints import (
    MAX_URL_LENGTH,
    WebhookEndpoint,
    WebhookEndpointInput,
    WebhookEndpoints,
)
from mailwright.events.outbound.formats import FORMATS
from mailwright.events.outbound.formats.mailwright import MailwrightFormat
from mailwright.schemas.base import ResponseModel, Time, extend
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import Name, RequestModel

noun = Noun(
    "webhook",
    "Outbound webhooks.",
    "/v1/webhooks",
    role=Role.ADMIN,
    parameters={"webhook_id": ("ID", "The webhook id."), "delivery_id": ("ID", "The delivery id.")},
    has_unique_ids=True,
)

State = Literal["active", "failing", "paused", "off"]
Status = Literal["PENDING", "DELIVERED", "FAILED"]

_STATES: Final[Mapping[str, Tone]] = {"active": "good", "failing": "warning", "paused": "bad", "off": "off"}
_STATUSES: Final[Mapping[str, Tone]] = {"DELIVERED": "good", "PENDING": "waiting", "FAILED": "bad"}


def _count(secrets: Any) -> Any:
    return len(secrets) if isinstance(secrets, tuple) else secrets


class WebhookRequest(RequestModel):
    """The receiver's URL and the event types to send. Without `types`, all events of the format are sent."""

    url: Annotated[
        str,
        Argument("URL"),
        Field(min_length=1, max_length=MAX_URL_LENGTH, description="https://example.com/hooks/mail"),
    ]
    types: Annotated[
        tuple[Annotated[str, Field(json_schema_extra={"enum": [str(type_) for type_ in WEBHOOK_EVENT_TYPES]})], ...],
        Field(
            max_length=len(WEBHOOK_EVENT_TYPES),
            description=f"An event type, can be repeated: {', '.join(WEBHOOK_EVENT_TYPES)}.",
        ),
        Option("--type", default="all"),
    ] = ()
    description: Annotated[Name, Field(description="A note for yourself.")] = ""
    is_active: Annotated[bool, Field(description="Whether events are delivered."), Option("--active/--off")] = True

    def endpoint(self) -> WebhookEndpointInput:
        return WebhookEndpointInput(self.url, self.types, self.description, self.is_active)


class NewWebhookRequest(WebhookRequest):
    """A webhook with its format, which cannot be changed later, because each format has its own kind of secret."""

    format: Annotated[
        str,
        Field(
            json_schema_extra={"enum": list(FORMATS)},
            description=f"The shape and the signature of requests: {', '.join(FORMATS)}.",
        ),
    ] = MailwrightFormat.name

    def endpoint(self) -> WebhookEndpointInput:
        return replace(super().endpoint(), format=self.format)


class WebhookDeliveryPage(Page):
    status: Annotated[Status | None, Field(description="Only deliveries with this status.")] = None


class WebhookResponse(ResponseModel):
    """`state`: `active`; `failing`, but still attempted; `paused` until the webhook is edited; or `off`."""

    webhook_id: str
    url: str
    description: str
    types: list[str]
    format: str
    is_active: bool
    state: State
    paused_at: Time | None
    pause_reason: str | None
    failing_since: Time | None
    secrets: Annotated[int, BeforeValidator(_count)]
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
    status: Status
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


def delivery_lines(delivery: WebhookDeliveryResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield Badge(delivery.status, _STATUSES[delivery.status], _last_response(delivery))


def _secret_lines(made: WebhookSecretResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield Aside(f"Secret (shown once): {made.secret}")
    yield made.webhook_id


def _state(webhook: WebhookResponse) -> Badge:
    return Badge(webhook.state, _STATES[webhook.state], webhook.pause_reason or "")


def _last_response(delivery: WebhookDeliveryResponse) -> str:
    if not delivery.log:
        return ""
    last = delivery.log[-1]
    return last.error or f"{last.status} {last.answer[:100]}".strip()


@noun.get(
    command="list",
    shown=Table(
        "webhooks",
        {"Id!": "webhook_id", "URL": lambda each: TwoLines(each.url, each.description), "State": _state},
        nothing="{tenant} has no webhooks. Create one with `mailwright webhook create URL`.",
    ),
)
async def list_webhooks(at: Context) -> WebhookListResponse:
    """List the webhooks with their state, oldest first."""
    found = await endpoints(at).list_all(at.tenant_id)
    return WebhookListResponse(webhooks=[WebhookResponse.model_validate(endpoint) for endpoint in found])


@noun.post(scope=MANAGE, audit="webhook.create", command="create", shown=_secret_lines)
async def create(at: Context, wanted: NewWebhookRequest) -> WebhookSecretResponse:
    """Create a webhook. It receives events from now on. Its secret is shown only in this response.

    The secret is what the receiver needs to verify requests in this format.
    """
    made, secret = await endpoints(at).create(at.tenant_id, wanted.endpoint(), actor=at.actor)
    return extend(WebhookSecretResponse, WebhookResponse.model_validate(made), secret=secret)


@noun.get(
    "/{webhookId}",
    command="show",
    shown=Details(
        {
            "URL": "url",
            "Description": lambda each: each.description or "–",
            "Format": "format",
            "Event types": lambda each: ", ".join(each.types),
            "State": _state,
            "Failing since": time_of("failing_since"),
            "Secrets": "secrets",
            "Created": time_of("created_at"),
        }
    ),
)
async def show(at: Context, webhook_id: str) -> WebhookResponse:
    """Show a webhook and its state. If it is paused, show the reason."""
    return WebhookResponse.model_validate(await find(at, webhook_id))


@noun.put("/{webhookId}", scope=MANAGE, audit="webhook.edit", command="edit", shown="Updated the webhook {webhook_id}.")
async def edit(at: Context, webhook_id: str, wanted: WebhookRequest) -> WebhookResponse:
    """Replace a webhook. If it was paused, deliveries resume, the oldest waiting one first."""
    edited = await endpoints(at).edit(webhook_id, wanted.endpoint(), tenant_id=at.owner_id, actor=at.actor)
    return WebhookResponse.model_validate(edited)


@noun.delete(
    "/{webhookId}",
    scope=MANAGE,
    audit="webhook.remove",
    command="delete",
    shown="Deleted the webhook {webhook_id}.",
)
async def remove(at: Context, webhook_id: str) -> None:
    """Delete a webhook with its past and pending deliveries."""
    await endpoints(at).remove(webhook_id, tenant_id=at.owner_id, actor=at.actor)


@noun.post("/{webhookId}/resume", scope=MANAGE, audit="webhook.edit", command="resume", shown="Resumed {url}.")
async def resume(at: Context, webhook_id: str) -> WebhookResponse:
    """Resume a paused webhook, starting with its waiting deliveries."""
    found = await find(at, webhook_id)
    wanted = WebhookEndpointInput(found.url, found.types, found.description)
    return WebhookResponse.model_validate(
        await endpoints(at).edit(webhook_id, wanted, tenant_id=at.owner_id, actor=at.actor)
    )


@noun.post(
    "/{webhookId}/secret",
    scope=MANAGE,
    audit="webhook.rotate",
    command="rotate-secret",
    shown=lambda made, _given: [made.secret],
)
async def rotate_secret(at: Context, webhook_id: str) -> WebhookSecretResponse:
    """Create a new secret, shown only in this response.

    In the formats `mailwright`, `standard` and `resend`, the previous secret also signs deliveries for one day.
    """
    endpoint, secret = await endpoints(at).rotate(webhook_id, tenant_id=at.owner_id, actor=at.actor)
    return extend(WebhookSecretResponse, WebhookResponse.model_validate(endpoint), secret=secret)


@noun.post("/{webhookId}/test", scope=MANAGE, audit="webhook.test", status=HTTPStatus.ACCEPTED)
async def test(at: Context, webhook_id: str) -> WebhookDeliveryResponse:
    """Send a delivery of the type `test`. The delivery log shows the result."""
    return WebhookDeliveryResponse.model_validate(
        await deliveries(at).create_test(await find(at, webhook_id), actor=at.actor)
    )


@noun.get(
    "/{webhookId}/deliveries",
    command="deliveries",
    shown=Table(
        "deliveries",
        {
            "Time ({zone}) and event!": lambda each: TwoLines(time_of("created_at")(each), each.type),
            "State!": lambda each: Badge(each.status, _STATUSES[each.status]),
            "Id and last response": lambda each: TwoLines(each.delivery_id, _last_response(each)),
        },
        nothing="No deliveries yet.",
    ),
)
async def list_deliveries(at: Context, webhook_id: str, page: WebhookDeliveryPage) -> WebhookDeliveryListResponse:
    """List the deliveries of the last 30 days, latest first, each with its attempts."""
    found = await deliveries(at).list_deliveries(
        await find(at, webhook_id), limit=page.limit, before=page.before("delivery"), status=page.status
    )
    return WebhookDeliveryListResponse(
        deliveries=[WebhookDeliveryResponse.model_validate(delivery) for delivery in found],
        next_cursor=page.next_cursor("delivery", [delivery.key for delivery in found]),
    )


@noun.get("/deliveries/{deliveryId}")
async def show_delivery(at: Context, delivery_id: str) -> WebhookDeliveryResponse:
    """Show a delivery and its attempts."""
    return WebhookDeliveryResponse.model_validate(await deliveries(at).find(delivery_id, tenant_id=at.owner_id))


@noun.post(
    "/deliveries/{deliveryId}/redeliver",
    scope=MANAGE,
    audit="webhook.redeliver",
    status=HTTPStatus.ACCEPTED,
    command="redeliver",
    shown="Queued {delivery_id} for redelivery.",
)
async def redeliver(at: Context, delivery_id: str) -> WebhookDeliveryResponse:
    """Repeat a delivery with the same id, and count its attempts from zero. A worker sends it."""
    return WebhookDeliveryResponse.model_validate(
        await deliveries(at).redeliver(delivery_id, tenant_id=at.owner_id, actor=at.actor)
    )


def endpoints(at: Context) -> WebhookEndpoints:
    return WebhookEndpoints(at.database, at.clock, allows_private=at.settings.webhook_private)


def deliveries(at: Context) -> WebhookDeliveries:
    return WebhookDeliveries(at.database, at.clock)


async def find(at: Context, webhook_id: str) -> WebhookEndpoint:
    return await endpoints(at).find(webhook_id, tenant_id=at.owner_id)
