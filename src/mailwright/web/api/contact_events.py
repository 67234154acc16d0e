"""The HTTP route that stores contact events. It is written by hand, because it is one of the busiest."""

from http import HTTPStatus

from fastapi import Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.actions.contact_events import EventsResponse, events_content
from mailwright.audience.contact_events import EventStatus
from mailwright.sources.api.contact_events import EventsRequest
from mailwright.web.api.caller import request_context_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import MAX_BATCH_BYTES, json_response, read_json
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = Routes(prefix="/v1/events", tags=["events"], route_class=PlainRoute)


@router.post(
    "",
    scope=Scope.EVENTS,
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=describe_body(EventsRequest, is_idempotent=True),
    responses=describe_responses(
        {HTTPStatus.ACCEPTED: EventsResponse, HTTPStatus.OK: EventsResponse}, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def submit(request: Request) -> Response:
    """Store actions of contacts: one event, or up to 1,000 in `events`.

    The response is 202 once all events without an error are stored durably. An event with the `eventId` of an earlier
    one, or of a repeated request with the same idempotency key, is a duplicate and not stored again.
    """
    context, engine = await request_context_of(request), engine_of(request)
    body = await read_json(request, MAX_BATCH_BYTES)
    results = await engine.api_events.submit(context, body)
    if "events" not in body and results[0].status is EventStatus.DUPLICATE:
        return json_response(events_content(results), HTTPStatus.OK, {"Idempotent-Replay": "true"})
    return json_response(events_content(results), HTTPStatus.ACCEPTED)
