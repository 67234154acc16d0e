"""Events from providers over HTTP: the routes that SNS and SendGrid post to. Their signature is their key."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.domain.errors import MailwrightError
from mailwright.events import sendgrid, sns
from mailwright.events.inbound_webhooks import InboundWebhooks
from mailwright.events.rejected_events import (
    EventRejected,
    MalformedEvent,
    VerificationUnavailable,
    WebhookNotConfigured,
)
from mailwright.events.reports import ReportCounts
from mailwright.ops.logs import logger
from mailwright.schemas.answers import ResponseModel
from mailwright.web.api.openapi import describe_responses
from mailwright.web.bodies import json_response, read_bytes
from mailwright.web.errors import BodyTooLarge, problem
from mailwright.web.parts import Parts

router = APIRouter(tags=["events"])

log = logger(__name__)

# The first class that fits decides.
STATUSES: Mapping[type[MailwrightError], HTTPStatus] = {
    MalformedEvent: HTTPStatus.BAD_REQUEST,
    WebhookNotConfigured: HTTPStatus.NOT_FOUND,
    EventRejected: HTTPStatus.FORBIDDEN,
    BodyTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    VerificationUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}


class InboundEventsResponse(ResponseModel):
    """How many reports were new, had come before, or are about no mail of ours."""

    new: int
    repeated: int
    unknown: int


_PROBLEMS = describe_responses({HTTPStatus.OK: InboundEventsResponse}, *STATUSES.values())
# No key is asked for, and no field has a model of its own.
ANSWERS = {status: answer for status, answer in _PROBLEMS.items() if status not in (401, 422)}


@router.post("/ses-events", responses=ANSWERS)
async def ses_events(request: Request, parts: Parts) -> Response:
    """Events of SES, as an SNS topic posts them. Also confirms the subscription of a topic in SNS_TOPIC_ARNS."""
    return await _receive(request, parts.webhooks, InboundWebhooks.receive_sns, sns.MAX_BODY_BYTES)


@router.post("/sendgrid-events", responses=ANSWERS)
async def sendgrid_events(request: Request, parts: Parts) -> Response:
    """Events of SendGrid, as its signed event webhook posts them."""
    return await _receive(request, parts.webhooks, InboundWebhooks.receive_sendgrid, sendgrid.MAX_BODY_BYTES)


async def _receive(
    request: Request,
    webhooks: InboundWebhooks,
    receive: Callable[[InboundWebhooks, Mapping[str, str], bytes], Awaitable[ReportCounts]],
    largest: int,
) -> Response:
    try:
        received = await receive(webhooks, request.headers, await read_bytes(request, largest))
    except tuple(STATUSES) as error:
        log.warning("event_refused", path=request.url.path, code=error.code, reason=str(error))
        status = next(status for kind, status in STATUSES.items() if isinstance(error, kind))
        return problem(status, error.code, str(error))
    return json_response({"new": received.new, "repeated": received.repeated, "unknown": received.unknown})
