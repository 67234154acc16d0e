"""List the contacts in an audience who may not receive bulk email, with the reason for each."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, func, select

from mailwright.audience.eligibility import EVERY_CAMPAIGN, Exclusion, exclusion, is_excluded, is_outside
from mailwright.audience.filter_sql import filter_clause
from mailwright.audience.suppressions import Suppression, find_for
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts

PAGE: Final = 2_000


@dataclass(frozen=True, slots=True)
class NamedAudience:
    """The definition of an audience: lists, a filter, or both."""

    tenant_id: int
    lists: Sequence[str]
    filter: Mapping[str, Any] | None = None
    is_narrowed: bool = True  # False if the filter only leaves contacts of the lists out

    def excluded(self, now: Instant) -> ColumnElement[bool]:
        matches = None if self.filter is None else filter_clause(self.filter, self.tenant_id, now)
        return is_excluded(self.tenant_id, self.lists, matches, is_narrowed=self.is_narrowed)


@dataclass(frozen=True, slots=True)
class ExcludedContact:
    key: int
    email: str
    reason: Exclusion
    suppression: Suppression | None = None  # the entry that excludes the contact, if an unsubscribe or one does


async def count_excluded(tx: Transaction, named: NamedAudience, now: Instant) -> dict[Exclusion, int]:
    """Count the excluded contacts by reason, in the order of the reasons."""
    reasons = select(exclusion(named.lists).label("reason")).where(named.excluded(now)).subquery()
    rows = await tx.execute(select(reasons.c.reason, func.count().label("number")).group_by(reasons.c.reason))
    counts = {row.reason: int(row.number) for row in rows}
    return {reason: counts[reason] for reason in Exclusion if reason in counts}


async def count_not_on_lists(tx: Transaction, named: NamedAudience) -> int:
    """Count the contacts who never were on the lists of an audience without a filter, and so do not belong to it."""
    if not named.lists or (named.filter is not None and named.is_narrowed):
        return 0
    rows = await tx.execute(select(func.count()).select_from(contacts).where(is_outside(named.tenant_id, named.lists)))
    return int(rows[0][0])


async def list_excluded(
    tx: Transaction,
    named: NamedAudience,
    now: Instant,
    *,
    limit: int,
    after: int = 0,
    reason: Exclusion | None = None,
) -> list[ExcludedContact]:
    """Return a page of excluded contacts, oldest first. The next page starts after the last key of this page."""
    why = exclusion(named.lists)
    conditions = [named.excluded(now), contacts.c.id > after]
    if reason is not None:
        conditions.append(why == reason.value)
    rows = await tx.execute(
        select(contacts.c.id, contacts.c.email, why.label("reason"))
        .where(*conditions)
        .order_by(contacts.c.id)
        .limit(limit)
    )
    suppressed = [row.email for row in rows if row.reason in (Exclusion.SUPPRESSED, Exclusion.UNSUBSCRIBED)]
    of_any_list = not named.lists or GENERAL in named.lists
    scopes = None if of_any_list else [*EVERY_CAMPAIGN, *named.lists]
    entries = await find_for(tx, named.tenant_id, suppressed, scopes)
    return [ExcludedContact(row.id, row.email, Exclusion(row.reason), entries.get(row.email)) for row in rows]


async def excluded_contacts(
    database: Database, named: NamedAudience, now: Instant, *, reason: Exclusion | None = None
) -> AsyncIterator[ExcludedContact]:
    after = 0
    while True:
        async with database.read() as tx:
            page = await list_excluded(tx, named, now, limit=PAGE, after=after, reason=reason)
        for each in page:
            yield each
        if len(page) < PAGE:
            return
        after = page[-1].key
