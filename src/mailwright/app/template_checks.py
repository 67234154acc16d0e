"""Check a version or a draft of a template before it is sent."""

from mailwright.audience import segments
from mailwright.content.brand_store import load_brand
from mailwright.content.content_check import check_content, is_transactional
from mailwright.content.presend_checks import PresendContext, PresendIssue
from mailwright.content.template_store import StoredTemplate
from mailwright.storage.database import Database


async def check_template(
    database: Database,
    stored: StoredTemplate,
    *,
    postal_address: str | None,
    is_bulk: bool | None = None,
    sender: tuple[str, ...] = (),
) -> list[PresendIssue]:
    """Run the pre-send check of content.

    If `is_bulk` is None, the footer decides; without a footer, the email counts as bulk.
    """
    async with database.read() as tx:
        brand = await load_brand(tx, stored.tenant_id)
    known = frozenset(each.segment_key for each in await segments.list_all(database, stored.tenant_id))
    bulk = not is_transactional(stored) if is_bulk is None else is_bulk
    context = PresendContext(is_bulk=bulk, postal_address=postal_address, segments=known, sender=sender)
    return check_content(stored, brand, context)
