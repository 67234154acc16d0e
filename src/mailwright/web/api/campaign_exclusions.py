"""Download the contacts who are excluded from the audience of a campaign, as a stream."""

from http import HTTPStatus

from starlette.responses import Response, StreamingResponse

from mailwright.access.roles import Scope
from mailwright.actions.exclusions import (
    excluded_csv,
)
from mailwright.audience.exclusions import NamedAudience, excluded_contacts
from mailwright.sources.campaigns.checks import named_audience
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.campaign_sender import RequireCampaignSender
from mailwright.web.api.openapi import describe_files
from mailwright.web.api.routes import Routes
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/campaigns", tags=["campaigns"], dependencies=[RequireCampaignSender])


@router.get(
    "/{campaignId}/excluded.csv", scope=Scope.READ, responses=describe_files(("text/csv",), HTTPStatus.NOT_FOUND)
)
async def download_excluded(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Download the excluded contacts with their reasons as CSV."""
    return excluded_file(engine, await _audience(engine, caller.tenant_id, campaignId), campaignId)


def excluded_file(engine: EngineDep, named: NamedAudience, campaign_id: str) -> Response:
    lines = excluded_csv(excluded_contacts(engine.database, named, engine.clock.now()))
    headers = {"Content-Disposition": f'attachment; filename="excluded-{campaign_id}.csv"'}
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


async def _audience(engine: EngineDep, tenant_id: int, campaign_id: str) -> NamedAudience:
    campaign = await engine.campaigns.find(campaign_id, tenant_id=tenant_id)
    async with engine.database.read() as tx:
        return await named_audience(tx, tenant_id, campaign.definition)
