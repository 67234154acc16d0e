"""The page of contacts who are excluded from the audience of a campaign."""

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.actions.campaigns import download_excluded
from mailwright.actions.exclusions import EXCLUSION_TEXT, ExclusionQuery, exclusion_text
from mailwright.audience.eligibility import Exclusion
from mailwright.audience.exclusions import NamedAudience, count_excluded, count_not_on_lists, list_excluded
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.sources.campaigns.checks import named_audience
from mailwright.sources.campaigns.records import Campaign
from mailwright.web.api.derived import file_response
from mailwright.web.context import visitor_context
from mailwright.web.dashboard.shell import PageRoute, page
from mailwright.web.session import ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/campaigns", route_class=PageRoute, include_in_schema=False)

_PAGE: Final = 100


@router.get("/{campaign_id}/excluded")
async def show(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    campaign_id: str,
    *,
    reason: Exclusion | None = None,
    cursor: str = "",
) -> Response:
    campaign, named = await _audience(engine, visitor, campaign_id)
    after, now = decode_cursor("excluded", cursor)[0] if cursor else 0, engine.clock.now()
    async with engine.database.read() as tx:
        counts = await count_excluded(tx, named, now)
        found = await list_excluded(tx, named, now, limit=_PAGE, after=after, reason=reason)
        not_on_lists = await count_not_on_lists(tx, named)
    values: dict[str, Any] = {
        "campaign": campaign,
        "counts": counts,
        "texts": EXCLUSION_TEXT,
        "explain": exclusion_text,
        "found": found,
        "not_on_lists": not_on_lists,
        "shown": reason,
        "following": encode_cursor("excluded", found[-1].key) if len(found) == _PAGE else None,
    }
    return await page(request, visitor, "campaigns/excluded.html", **values)


@router.get("/{campaign_id}/excluded.csv")
async def download(request: Request, visitor: ViewerDep, campaign_id: str) -> Response:
    """Download the same file as from the API."""
    return file_response(await download_excluded(visitor_context(request, visitor), campaign_id, ExclusionQuery()))


async def _audience(engine: EngineDep, visitor: Visitor, campaign_id: str) -> tuple[Campaign, NamedAudience]:
    campaign = await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)
    async with engine.database.read() as tx:
        return campaign, await named_audience(tx, visitor.tenant_id, campaign.definition)
