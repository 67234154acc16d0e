"""Search contacts by a part of the address or name, by status, list or tag, in several orders.

Searches by list or tag use an index. Other searches scan a limited number of contacts per page, and the next page
continues the scan.
"""

from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, exists, func, literal, or_, select

from mailwright.audience.contact_fields import is_address
from mailwright.audience.contacts import Contact, contact_columns, contact_from_row
from mailwright.audience.eligibility import is_subscribed_to
from mailwright.domain import address
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.storage.database import Readable, Transaction
from mailwright.storage.expressions import lower_ascii, position
from mailwright.storage.statements import statement
from mailwright.storage.tables import contact_tags, contacts, subscriptions

TAGS_IN_USE = statement(__package__, "tags_in_use")

# Maximum number of contacts that one page scans.
SCAN_LIMIT: Final = 50_000
# Sorts after every other character, so that it ends a range of texts with a common beginning.
LAST_CHARACTER: Final = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class ContactQuery:
    """An empty query matches every contact."""

    text: str = ""
    status: str = ""
    list_key: str = ""
    tag: str = ""

    @property
    def is_anything(self) -> bool:
        return bool(self.text or self.status or self.list_key or self.tag)


class ContactOrder(StrEnum):
    """The orders of contacts, as they are written in addresses of pages."""

    NEWEST = "-added"
    OLDEST = "added"
    EMAIL = "email"
    EMAIL_DESCENDING = "-email"


@dataclass(frozen=True, slots=True)
class ContactSearchPage:
    """A page of contacts. `next_key` starts the next page; it is None on the last page.

    `is_cut` is true if the scan limit ended the page early.
    """

    contacts: tuple[Contact, ...]
    next_key: int | None
    is_cut: bool = False


async def search_contacts(
    database: Readable,
    tenant_id: int,
    query: ContactQuery,
    *,
    limit: int,
    after: int | None = None,
    order: ContactOrder = ContactOrder.NEWEST,
    scan_limit: int | None = None,
) -> ContactSearchPage:
    """Return the page after the contact with the key `after`, in this order."""
    async with database.read() as tx:
        scan = await _scan(tx, tenant_id, query, order, after=after, scan_limit=scan_limit or SCAN_LIMIT)
        c = contacts.c
        conditions = [*scan.conditions, c.tenant_id == tenant_id, c.deleted_at.is_(None)]
        if query.status:
            conditions.append(c.status == query.status)
        if query.text:
            conditions.append(_matches_text(query.text))
        wanted = select(*contact_columns()).select_from(scan.source).where(*conditions)
        rows = await tx.execute(wanted.order_by(scan.sorted_by).limit(limit))
    page = tuple(contact_from_row(row) for row in rows)
    if len(page) == limit:
        return ContactSearchPage(page, page[-1].id)
    return ContactSearchPage(page, scan.last_key, is_cut=scan.last_key is not None)


async def find_by_prefix(database: Readable, tenant_id: int, prefix: str, *, limit: int) -> list[Contact]:
    """Return the contacts whose address begins with the text, by the index of addresses."""
    c, lowest = contacts.c, prefix.lower()
    conditions = (
        c.tenant_id == tenant_id,
        c.email >= lowest,
        c.email < lowest + LAST_CHARACTER,
        c.deleted_at.is_(None),
    )
    async with database.read() as tx:
        rows = await tx.execute(select(*contact_columns()).where(*conditions).order_by(c.email).limit(limit))
    return [contact_from_row(row) for row in rows]


async def count_contacts(database: Readable, tenant_id: int, *, most: int) -> int:
    """Count the contacts, but not beyond `most`, so that it takes equally long for every tenant."""
    c = contacts.c
    some = select(c.id).where(c.tenant_id == tenant_id, c.deleted_at.is_(None)).limit(most).subquery()
    async with database.read() as tx:
        [row] = await tx.execute(select(func.count()).select_from(some))
    return int(row[0])


async def count_subscribers(database: Readable, tenant_id: int, list_key: str) -> int:
    """Count the subscribers of a list. The time grows with the size of the list."""
    async with database.read() as tx:
        rows = await tx.execute(
            select(func.count()).select_from(subscriptions).where(*_is_subscriber(tenant_id, list_key))
        )
    return int(rows[0][0])


async def list_tags(database: Readable, tenant_id: int, *, limit: int = 200) -> list[str]:
    """List the tags in use."""
    async with database.read() as tx:
        rows = await tx.run(TAGS_IN_USE, tenant_id=tenant_id, limit=limit)
    return [row.tag for row in rows]


