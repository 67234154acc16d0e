"""Find campaigns by a part of their name, among the newest ones."""

from typing import Final

from sqlalchemy import literal, select

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Database
from mailwright.storage.expressions import lower_ascii, position
from mailwright.storage.tables import campaigns

# The number of campaigns that one search scans.
SCAN_LIMIT: Final = 2_000


@dataclass(frozen=True, slots=True)
class CampaignName:
    campaign_id: str
    name: str
    status: str
    updated_at: Instant


async def find_campaigns(database: Database, tenant_id: int, text: str, *, limit: int) -> list[CampaignName]:
    """Return the newest campaigns whose name contains the text."""
    c = campaigns.c
    columns = (c.id, c.campaign_id, c.name, c.status, c.updated_at)
    current = (c.tenant_id == tenant_id, c.deleted_at.is_(None))
    newest = select(*columns).where(*current).order_by(c.id.desc()).limit(SCAN_LIMIT).subquery()
    matches = position(lower_ascii(newest.c.name), lower_ascii(literal(text))) > 0
    async with database.read() as tx:
        rows = await tx.execute(select(newest).where(matches).order_by(newest.c.id.desc()).limit(limit))
    return [CampaignName(row.campaign_id, row.name, row.status, row.updated_at) for row in rows]
