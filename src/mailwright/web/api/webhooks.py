"""Outgoing webhooks over HTTP: whom a tenant wants to be told what, and what was told."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from mailwright.events.outbound.deliveries import NEWEST, WebhookDeliveries
from mailwright.events.outbound.endpoints import (
    MAX_URL_LENGTH,
    WEBHOOK_EVENT_TYPES,
    WebhookEndpoint,
    WebhookEndpointInput,
)
from mailwright.schemas import webhooks as answers
from mailwright.schemas.paging import Page, decode_cursor, encode_cursor
from mailwright.sources.api.requests import Name, RequestModel, parse
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.campaigns import ACTOR
from mailwright.web.api.openapi import describe_body, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.parts import ApiParts, Parts

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])

_BODY_PROBLEMS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)


class WebhookRequest(RequestModel):
    """Where to, and of what. Without `types`, of everything that can be told."""

    url: Annotated[str, Field(min_length=1, max_length=MAX_URL_LENGTH, description="https://example.com/hooks/mail")]
    types: Annotated[
        tuple[Annotated[str, Field(json_schema_extra={"enum": [str(each) for each in WEBHOOK_EVENT_TYPES]})], ...],
        Field(max_length=len(WEBHOOK_EVENT_TYPES)),
    ] = ()
    description: Name = ""
    is_active: bool = True

    def wanted(self) -> WebhookEndpointInput:
        return WebhookEndpointInput(self.url, self.types, self.description, self.is_active)


class DeliveryPage(Page):
    status: Annotated[Literal["PENDING", "DELIVERED", "FAILED"] | None, Field(description="Only these.")] = None


DeliveryQuery = Annotated[DeliveryPage, Query()]


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.WebhookListResponse}))
async def list_webhooks(parts: Parts, caller: CallerDep) -> Response:
    """The oldest first."""
    found = await parts.outgoing.list_all(caller.tenant_id)
    return json_response({"webhooks": [answers.webhook(each) for each in found]})


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(WebhookRequest),
    responses=describe_responses(
        {HTTPStatus.CREATED: answers.WebhookSecretResponse}, HTTPStatus.CONFLICT, *_BODY_PROBLEMS
    ),
)
async def create(request: Request, parts: Parts, caller: CallerDep) -> Response:
    """It is told what happens from now on. Its secret is in this answer and in no other."""
    wanted = parse(WebhookRequest, await read_json(request))
    made, secret = await parts.outgoing.create(caller.tenant_id, wanted.wanted(), actor=caller.actor or ACTOR)
    return json_response({**answers.webhook(made), "secret": secret}, HTTPStatus.CREATED)


@router.get(
    "/{webhookId}", responses=describe_responses({HTTPStatus.OK: answers.WebhookResponse}, HTTPStatus.NOT_FOUND)
)
async def show(webhookId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803 - the name in the address
    """How it stands with it."""
    return json_response(answers.webhook(await _found(parts, caller, webhookId)))


@router.put(
    "/{webhookId}",
    openapi_extra=describe_body(WebhookRequest),
    responses=describe_responses({HTTPStatus.OK: answers.WebhookResponse}, HTTPStatus.NOT_FOUND, *_BODY_PROBLEMS),
)
async def edit(request: Request, webhookId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Replaces what was written down. One that was paused is tried again, beginning with what waited for it."""
    wanted = parse(WebhookRequest, await read_json(request)).wanted()
    await _found(parts, caller, webhookId)
    return json_response(
        answers.webhook(
            await parts.outgoing.edit(webhookId, wanted, tenant_id=caller.tenant_id, actor=caller.actor or ACTOR)
        )
    )


@router.delete(
    "/{webhookId}",
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def remove(webhookId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """With everything that was told to it, and everything that was to be told."""
    await parts.outgoing.remove(webhookId, tenant_id=caller.tenant_id, actor=caller.actor or ACTOR)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    "/{webhookId}/secret",
    responses=describe_responses({HTTPStatus.OK: answers.WebhookSecretResponse}, HTTPStatus.NOT_FOUND),
)
async def rotate_secret(webhookId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """A new secret, shown once. The one before signs beside it for a day."""
    found, secret = await parts.outgoing.rotate(webhookId, tenant_id=caller.tenant_id, actor=caller.actor or ACTOR)
    return json_response({**answers.webhook(found), "secret": secret})


@router.post(
    "/{webhookId}/test",
    status_code=HTTPStatus.ACCEPTED,
    responses=describe_responses({HTTPStatus.ACCEPTED: answers.WebhookDeliveryResponse}, HTTPStatus.NOT_FOUND),
)
async def try_out(webhookId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """A delivery of the type `test`, made like any other; its log tells what came of it."""
    found = await _found(parts, caller, webhookId)
    made = await WebhookDeliveries(parts.database, parts.clock).create_test(found, actor=caller.actor or ACTOR)
    return json_response(answers.delivery(made), HTTPStatus.ACCEPTED)


@router.get(
    "/{webhookId}/deliveries",
    responses=describe_responses({HTTPStatus.OK: answers.WebhookDeliveryListResponse}, HTTPStatus.NOT_FOUND),
)
async def list_deliveries(webhookId: str, parts: Parts, caller: CallerDep, page: DeliveryQuery) -> Response:  # noqa: N803
    """The latest first, each with what came of its attempts. They are kept for 30 days."""
    endpoint = await _found(parts, caller, webhookId)
    before = decode_cursor("delivery", page.cursor)[0] if page.cursor is not None else NEWEST
    found = await WebhookDeliveries(parts.database, parts.clock).list_deliveries(
        endpoint, limit=page.limit, before=before, status=page.status
    )
    following = encode_cursor("delivery", found[-1].key) if len(found) == page.limit else None
    return json_response({"deliveries": [answers.delivery(each) for each in found], "nextCursor": following})


@router.get(
    "/deliveries/{deliveryId}",
    responses=describe_responses({HTTPStatus.OK: answers.WebhookDeliveryResponse}, HTTPStatus.NOT_FOUND),
)
async def show_delivery(deliveryId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """What was told, and what came of each attempt."""
    found = await WebhookDeliveries(parts.database, parts.clock).find(deliveryId, tenant_id=caller.tenant_id)
    return json_response(answers.delivery(found))


@router.post(
    "/deliveries/{deliveryId}/redeliver",
    status_code=HTTPStatus.ACCEPTED,
    responses=describe_responses(
        {HTTPStatus.ACCEPTED: answers.WebhookDeliveryResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
    ),
)
async def redeliver(deliveryId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Once more under the same id, with all attempts again."""
    again = await WebhookDeliveries(parts.database, parts.clock).redeliver(
        deliveryId, tenant_id=caller.tenant_id, actor=caller.actor or ACTOR
    )
    return json_response(answers.delivery(again), HTTPStatus.ACCEPTED)


async def _found(parts: ApiParts, caller: CallerDep, webhook_id: str) -> WebhookEndpoint:
    return await parts.outgoing.find(webhook_id, tenant_id=caller.tenant_id)
