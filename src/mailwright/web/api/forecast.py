"""What becomes of campaigns, over HTTP: when each begins and ends, which rule holds it, and what would change that."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from mailwright.content.presend_checks import PresendContext
from mailwright.domain.clock import DAY
from mailwright.schemas import explanations
from mailwright.schemas.base import ResponseModel, Time
from mailwright.schemas.messages import ActionResponse
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.forecast import forecast
from mailwright.web.api.actions import actions
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/v1", tags=["campaigns"])


class ForecastSegmentResponse(ResponseModel):
    """Sent without a reason: at full pace. A reason and none sent: it waits. Both: in portions, because of it."""

    begins_at: Annotated[Time, Field(alias="from")]
    ends_at: Annotated[Time, Field(alias="to")]
    sending: int
    reason: str | None


class CampaignForecastResponse(ResponseModel):
    """Null times: not within the time that was looked at."""

    campaign_id: str
    name: str
    remaining: int
    starts_at: Time | None
    finishes_at: Time | None
    segments: list[ForecastSegmentResponse]


class ForecastResponse(ResponseModel):
    computed_at: Time
    looked_until: Time
    rate_per_second: float
    is_rate_measured: bool
    assumptions: list[str]
    campaigns: list[CampaignForecastResponse]


class CampaignExplanationResponse(ResponseModel):
    """Why a campaign is not sent yet, as sentences and as data."""

    campaign_id: str
    sentence: str
    state: str
    reason: str | None
    detail: str | None
    until: Time | None
    what_would_change: str | None
    then: str | None
    actions: list[ActionResponse]


class ForecastQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    days: Annotated[int, Field(ge=1, le=365, description="How far to look.")] = 365


@router.get("/forecast", responses=describe_responses({HTTPStatus.OK: ForecastResponse}))
async def show(engine: EngineDep, caller: CallerDep, query: Annotated[ForecastQuery, Query()]) -> Response:
    """Your campaigns in line, on the rules and counters of this moment."""
    horizon = query.days * DAY
    found = await forecast(engine.database, engine.clock, engine.defaults, tenant_id=caller.tenant_id, horizon=horizon)
    return json_response(explanations.forecast(found))


@router.get(
    "/campaigns/{campaignId}/explain",
    responses=describe_responses({HTTPStatus.OK: CampaignExplanationResponse}, HTTPStatus.NOT_FOUND),
)
async def why(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803 - the name in the address
    """Why it is not sent yet: which rule holds it, until when, what would change that, what it then does, and what you
    can do now."""
    found = await explain_campaign(
        engine.database,
        engine.clock,
        engine.defaults,
        campaignId,
        tenant_id=caller.tenant_id,
        store=engine.templates,
        known=PresendContext(postal_address=engine.postal_address),
    )
    return json_response({**explanations.campaign_explanation(found), "actions": actions(found.actions, caller)})
