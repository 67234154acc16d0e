"""Find the campaigns that use a list, a segment, a template or an image."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import orjson
from sqlalchemy import select

from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.storage.database import Transaction
from mailwright.storage.tables import campaigns, queue_entries

# Objects that an unfinished campaign uses cannot be deleted.
UNFINISHED: Final = (CampaignStatus.DRAFT, CampaignStatus.READY, CampaignStatus.SENDING, CampaignStatus.PAUSED)


@dataclass(frozen=True, slots=True)
class CampaignUse:
    campaign_id: str
    name: str
    status: CampaignStatus
    is_scheduled: bool = False

    @property
    def is_draft(self) -> bool:
        return self.status is CampaignStatus.DRAFT

    @property
    def sentence(self) -> str:
        match self.status:
            case CampaignStatus.DRAFT:
                return lazy_gettext("the draft {name} uses it", name=self.name)
            case CampaignStatus.READY if self.is_scheduled:
                return lazy_gettext("the scheduled campaign {name} uses it", name=self.name)
            case CampaignStatus.READY:
                return lazy_gettext("the queued campaign {name} uses it", name=self.name)
            case CampaignStatus.PAUSED:
                return lazy_gettext("the paused campaign {name} uses it", name=self.name)
            case _:
                return lazy_gettext("the campaign {name} is being sent with it", name=self.name)

    @property
    def remedy(self) -> str:
        match self.status:
            case CampaignStatus.DRAFT:
                return lazy_gettext("Change or delete the draft first.")
            case CampaignStatus.READY:
                return lazy_gettext("Withdraw or cancel the campaign first.")
            case _:
                return lazy_gettext("Wait until the campaign is sent, or cancel it.")


async def find_uses(
    tx: Transaction,
    tenant_id: int,
    uses: Callable[[Mapping[str, Any]], bool],
    statuses: Collection[CampaignStatus] = UNFINISHED,
) -> tuple[CampaignUse, ...]:
    """Return the campaigns whose definition matches, oldest first; by default only unfinished ones.

    `started` in the definition has the values that were fixed when the campaign started, for example its filter.
    """
    c, entry = campaigns.c, queue_entries.c
    matching = (c.tenant_id == tenant_id, c.status.in_(statuses), c.deleted_at.is_(None))
    joined = campaigns.outerjoin(queue_entries, entry.campaign_key == c.id)
    query = (
        select(c.campaign_id, c.name, c.status, c.scheduled_at, c.definition, entry.content)
        .select_from(joined)
        .where(*matching)
    )
    return tuple(
        CampaignUse(row.campaign_id, row.name, CampaignStatus(row.status), row.scheduled_at is not None)
        for row in await tx.execute(query.order_by(c.id))
        if uses({**orjson.loads(row.definition), "started": orjson.loads(row.content or "{}")})
    )
