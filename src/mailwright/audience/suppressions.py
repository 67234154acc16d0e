"""Suppressions: addresses that a tenant does not send to. Addresses are compared in normalized form.

Each suppression has a scope: all messages, bulk email, or the email of one list. Workers check this table when they
claim messages and when they begin attempts.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Select, delete, select

from mailwright.audience import lists
from mailwright.audience.contact_fields import normalize_email
from mailwright.audience.enrolments import SuppressedAddress, end_suppressed
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox import audit_log
from mailwright.outbox.pending_erasures import refuse_erasing
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import suppressions

ADD_SUPPRESSIONS = statement(__package__, "add_suppressions")
SUPPRESSED_AMONG = statement(__package__, "suppressed_among")

NEWEST = 2**63 - 1
_BATCH: Final = 1_000

# The scope of an address that receives no messages at all.
ALL_MESSAGES: Final = "*"


@dataclass(frozen=True, slots=True)
class Suppression:
    id: int
    email: str
    reason: str
    source: str
    created_at: Instant
    list_key: str = ALL_MESSAGES  # the scope; `general` stops bulk email, and a list key the messages of that list


async def add(
    database: Database,
    clock: Clock,
    tenant_id: int,
    email: str,
    *,
    reason: str,
    source: str,
    list_key: str = ALL_MESSAGES,
    actor: str | None = None,
) -> tuple[Suppression, bool]:
    """Suppress an address. Return the entry and whether it is new.

    An existing entry keeps its reason, unless it is a bounce. An `actor` is recorded in the audit log.
    """
    address_ = normalize_email(email)
    async with database.write() as tx:
        if list_key != ALL_MESSAGES:
            await lists.require(tx, tenant_id, list_key)
        is_new = await add_all(
            tx, tenant_id, [address_], reason=reason, source=source, now=clock.now(), list_key=list_key
        )
        entry = (suppressions.c.email == address_, suppressions.c.list_key == list_key)
        rows = await tx.execute(_entries(tenant_id).where(*entry))
        if is_new and actor is not None:
            await _record_audit_entry(
                tx, clock.now(), tenant_id, address_, actor=actor, action="suppression.add", list_key=list_key
            )
    return Suppression(**rows[0]._mapping), bool(is_new)


async def add_all(
    tx: Transaction,
    tenant_id: int,
    emails: Iterable[str],
    *,
    reason: str,
    source: str,
    now: Instant,
    list_key: str = ALL_MESSAGES,
) -> set[str]:
    """Add normalized addresses inside the caller's transaction. Return those with a new entry or reason."""
    rows = [{"email": email} for email in sorted(set(emails))]
    added = await tx.run(
        ADD_SUPPRESSIONS,
        tenant_id=tenant_id,
        emails=rows,
        list_key=list_key,
        reason=reason,
        source=source,
        now=now,
    )
    addresses = [SuppressedAddress(tenant_id, row.email, list_key, "suppressed") for row in added]
    await end_suppressed(tx, addresses, now)
    return {row.email for row in added}


async def find_for(
    tx: Transaction, tenant_id: int, emails: Sequence[str], scopes: Sequence[str] | None
) -> dict[str, Suppression]:
    """Return, for each address, its entry with the widest scope among these scopes. None stands for all scopes."""
    found: dict[str, Suppression] = {}
    for start in range(0, len(emails), _BATCH):
        query = _entries(tenant_id).where(suppressions.c.email.in_(emails[start : start + _BATCH]))
        if scopes is not None:
            query = query.where(suppressions.c.list_key.in_(sorted(set(scopes))))
        for row in await tx.execute(query):
            entry = Suppression(**row._mapping)
            found[entry.email] = min(found.get(entry.email, entry), entry, key=_breadth)
    return found


def scope_text(list_key: str) -> str:
    if list_key == ALL_MESSAGES:
        return lazy_gettext("all email")
    return lazy_gettext("bulk email") if list_key == lists.GENERAL else lazy_gettext("list {key}", key=list_key)


async def remove(
    database: Database,
    tenant_id: int,
    email: str,
    *,
    list_key: str | None = None,
    actor: str | None = None,
    clock: Clock | None = None,
) -> None:
    """Remove all entries of an address, or only the entry with one scope. An `actor` is recorded in the audit log."""
    address_ = normalize_email(email)
    condition = [suppressions.c.tenant_id == tenant_id, suppressions.c.email == address_]
    if list_key is not None:
        condition.append(suppressions.c.list_key == list_key)
    async with database.write() as tx:
        removed = await tx.execute(delete(suppressions).where(*condition).returning(suppressions.c.id))
        # Checked after the deletion: an erasure that begins later adds its suppressions again.
        await refuse_erasing(tx, tenant_id, [address_])
        if removed and actor is not None and clock is not None:
            await _record_audit_entry(
                tx,
                clock.now(),
                tenant_id,
                address_,
                actor=actor,
                action="suppression.lift",
                list_key=list_key or ALL_MESSAGES,
            )
    if not removed:
        raise NotFound("This address is not on the suppression list.")


async def list_page(database: Database, tenant_id: int, *, limit: int, before: int = NEWEST) -> list[Suppression]:
    """Return a page of suppressions, newest first. For the next page, pass the last ID of this one as `before`."""
    page = _entries(tenant_id).where(suppressions.c.id < before).order_by(suppressions.c.id.desc()).limit(limit)
    async with database.read() as tx:
        rows = await tx.execute(page)
    return [Suppression(**row._mapping) for row in rows]


async def list_for_address(tx: Transaction, tenant_id: int, email: str) -> list[Suppression]:
    """Return the entries of a normalized address, the widest scope first."""
    rows = await tx.execute(_entries(tenant_id).where(suppressions.c.email == email))
    entries = [Suppression(**row._mapping) for row in rows]
    return sorted(entries, key=_breadth)


def _breadth(entry: Suppression) -> tuple[bool, bool, str]:
    """Return the sort key of an entry: all email first, then bulk email, then lists."""
    return entry.list_key != ALL_MESSAGES, entry.list_key != lists.GENERAL, entry.list_key


async def is_suppressed(database: Database, tenant_id: int, email: str, list_key: str | None = None) -> bool:
    async with database.read() as tx:
        return bool(await suppressed_among(tx, tenant_id, [normalize_email(email)], list_key))


async def suppressed_among(tx: Runner, tenant_id: int, emails: Iterable[str], list_key: str | None = None) -> set[str]:
    """Return the addresses that must not receive email of this list, or transactional email if `list_key` is None.

    The addresses are normalized.
    """
    rows = [{"email": email} for email in emails]
    if not rows:
        return set()
    suppressed = await tx.run(SUPPRESSED_AMONG, tenant_id=tenant_id, emails=rows, list_key=list_key)
    return {row.email for row in suppressed}


async def _record_audit_entry(
    tx: Transaction, now: Instant, tenant_id: int, email: str, *, actor: str, action: str, list_key: str
) -> None:
    detail = {"listKey": list_key}
    await audit_log.record(tx, now, actor=actor, action=action, subject=email, tenant_id=tenant_id, detail=detail)


def _entries(tenant_id: int) -> Select[Any]:
    columns = [suppressions.c[name] for name in Suppression.__slots__]
    return select(*columns).where(suppressions.c.tenant_id == tenant_id)
