"""HTTP routes of campaigns that repeat."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.app.wiring import make_campaign_repeats
from mailwright.schemas.campaign_repeats import (
    CampaignRepeatRequest,
    CampaignRepeatResponse,
    campaign_repeat_response,
)
from mailwright.schemas.campaigns import CampaignRefused, ReviewedQuery
from mailwright.sources.api.validation import parse_strict
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.campaign_sender import RequireCampaignSender
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/campaigns", tags=["campaigns"], dependencies=[RequireCampaignSender])


@router.get(
    "/{campaignId}/repeat",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: CampaignRepeatResponse}, HTTPStatus.NOT_FOUND),
)
async def show_repeat(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show the schedule of a recurring draft, and its last result."""
    found = await make_campaign_repeats(engine).find(campaignId, tenant_id=caller.tenant_id)
    return json_response(campaign_repeat_response(found))


@router.put(
    "/{campaignId}/repeat",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(CampaignRepeatRequest),
    responses=describe_responses(
        {HTTPStatus.OK: CampaignRepeatResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def set_repeat(
    request: Request,
    campaignId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    query: Annotated[ReviewedQuery, Query()],
) -> Response:
    """Create and start a campaign from the draft at each time of a schedule.

    The pre-send check runs now, and errors refuse the schedule. The feed is read now: a URL without a feed is refused,
    and `feedError` is set if the feed cannot be reached. If the draft is changed later, the schedule pauses until it is
    set again. With `reviewed`, a draft that has changed since its pre-send check is refused: 409
    `CHANGED_SINCE_REVIEW`.
    """
    wanted = parse_strict(CampaignRepeatRequest, await read_json(request))
    actor = Actor(actor_of(caller), caller.tenant_id)
    repeats, schedule = make_campaign_repeats(engine), wanted.schedule
    try:
        saved = await repeats.set(actor, campaignId, schedule, feed=wanted.feed, reviewed=query.reviewed)
    except CampaignNotStartable as error:
        raise CampaignRefused(error) from error
    return json_response(campaign_repeat_response(saved))


@router.delete(
    "/{campaignId}/repeat",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def stop_repeat(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Stop repeating. Campaigns that were made already are not affected."""
    await make_campaign_repeats(engine).stop(Actor(actor_of(caller), caller.tenant_id), campaignId)
    return Response(status_code=HTTPStatus.NO_CONTENT)
