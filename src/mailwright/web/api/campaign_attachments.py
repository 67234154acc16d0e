"""HTTP routes of the attachments of a campaign."""

from http import HTTPStatus

from fastapi import Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.schemas.campaigns import CampaignAttachmentListResponse, attachment_responses
from mailwright.sources.api.requests import Attachment
from mailwright.sources.api.validation import parse
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.campaign_sender import RequireCampaignSender
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(
    prefix="/v1/campaigns/{campaignId}/attachments", tags=["campaigns"], dependencies=[RequireCampaignSender]
)


@router.get(
    "",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: CampaignAttachmentListResponse}, HTTPStatus.NOT_FOUND),
)
async def list_attachments(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """List the files that are attached to every message of the campaign."""
    return _response(await engine.campaigns.find(campaignId, tenant_id=caller.tenant_id))


@router.post(
    "",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(Attachment),
    responses=describe_responses(
        {HTTPStatus.CREATED: CampaignAttachmentListResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def attach(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Attach a file to a draft. It is stored once and attached to every message of the campaign."""
    wanted = parse(Attachment, await read_json(request))
    actor = Actor(actor_of(caller), caller.tenant_id)
    return _response(await engine.campaigns.attach(actor, campaignId, [wanted.decoded()]), HTTPStatus.CREATED)


@router.delete(
    "/{attachmentId}",
    scope=Scope.MANAGE,
    responses=describe_responses(
        {HTTPStatus.OK: CampaignAttachmentListResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
    ),
)
async def detach(campaignId: str, attachmentId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Remove a file from a draft, and delete its content."""
    return _response(await engine.campaigns.detach(Actor(actor_of(caller), caller.tenant_id), campaignId, attachmentId))


def _response(campaign: Campaign, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return json_response(CampaignAttachmentListResponse(attachments=attachment_responses(campaign)), status)
