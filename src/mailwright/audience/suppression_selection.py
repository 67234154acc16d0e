"""Suppressions by reason and scope, as the APIs of other services list, find and remove them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, delete, select, update

from mailwright.audience import lists
from mailwright.audience import suppressions as suppressions_of
from mailwright.audience.pending_requests import end_pending
from mailwright.audience.status import BOUNCE_REASONS, ENDS_REQUESTS, SuppressionReason, lock_known_contacts
from mailwright.audience.suppressions import ALL_MESSAGES, Suppression
from mailwright.domain.address import normal
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox import audit_log
from mailwright.outbox.pending_erasures import refuse_erasing
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import suppressions

# The source of entries that erasures add, which are in no list of a service.
_ERASURE: Final = "erasure"
# The scopes that are not those of one list.
WIDE_SCOPES: Final = (ALL_MESSAGES, lists.GENERAL)


@dataclass(frozen=True, slots=True)
class SuppressionSelection:
    """Suppressions of a tenant with one of these reasons, or with all except these, and with one of these scopes."""

    reasons: tuple[str, ...]
    scopes: tuple[str, ...] = WIDE_SCOPES
    is_exclusion: bool = False

    def condition(self, tenant_id: int) -> ColumnElement[bool]:
        s = suppressions.c
        reason = s.reason.not_in(self.reasons) if self.is_exclusion else s.reason.in_(self.reasons)
        return and_(s.tenant_id == tenant_id, s.source != _ERASURE, s.list_key.in_(self.scopes), reason)


BOUNCES: Final = SuppressionSelection(BOUNCE_REASONS)
COMPLAINTS: Final = SuppressionSelection((SuppressionReason.COMPLAINT,))
# Everything that a person decided: own unsubscribes, and entries that a user or a program added.
UNSUBSCRIBES: Final = SuppressionSelection((*BOUNCE_REASONS, SuppressionReason.COMPLAINT), is_exclusion=True)

# The entries for all email beside which a complaint or an unsubscribe is added.
_OTHER_DECISIONS: Final[Mapping[str, SuppressionSelection]] = {
    SuppressionReason.COMPLAINT: SuppressionSelection(UNSUBSCRIBES.reasons, (ALL_MESSAGES,), is_exclusion=True),
    SuppressionReason.UNSUBSCRIBED: SuppressionSelection(COMPLAINTS.reasons, (ALL_MESSAGES,)),
}


@dataclass(frozen=True, slots=True)
class SuppressionPage:
    """Which part of a selection to return: newest first, from before an entry or after a number of entries."""

    limit: int
    before: int | None = None
    offset: int = 0
    since: Instant | None = None
    until: Instant | None = None


async def list_selected(
    database: Database, tenant_id: int, selection: SuppressionSelection, page: SuppressionPage
) -> list[Suppression]:
    s = suppressions.c
    query = select(*_COLUMNS).where(selection.condition(tenant_id))
    if page.before is not None:
        query = query.where(s.id < page.before)
    if page.since is not None:
        query = query.where(s.created_at >= page.since)
    if page.until is not None:
        query = query.where(s.created_at <= page.until)
    async with database.read() as tx:
        rows = await tx.execute(query.order_by(s.id.desc()).limit(page.limit).offset(page.offset))
    return [Suppression(**row._mapping) for row in rows]


async def find_selected(
    database: Database, tenant_id: int, selection: SuppressionSelection, email: str
) -> Suppression | None:
    """Return the entry of an address, or None. Raise `InvalidAddress` if it is no address."""
    mine = and_(selection.condition(tenant_id), suppressions.c.email == normal(email))
    async with database.read() as tx:
        rows = await tx.execute(select(*_COLUMNS).where(mine).order_by(suppressions.c.list_key).limit(1))
    return Suppression(**rows[0]._mapping) if rows else None


async def add_each(
    database: Database,
    clock: Clock,
    tenant_id: int,
    emails: Sequence[str],
    *,
    reason: str,
    actor: str,
    scope: str = ALL_MESSAGES,
) -> None:
    """Suppress all these addresses in one commit. A decision of a person also ends requests to subscribe.

    An existing entry keeps its reason, unless it is a bounce and the new one is not.
    """
    now, addresses = clock.now(), sorted({normal(each) for each in emails})
    async with database.write() as tx:
        if scope not in WIDE_SCOPES:
            await lists.require(tx, tenant_id, scope)
        await lock_known_contacts(tx, [(tenant_id, email) for email in addresses])
        added = await suppressions_of.add_all(
            tx, tenant_id, addresses, reason=reason, source=actor, now=now, list_key=scope
        )
        for email in sorted(added):
            await _audit(tx, now, tenant_id, email, scope, actor=actor, action="suppression.add")
        if reason in ENDS_REQUESTS:
            fact = {"tenant_id": tenant_id, "list_key": scope, "at": now, "source": actor}
            await end_pending(tx, [{**fact, "email": email} for email in addresses], now)
        if scope == ALL_MESSAGES and reason in _OTHER_DECISIONS:
            await _add_beside(tx, now, tenant_id, addresses, reason=reason, actor=actor)


async def remove_selected(
    database: Database,
    clock: Clock,
    tenant_id: int,
    selection: SuppressionSelection,
    emails: Sequence[str],
    *,
    actor: str,
) -> set[str]:
    """Remove the entries of these addresses in one commit, and return the normalized addresses that had one."""
    addresses = sorted({normal(each) for each in emails})
    s = suppressions.c
    mine = and_(selection.condition(tenant_id), s.email.in_(addresses))
    async with database.write() as tx:
        removed = await tx.execute(delete(suppressions).where(mine).returning(s.email, s.list_key))
        # Checked after the deletion: an erasure that begins later adds its suppressions again.
        await refuse_erasing(tx, tenant_id, addresses)
        await _widen_complaints(tx, tenant_id, [row.email for row in removed if row.list_key == ALL_MESSAGES])
        for row in removed:
            await _audit(tx, clock.now(), tenant_id, row.email, row.list_key, actor=actor, action="suppression.lift")
    return {row.email for row in removed}


async def _add_beside(
    tx: Transaction, now: Instant, tenant_id: int, addresses: Sequence[str], *, reason: str, actor: str
) -> None:
    """Add a complaint beside an unsubscribe, or the reverse, so that removing one keeps the other.

    An address has one entry per scope, so the second one gets the scope of bulk email.
    """
    s = suppressions.c
    others = and_(_OTHER_DECISIONS[reason].condition(tenant_id), s.email.in_(addresses))
    emails = [row.email for row in await tx.execute(select(s.email).where(others))]
    added = await suppressions_of.add_all(
        tx, tenant_id, emails, reason=reason, source=actor, now=now, list_key=lists.GENERAL
    )
    for email in sorted(added):
        await _audit(tx, now, tenant_id, email, lists.GENERAL, actor=actor, action="suppression.add")


async def _widen_complaints(tx: Transaction, tenant_id: int, addresses: Sequence[str]) -> None:
    """Let complaints stop all email again, after the entry beside which they were added was removed."""
    s = suppressions.c
    narrow = (s.reason == SuppressionReason.COMPLAINT, s.list_key == lists.GENERAL)
    mine = and_(s.tenant_id == tenant_id, s.email.in_(addresses), *narrow)
    await tx.execute(update(suppressions).where(mine).values(list_key=ALL_MESSAGES))


async def _audit(
    tx: Transaction, now: Instant, tenant_id: int, email: str, scope: str, *, actor: str, action: str
) -> None:
    detail = {"listKey": scope}
    await audit_log.record(tx, now, actor=actor, action=action, subject=email, tenant_id=tenant_id, detail=detail)


_COLUMNS: Final[Sequence[Any]] = [suppressions.c[name] for name in Suppression.__slots__]
