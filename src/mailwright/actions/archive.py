"""The public archive of campaigns."""

from typing import Annotated

from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, Argument, Noun, Table, TwoLines, time_of
from mailwright.content.template_store import TemplateStore
from mailwright.domain.unsubscribe_tokens import FIRST_TENANT
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.schemas.paging import MAX_PAGE
from mailwright.sources.api.fields import ListKey, RequestModel
from mailwright.sources.campaigns.archive import Archive, ArchivedCampaign
from mailwright.sources.campaigns.records import Actor

_PATH = "/v1/campaigns/{campaignId}/archive"

noun = Noun(
    "archive",
    "The public archive of campaigns.",
    "/v1/archive",
    parameters={"campaign_id": ("ID", "The campaign id that `campaign create` prints.")},
    has_unique_ids=True,
    tag="campaigns",
)


class ArchiveQuery(RequestModel):
    list_key: Annotated[ListKey, Argument("KEY"), Field(description="The list key.")]
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE, description="Maximum number of campaigns, newest first.")] = 50


class ArchiveRequest(RequestModel):
    """Whether the campaign should be in the public archive."""

    is_public: bool


class ArchiveResponse(ResponseModel):
    """`urls`: one public page for each of the campaign's public lists. Empty if the campaign is not public."""

    campaign_id: str
    name: str
    sent_at: Time
    is_public: bool
    archived_at: Time | None
    urls: list[str]


class ArchiveListResponse(ResponseModel):
    campaigns: list[ArchiveResponse]


@noun.get(
    command="list",
    help="List the archived campaigns of a list.",
    shown=Table(
        "campaigns",
        {"Sent ({zone})!": time_of("sent_at"), "Campaign": lambda each: TwoLines(each.name, each.campaign_id)},
        nothing="The archive of {list_key} is empty. Publish a campaign with `mailwright archive publish ID`.",
    ),
)
async def list_archived(at: Context, wanted: ArchiveQuery) -> ArchiveListResponse:
    """List the public campaigns of a list, newest first."""
    found = await _archive(at).list_public(at.tenant_id, wanted.list_key, limit=wanted.limit)
    return ArchiveListResponse(campaigns=[await _response(at, each) for each in found])


@noun.get(_PATH, conflicts=True)
async def show_archived(at: Context, campaign_id: str) -> ArchiveResponse:
    """Show whether the campaign is public, and the URLs of its public pages."""
    return await _response(at, await _archive(at).find(campaign_id, tenant_id=at.owner_id))


@noun.put(_PATH, scope=MANAGE, audit="campaign.publish")
async def set_archived(at: Context, campaign_id: str, wanted: ArchiveRequest) -> ArchiveResponse:
    """Publish a campaign that has started, without any personal data, or withdraw it from the archive."""
    change = _archive(at).publish if wanted.is_public else _archive(at).withdraw
    return await _response(at, await change(Actor(at.actor, at.owner_id), campaign_id))


def _archive(at: Context) -> Archive:
    return Archive(at.database, at.clock, TemplateStore(at.database, at.clock))


async def _response(at: Context, campaign: ArchivedCampaign) -> ArchiveResponse:
    query = "" if campaign.tenant_id == FIRST_TENANT else f"?tenant={campaign.tenant}"
    places = await _archive(at).public_lists(campaign)
    return combine(
        ArchiveResponse,
        campaign,
        is_public=campaign.published_at is not None,
        archived_at=campaign.published_at,
        urls=[f"{at.settings.public_url}/archive/{each}/{campaign.campaign_id}{query}" for each in places],
    )
