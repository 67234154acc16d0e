"""Find the recipients of a mailout whose messages would be withdrawn before sending, with the reasons."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import select

from mailwright.audience.eligibility import EVERY_CAMPAIGN, Exclusion
from mailwright.audience.status import SuppressionReason, find_erased
from mailwright.storage.database import Database
from mailwright.storage.tables import suppressions

BATCH: Final = 500
# Suppressions with any other reason were added by a user or an import.
_BY_REASON: Final[dict[str, Exclusion]] = {
    SuppressionReason.UNSUBSCRIBED: Exclusion.UNSUBSCRIBED,
    SuppressionReason.COMPLAINT: Exclusion.UNSUBSCRIBED,
    SuppressionReason.BOUNCE: Exclusion.BOUNCED,
    SuppressionReason.SOFT_BOUNCES: Exclusion.BOUNCED,
}


async def find_exclusions(database: Database, tenant_id: int, emails: Sequence[str]) -> dict[str, Exclusion]:
    """Return the addresses that get no bulk email or were erased, with the reason."""
    found: dict[str, Exclusion] = {}
    entry = suppressions.c
    for start in range(0, len(emails), BATCH):
        batch = emails[start : start + BATCH]
        query = select(entry.email, entry.reason).where(
            entry.tenant_id == tenant_id, entry.email.in_(batch), entry.list_key.in_(EVERY_CAMPAIGN)
        )
        async with database.read() as tx:
            rows = await tx.execute(query)
            erased = await find_erased(tx, {(tenant_id, email) for email in batch})
        found |= {email: Exclusion.SUPPRESSED for _, email in erased}
        found |= {row.email: _BY_REASON.get(row.reason, Exclusion.SUPPRESSED) for row in rows}
    return found
