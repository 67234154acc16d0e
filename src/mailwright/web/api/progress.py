"""The progress of the campaign queue over HTTP, by polling or as server-sent events."""

from http import HTTPStatus

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from mailwright.access.roles import Scope
from mailwright.actions.campaigns import ProgressResponse, progress_response
from mailwright.domain.errors import Unauthorized
from mailwright.sources.campaigns.queue_progress import queue_progress
from mailwright.web.api.caller import CallerDep, caller_of
from mailwright.web.api.openapi import describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep, live_updates_of

router = Routes(tags=["campaigns"])

# Proxies must forward each event immediately instead of buffering it.
_UNBUFFERED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@router.get(
    "/mail/progress/poll/",
    scope=Scope.READ,
    openapi_extra={"security": [{"apiKey": []}]},
    responses=describe_responses({HTTPStatus.OK: ProgressResponse}),
)
async def poll_progress(engine: EngineDep, caller: CallerDep) -> Response:
    """Return the progress of the active campaign and the queue, as the workers see it."""
    found = await queue_progress(engine.database, engine.clock, engine.defaults, tenant_id=caller.tenant_id)
    return json_response(progress_response(found), headers={"Cache-Control": "no-store"})


# Left out of the API description, which cannot describe an endless response.
@router.get("/v1/progress/stream", scope=Scope.READ, include_in_schema=False)
async def stream(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Send the progress as server-sent events whenever it changes. Each event is complete, so `Last-Event-ID` is not
    needed."""

    async def is_authorized() -> bool:
        """Return whether the caller still has access, so that a revoked key ends the stream."""
        try:
            await caller_of(request)
        except Unauthorized:
            return False
        return True

    events = live_updates_of(request).campaign_progress(caller.tenant_id, engine.defaults, is_authorized)
    return StreamingResponse(events, media_type="text/event-stream", headers=_UNBUFFERED)
