"""HTTP routes of the guard rails of campaigns."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.outbox.audit_log import API
from mailwright.schemas.campaigns import OpenWaveQuery
from mailwright.schemas.guard_rails import GuardReportResponse, guard_report_response
from mailwright.sources.campaigns.records import Actor
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.campaign_sender import RequireCampaignSender
from mailwright.web.api.openapi import describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/campaigns", tags=["campaigns"], dependencies=[RequireCampaignSender])


@router.get(
    "/{campaignId}/guard-rails",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: GuardReportResponse}, HTTPStatus.NOT_FOUND),
)
async def show_guard_rails(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show the guard rails of a started campaign, their counts and their actions so far."""
    report = await engine.campaign_guard.report(campaignId, tenant_id=caller.tenant_id)
    return json_response(guard_report_response(report))


@router.post(
    "/{campaignId}/accept-incidents",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: GuardReportResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def accept_incidents(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """End a warning or a slow-down by the guard rails. Only messages sent from now on count."""
    await engine.campaign_guard.accept_incidents(Actor(API, caller.tenant_id), campaignId)
    report = await engine.campaign_guard.report(campaignId, tenant_id=caller.tenant_id)
    return json_response(guard_report_response(report))


@router.post(
    "/{campaignId}/open-wave",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: GuardReportResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def open_wave(
    campaignId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    query: Annotated[OpenWaveQuery, Query()],
) -> Response:
    """Open the next wave now, also if guard rails hold it."""
    actor = Actor(API, caller.tenant_id)
    await engine.campaign_guard.open_next_wave(actor, campaignId, wave=query.wave, reviewed=query.reviewed)
    report = await engine.campaign_guard.report(campaignId, tenant_id=caller.tenant_id)
    return json_response(guard_report_response(report))
