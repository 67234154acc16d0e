"""Problems of a campaign's template: an unpublished draft in the composer, and issues of its design."""

from collections.abc import AsyncIterator
from typing import Final

from sqlalchemy import select

from mailwright.content.brand_store import load_brand
from mailwright.content.content_check import check_design
from mailwright.content.presend_checks import PresendIssue
from mailwright.content.template_store import latest_by_locale
from mailwright.domain.translation import lazy_gettext
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.variants import CampaignProblem
from mailwright.storage.database import Transaction
from mailwright.storage.tables import template_drafts

TEMPLATE_FIELD: Final = "content.templateId"


async def find_unpublished(
    tx: Transaction, tenant_id: int, definition: CampaignDefinition
) -> AsyncIterator[CampaignProblem]:
    """Yield a problem if recipients would get another email than the one that its author wrote."""
    template_id = definition.content.template_id
    if template_id is None:
        return
    t = template_drafts.c
    open_drafts = select(t.saved_by, t.locale).where(
        t.tenant_id == tenant_id, t.template_id == template_id, t.document.is_not(None)
    )
    if rows := await tx.execute(open_drafts.order_by(t.saved_at.desc()).limit(1)):
        message = lazy_gettext(
            "the template {template_id} has a draft of {saved_by} that is not published",
            template_id=template_id,
            saved_by=rows[0].saved_by,
        )
        remedy = lazy_gettext("choose “Publish” or “Discard draft” in the composer")
        yield CampaignProblem(
            TEMPLATE_FIELD,
            "UNPUBLISHED_DRAFT",
            lazy_gettext("{text}; {remedy}", text=message, remedy=remedy),
            rows[0].locale,
        )


async def check_designs(tx: Transaction, tenant_id: int, definition: CampaignDefinition) -> list[PresendIssue]:
    """Return the issues of the published design in each language."""
    if (template_id := definition.content.template_id) is None:
        return []
    brand = await load_brand(tx, tenant_id)
    designs = (await latest_by_locale(tx, tenant_id, template_id)).values()
    return [issue for stored in designs for issue in check_design(stored, brand)]
