"""HTTP routes of outgoing webhooks and their deliveries."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.events.outbound.deliveries import WebhookDeliveries
from mailwright.events.outbound.endpoints import WebhookEndpoint
from mailwright.schemas.webhooks import (
    WebhookDeliveryListResponse,
    WebhookDeliveryPage,
    WebhookDeliveryResponse,
    WebhookListResponse,
    WebhookRequest,
    WebhookResponse,
    WebhookSecretResponse,
    webhook_delivery_response,
    webhook_response,
    webhook_secret_response,
)
from mailwright.sources.api.validation import parse
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])

DeliveryQuery = Annotated[WebhookDeliveryPage, Query()]


@router.get("", responses=describe_responses({HTTPStatus.OK: WebhookListResponse}))
async def list_webhooks(engine: EngineDep, caller: CallerDep) -> Response:
    """List the webhooks, oldest first."""
    endpoints = await engine.webhook_endpoints.list_all(caller.tenant_id)
    return json_response(WebhookListResponse(webhooks=[webhook_response(endpoint) for endpoint in endpoints]))


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(WebhookRequest),
    responses=describe_responses({HTTPStatus.CREATED: WebhookSecretResponse}, HTTPStatus.CONFLICT, *BODY_PROBLEMS),
)
async def create(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Create a webhook. It receives events from now on. Its secret is shown only in this response."""
    wanted = parse(WebhookRequest, await read_json(request)).endpoint()
    created, secret = await engine.webhook_endpoints.create(caller.tenant_id, wanted, actor=actor_of(caller))
    return json_response(webhook_secret_response(created, secret), HTTPStatus.CREATED)


@router.get("/{webhookId}", responses=describe_responses({HTTPStatus.OK: WebhookResponse}, HTTPStatus.NOT_FOUND))
async def show(webhookId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show a webhook and its state."""
    return json_response(webhook_response(await _find(engine, caller, webhookId)))


@router.put(
    "/{webhookId}",
    openapi_extra=describe_body(WebhookRequest),
    responses=describe_responses({HTTPStatus.OK: WebhookResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def edit(request: Request, webhookId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Replace a webhook. If it was paused, deliveries resume, the oldest waiting one first."""
    wanted = parse(WebhookRequest, await read_json(request)).endpoint()
    await _find(engine, caller, webhookId)
    edited = await engine.webhook_endpoints.edit(webhookId, wanted, tenant_id=caller.tenant_id, actor=actor_of(caller))
    return json_response(webhook_response(edited))


@router.delete(
    "/{webhookId}",
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def remove(webhookId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Delete a webhook with its past and pending deliveries."""
    await engine.webhook_endpoints.remove(webhookId, tenant_id=caller.tenant_id, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    "/{webhookId}/secret",
    responses=describe_responses({HTTPStatus.OK: WebhookSecretResponse}, HTTPStatus.NOT_FOUND),
)
async def rotate_secret(webhookId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Create a new secret, shown only in this response. For one day, the previous secret also signs deliveries."""
    endpoint, secret = await engine.webhook_endpoints.rotate(
        webhookId, tenant_id=caller.tenant_id, actor=actor_of(caller)
    )
    return json_response(webhook_secret_response(endpoint, secret))


@router.post(
    "/{webhookId}/test",
    status_code=HTTPStatus.ACCEPTED,
    responses=describe_responses({HTTPStatus.ACCEPTED: WebhookDeliveryResponse}, HTTPStatus.NOT_FOUND),
)
async def test(webhookId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Send a delivery of the type `test`. The delivery log shows the result."""
    endpoint = await _find(engine, caller, webhookId)
    delivery = await WebhookDeliveries(engine.database, engine.clock).create_test(endpoint, actor=actor_of(caller))
    return json_response(webhook_delivery_response(delivery), HTTPStatus.ACCEPTED)


@router.get(
    "/{webhookId}/deliveries",
    responses=describe_responses({HTTPStatus.OK: WebhookDeliveryListResponse}, HTTPStatus.NOT_FOUND),
)
async def list_deliveries(webhookId: str, engine: EngineDep, caller: CallerDep, page: DeliveryQuery) -> Response:  # noqa: N803
    """List the deliveries of the last 30 days, latest first, each with its attempts."""
    endpoint = await _find(engine, caller, webhookId)
    deliveries = await WebhookDeliveries(engine.database, engine.clock).list_deliveries(
        endpoint, limit=page.limit, before=page.before("delivery"), status=page.status
    )
    return json_response(
        WebhookDeliveryListResponse(
            deliveries=[webhook_delivery_response(delivery) for delivery in deliveries],
            next_cursor=page.next_cursor("delivery", [delivery.key for delivery in deliveries]),
        )
    )


@router.get(
    "/deliveries/{deliveryId}",
    responses=describe_responses({HTTPStatus.OK: WebhookDeliveryResponse}, HTTPStatus.NOT_FOUND),
)
async def show_delivery(deliveryId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show a delivery and its attempts."""
    delivery = await WebhookDeliveries(engine.database, engine.clock).find(deliveryId, tenant_id=caller.tenant_id)
    return json_response(webhook_delivery_response(delivery))


@router.post(
    "/deliveries/{deliveryId}/redeliver",
    status_code=HTTPStatus.ACCEPTED,
    responses=describe_responses(
        {HTTPStatus.ACCEPTED: WebhookDeliveryResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
    ),
)
async def redeliver(deliveryId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Repeat a delivery with the same id, and count its attempts from zero."""
    delivery = await WebhookDeliveries(engine.database, engine.clock).redeliver(
        deliveryId, tenant_id=caller.tenant_id, actor=actor_of(caller)
    )
    return json_response(webhook_delivery_response(delivery), HTTPStatus.ACCEPTED)


async def _find(engine: Engine, caller: CallerDep, webhook_id: str) -> WebhookEndpoint:
    return await engine.webhook_endpoints.find(webhook_id, tenant_id=caller.tenant_id)
