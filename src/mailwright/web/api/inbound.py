"""HTTP routes that providers post events to. A signature authenticates them instead of an API key."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from mailwright.domain.errors import MailwrightError
from mailwright.events.inbound_webhooks import InboundWebhooks
from mailwright.events.reports import ReportCounts
from mailwright.ops.logs import logger
from mailwright.ops.provider_kind import MAX_WEBHOOK_BYTES, ProviderKind, WebhookKind
from mailwright.ops.provider_kinds import KINDS
from mailwright.providers.inbound.rejected_events import (
    EventRejected,
    MalformedEvent,
    VerificationUnavailable,
    WebhookNotConfigured,
)
from mailwright.schemas.inbound_events import InboundEventsResponse
from mailwright.web.api.openapi import describe_responses
from mailwright.web.bodies import json_response, read_bytes
from mailwright.web.errors import BodyTooLarge, problem
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = APIRouter(tags=["events"], route_class=PlainRoute)

log = logger(__name__)

# The first matching class decides.
STATUSES: Mapping[type[MailwrightError], HTTPStatus] = {
    MalformedEvent: HTTPStatus.BAD_REQUEST,
    WebhookNotConfigured: HTTPStatus.NOT_FOUND,
    EventRejected: HTTPStatus.FORBIDDEN,
    BodyTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    VerificationUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}


_DESCRIBED = describe_responses({HTTPStatus.OK: InboundEventsResponse}, *STATUSES.values())
# These routes need no API key and validate no fields.
_RESPONSES = {status: response for status, response in _DESCRIBED.items() if status not in (401, 422)}


@router.post(
    "/provider-events/{providerName}",
    responses={status: response for status, response in _DESCRIBED.items() if status != HTTPStatus.UNAUTHORIZED},
)
async def provider_events(
    providerName: Annotated[str, Path(pattern="^[a-z][a-z0-9-]{1,39}$")],  # noqa: N803
    request: Request,
) -> Response:
    """Receive events of a named provider, in the format and with the signature of its kind."""
    named = engine_of(request).named_webhooks.get(providerName)

    async def receive(_installed: InboundWebhooks, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        if named is None:
            raise WebhookNotConfigured("There is no usable provider with this name.")
        return await named.webhooks.receive(named.kind, headers, body)

    return await _receive(request, receive, MAX_WEBHOOK_BYTES)


def _add_route(kind: ProviderKind, webhook: WebhookKind) -> None:
    async def receive_events(request: Request) -> Response:
        return await _receive(request, lambda webhooks, *args: webhooks.receive(kind.name, *args), webhook.max_bytes)

    router.add_api_route(
        f"/{kind.name}-events",
        receive_events,
        methods=["POST"],
        name=f"{kind.name}_events",
        description=webhook.description,
        responses=_RESPONSES,
    )


async def _receive(
    request: Request,
    receive: Callable[[InboundWebhooks, Mapping[str, str], bytes], Awaitable[ReportCounts]],
    max_bytes: int,
) -> Response:
    webhooks = engine_of(request).inbound_webhooks
    try:
        received = await receive(webhooks, request.headers, await read_bytes(request, max_bytes))
    except tuple(STATUSES) as error:
        return refuse_event(request, error)
    return json_response(InboundEventsResponse.model_validate(received))


def refuse_event(request: Request, error: MailwrightError) -> Response:
    log.warning("event_rejected", path=request.url.path, code=error.code, reason=str(error))
    status = next(status for kind, status in STATUSES.items() if isinstance(error, kind))
    return problem(status, error.code, str(error))


for _kind in KINDS.values():
    if _kind.webhook is not None:
        _add_route(_kind, _kind.webhook)
