"""The archive over HTTP: its author opens a campaign to everyone, or closes it again."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.domain.clock import isoformat
from mailwright.domain.unsubscribe_tokens import FIRST_TENANT
from mailwright.schemas.answers import ResponseModel, Time
from mailwright.sources.api.requests import RequestModel, parse
from mailwright.sources.campaigns.archive import Archive, ArchivedCampaign
from mailwright.sources.campaigns.campaigns import Actor
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.campaigns import ACTOR
from mailwright.web.api.openapi import describe_body, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.parts import ApiParts, Parts

router = APIRouter(prefix="/v1/campaigns", tags=["campaigns"])

_BODY_PROBLEMS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)


class ArchiveRequest(RequestModel):
    """Whether everyone may read the campaign."""

    is_public: bool


class ArchiveResponse(ResponseModel):
    """`urls`: where it can be read, one for each of its public lists; none where it is not open to everyone."""

    campaign_id: str
    is_public: bool
    archived_at: Time | None
    urls: list[str]


@router.get(
    "/{campaignId}/archive",
    responses=describe_responses({HTTPStatus.OK: ArchiveResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def show_archived(campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Whether everyone may read the campaign, and where."""
    found = await archive_of(parts).find(campaignId, tenant_id=caller.tenant_id)
    return json_response(await _shown(parts, found))


@router.put(
    "/{campaignId}/archive",
    openapi_extra=describe_body(ArchiveRequest),
    responses=describe_responses(
        {HTTPStatus.OK: ArchiveResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *_BODY_PROBLEMS
    ),
)
async def set_archived(request: Request, campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Opens a campaign that has started to everyone, without anything of its readers, or closes it again."""
    archive, acting = archive_of(parts), Actor(caller.actor or ACTOR, caller.tenant_id)
    wanted = parse(ArchiveRequest, await read_json(request))
    act = archive.publish if wanted.is_public else archive.withdraw
    return json_response(await _shown(parts, await act(acting, campaignId)))


def archive_of(parts: ApiParts) -> Archive:
    return Archive(parts.database, parts.clock, parts.templates)


async def _shown(parts: ApiParts, issue: ArchivedCampaign) -> dict[str, Any]:
    return answer(issue, await archive_of(parts).places(issue), parts.public_url)


def answer(issue: ArchivedCampaign, places: Sequence[str], public_url: str) -> dict[str, Any]:
    """The same for the HTTP API and for `--json` at the command line."""
    named = "" if issue.tenant_id == FIRST_TENANT else f"?tenant={issue.tenant}"
    return {
        "campaignId": issue.campaign_id,
        "isPublic": issue.archived_at is not None,
        "archivedAt": isoformat(issue.archived_at),
        "urls": [f"{public_url}/archive/{each}/{issue.campaign_id}{named}" for each in places],
    }
