"""Models of the public campaign archive."""

from collections.abc import Sequence

from mailwright.domain.unsubscribe_tokens import FIRST_TENANT
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.campaigns.archive import ArchivedCampaign


class ArchiveRequest(RequestModel):
    """Whether the campaign should be in the public archive."""

    is_public: bool


class ArchiveResponse(ResponseModel):
    """`urls`: one public page for each of the campaign's public lists. Empty if the campaign is not public."""

    campaign_id: str
    is_public: bool
    archived_at: Time | None
    urls: list[str]


def archive_response(campaign: ArchivedCampaign, list_keys: Sequence[str], public_url: str) -> ArchiveResponse:
    query = "" if campaign.tenant_id == FIRST_TENANT else f"?tenant={campaign.tenant}"
    return ArchiveResponse(
        campaign_id=campaign.campaign_id,
        is_public=campaign.published_at is not None,
        archived_at=campaign.published_at,
        urls=[f"{public_url}/archive/{list_key}/{campaign.campaign_id}{query}" for list_key in list_keys],
    )
