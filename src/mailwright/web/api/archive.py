"""HTTP routes of the public campaign archive."""

from http import HTTPStatus

from fastapi import Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.app.wiring import Engine
from mailwright.schemas.archive import ArchiveRequest, ArchiveResponse, archive_response
from mailwright.sources.api.validation import parse
from mailwright.sources.campaigns.archive import Archive, ArchivedCampaign
from mailwright.sources.campaigns.records import Actor
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/campaigns", tags=["campaigns"])


@router.get(
    "/{campaignId}/archive",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: ArchiveResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def show_archived(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show whether the campaign is public, and the URLs of its public pages."""
    campaign = await archive_of(engine).find(campaignId, tenant_id=caller.tenant_id)
    return await _archive_response(engine, campaign)


@router.put(
    "/{campaignId}/archive",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(ArchiveRequest),
    responses=describe_responses(
        {HTTPStatus.OK: ArchiveResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def set_archived(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Publish a campaign that has started, without any personal data, or withdraw it from the archive."""
    archive, actor = archive_of(engine), Actor(actor_of(caller), caller.tenant_id)
    wanted = parse(ArchiveRequest, await read_json(request))
    act = archive.publish if wanted.is_public else archive.withdraw
    return await _archive_response(engine, await act(actor, campaignId))


def archive_of(engine: Engine) -> Archive:
    return Archive(engine.database, engine.clock, engine.templates)


async def _archive_response(engine: Engine, campaign: ArchivedCampaign) -> Response:
    list_keys = await archive_of(engine).public_lists(campaign)
    return json_response(archive_response(campaign, list_keys, engine.public_url))