@dataclass(frozen=True, slots=True)
class _Scan:
    """The part of an index that one page reads. `last_key` is the contact where a limited part ends."""

    source: Any
    conditions: list[ColumnElement[bool]]
    sorted_by: Any
    last_key: int | None


async def _newest_key(tx: Transaction, tenant_id: int) -> int:
    """Return the highest key of the tenant's contacts that are not deleted, from their index."""
    mine = (contacts.c.tenant_id == tenant_id, contacts.c.deleted_at.is_(None))
    [row] = await tx.execute(select(func.max(contacts.c.id)).where(*mine))
    return int(row[0] or 0)


async def _scan(
    tx: Transaction, tenant_id: int, query: ContactQuery, order: ContactOrder, *, after: int | None, scan_limit: int
) -> _Scan:
    if order in (ContactOrder.EMAIL, ContactOrder.EMAIL_DESCENDING):
        return await _scan_addresses(tx, tenant_id, query, order, after=after, scan_limit=scan_limit)
    source, key, conditions = _scan_source(tenant_id, query)
    is_bounded = bool((query.text and not is_address(query.text)) or query.status)
    newest = await _newest_key(tx, tenant_id)
    if order is ContactOrder.OLDEST:
        last = (after or 0) + scan_limit
        end = [key <= last] if is_bounded and last < newest else []
        return _Scan(source, [*conditions, key > (after or 0), *end], key.asc(), last if end else None)
    start = [key < after] if after is not None else []
    floor = max(0, (after or newest + 1) - 1 - scan_limit) if is_bounded else 0
    return _Scan(source, [*conditions, *start, key > floor], key.desc(), floor + 1 if floor else None)


async def _scan_addresses(
    tx: Transaction, tenant_id: int, query: ContactQuery, order: ContactOrder, *, after: int | None, scan_limit: int
) -> _Scan:
    """Scan the index of addresses. Lists and tags are conditions, because their indexes have no addresses."""
    c, is_descending = contacts.c, order is ContactOrder.EMAIL_DESCENDING
    sorted_by = c.email.desc() if is_descending else c.email.asc()
    start = []
    if after is not None:
        at = select(c.email).where(c.tenant_id == tenant_id, c.id == after).scalar_subquery()
        start = [c.email < at if is_descending else c.email > at]
    within = select(c.id, c.email).where(c.tenant_id == tenant_id, *start).order_by(sorted_by)
    last = await tx.execute(within.offset(scan_limit - 1).limit(1)) if query.is_anything else []
    end = [c.email >= row.email if is_descending else c.email <= row.email for row in last]
    narrowing = [is_subscribed_to(query.list_key)] if query.list_key else []
    if query.tag:
        t = contact_tags.c
        narrowing.append(exists().where(t.tenant_id == tenant_id, t.contact_key == c.id, t.tag == query.tag))
    return _Scan(contacts, [*start, *end, *narrowing], sorted_by, last[0].id if last else None)


def _scan_source(tenant_id: int, query: ContactQuery) -> tuple[Any, ColumnElement[int], list[ColumnElement[bool]]]:
    """Return the table whose index is scanned, the sort key, and the conditions."""
    t, s = contact_tags.c, subscriptions.c
    if query.tag:
        conditions = [t.tenant_id == tenant_id, t.tag == query.tag]
        if query.list_key:
            conditions.append(is_subscribed_to(query.list_key))
        return contact_tags.join(contacts, contacts.c.id == t.contact_key), t.contact_key, conditions
    if query.list_key and query.list_key != GENERAL:
        conditions = _is_subscriber(tenant_id, query.list_key)
        return subscriptions.join(contacts, contacts.c.id == s.contact_key), s.contact_key, conditions
    return contacts, contacts.c.id, [is_subscribed_to(query.list_key)] if query.list_key else []


def _is_subscriber(tenant_id: int, list_key: str) -> list[ColumnElement[bool]]:
    """Return the conditions for a scan of the subscriptions, with the same rule as `is_subscribed_to`."""
    s = subscriptions.c
    return [s.tenant_id == tenant_id, s.list_key == list_key, s.unsubscribed_at.is_(None), s.is_pending.is_(False)]


def _matches_text(text: str) -> ColumnElement[bool]:
    if is_address(text):
        return contacts.c.email == address.normal(text)
    lowered = lower_ascii(literal(text))
    return or_(
        position(contacts.c.email, lowered) > 0,
        func.coalesce(position(lower_ascii(contacts.c.name), lowered), 0) > 0,
    )
