"""HTTP routes of contact events."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.audience.contact_events import EventStatus, list_latest
from mailwright.audience.event_schema import load_schema
from mailwright.schemas.contact_events import (
    ContactEventListResponse,
    EventPage,
    EventSchemaResponse,
    EventsResponse,
    contact_event_response,
    event_schema_response,
    events_content,
)
from mailwright.sources.api.contact_events import EventsRequest
from mailwright.web.api.caller import CallerDep, request_context_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import MAX_BATCH_BYTES, json_response, read_json
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import EngineDep, engine_of

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


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: ContactEventListResponse}))
async def list_events(engine: EngineDep, caller: CallerDep, page: Annotated[EventPage, Query()]) -> Response:
    """List events, latest first."""
    found = await list_latest(
        engine.database,
        caller.tenant_id,
        limit=page.limit,
        before=page.before("event"),
        email=page.address,
        name=page.event,
    )
    next_cursor = page.next_cursor("event", [event.id for event in found])
    events = [contact_event_response(event) for event in found]
    return json_response(ContactEventListResponse(events=events, next_cursor=next_cursor))


@router.get("/schema", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: EventSchemaResponse}))
async def schema(engine: EngineDep, caller: CallerDep) -> Response:
    """Show the names of events with their properties, types, counts and times."""
    return json_response(event_schema_response(await load_schema(engine.database, caller.tenant_id)))
