"""Progress over HTTP: for whoever asks again and again, and for whoever keeps listening."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response, StreamingResponse

from mailwright.domain.errors import Unauthorized
from mailwright.schemas import campaigns as answers
from mailwright.schemas.answers import Time
from mailwright.sources.campaigns.progress import queue_progress
from mailwright.web.api.caller import CallerDep, caller_of
from mailwright.web.api.openapi import describe_responses
from mailwright.web.bodies import json_response
from mailwright.web.parts import Parts
from mailwright.web.state import live_updates_of

router = APIRouter(tags=["campaigns"])

# Nobody between us and the listener keeps events back to hand them on together.
_AT_ONCE = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Snake(BaseModel):
    """The names of this answer are older than this API and written as others rely on them."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class ActiveCampaignResponse(Snake):
    """`rate` is in mails per second; `eta` is null while nothing moves."""

    id: str
    name: str
    counts: dict[str, int]
    percent: float
    rate: float
    eta: Time | None


class ProgressResponse(Snake):
    """The campaign that is being sent, or the one that goes on first; how many wait besides; what holds it."""

    active_campaign: ActiveCampaignResponse | None
    queued_count: int
    next_campaign_at: Time | None
    reason_code: str | None
    next_run_at: Time | None


@router.get(
    "/mail/progress/poll/",
    openapi_extra={"security": [{"apiKey": []}]},
    responses=describe_responses({HTTPStatus.OK: ProgressResponse}),
)
async def poll_progress(parts: Parts, caller: CallerDep) -> Response:
    """Straight from the queue: the reason and its end are those that the workers go by."""
    found = await queue_progress(parts.database, parts.clock, tenant_id=caller.tenant_id)
    return json_response(answers.progress(found), headers={"Cache-Control": "no-store"})


# Not in the description: an answer that does not end is nothing that a description can state.
@router.get("/v1/progress/stream", include_in_schema=False)
async def stream(request: Request, parts: Parts, caller: CallerDep) -> Response:
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
