"""Forecasts and explanations of campaigns over HTTP."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.content.presend_checks import PresendContext
from mailwright.domain.clock import DAY
from mailwright.schemas.explanations import (
    CampaignExplanationResponse,
    ForecastResponse,
    campaign_explanation,
    forecast_response,
)
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.forecast import forecast
from mailwright.web.api.actions import action_requests
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1", tags=["campaigns"])


class ForecastQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    days: Annotated[int, Field(ge=1, le=365, description="Number of days to forecast.")] = 365


@router.get("/forecast", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: ForecastResponse}))
async def show(engine: EngineDep, caller: CallerDep, query: Annotated[ForecastQuery, Query()]) -> Response:
    """Forecast your queued campaigns from the current limits and counters."""
    horizon = query.days * DAY
    found = await forecast(engine.database, engine.clock, engine.defaults, tenant_id=caller.tenant_id, horizon=horizon)
    return json_response(forecast_response(found))


@router.get(
    "/campaigns/{campaignId}/explain",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: CampaignExplanationResponse}, HTTPStatus.NOT_FOUND),
)
async def why(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803 - the name in the URL
    """Explain why a campaign is not sent yet: the reason, until when, what would change it, the forecast, and the
    actions that you can perform now."""
    explanation = await explain_campaign(
        engine.database,
        engine.clock,
        engine.defaults,
        campaignId,
        tenant_id=caller.tenant_id,
        store=engine.templates,
        known=PresendContext(postal_address=engine.postal_address, limits=engine.defaults.limits),
        approvals=engine.campaign_approvals,
    )
    actions = action_requests(explanation.actions, caller)
    return json_response({**campaign_explanation(explanation), "actions": actions})
