"""Progress over HTTP: for whoever asks again and again, and for whoever keeps listening."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from mailwright.domain.errors import Unauthorized
from mailwright.schemas.campaigns import ProgressResponse, progress_response
from mailwright.sources.campaigns.progress import queue_progress
from mailwright.web.api.caller import CallerDep, caller_of
from mailwright.web.api.openapi import describe_responses
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep, live_updates_of

router = APIRouter(tags=["campaigns"])

# Nobody between us and the listener keeps events back to hand them on together.
_AT_ONCE = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@router.get(
    "/mail/progress/poll/",
    openapi_extra={"security": [{"apiKey": []}]},
    responses=describe_responses({HTTPStatus.OK: ProgressResponse}),
)
async def poll_progress(engine: EngineDep, caller: CallerDep) -> Response:
    """Straight from the queue: the reason and its end are those that the workers go by."""
    found = await queue_progress(engine.database, engine.clock, tenant_id=caller.tenant_id)
    return json_response(progress_response(found), headers={"Cache-Control": "no-store"})


# Not in the description: an answer that does not end is nothing that a description can state.
@router.get("/v1/progress/stream", include_in_schema=False)
async def stream(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """The same as server-sent events, whenever something has changed. `Last-Event-ID` is not needed: each event
    stands for itself."""

    async def is_welcome() -> bool:
        """A key that is revoked stops here as it does everywhere else."""
        try:
            await caller_of(request)
        except Unauthorized:
            return False
        return True

    events = live_updates_of(request).campaign_progress(caller.tenant_id, is_welcome)
    return StreamingResponse(events, media_type="text/event-stream", headers=_AT_ONCE)
