"""Search contacts by a part of the address or name, by status, list or tag, newest first.

Searches by list or tag use an index. Other searches scan a limited number of contacts per page, and the next page
continues the scan.
"""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, func, literal, or_, select

from mailwright.audience.contact_fields import is_address
from mailwright.audience.contacts import NEWEST, Contact, contact_columns, contact_from_row
from mailwright.audience.eligibility import is_subscribed_to
from mailwright.domain import address
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.storage.database import Database
from mailwright.storage.expressions import lower_ascii, position
from mailwright.storage.statements import statement
from mailwright.storage.tables import contact_tags, contacts, subscriptions

TAGS_IN_USE = statement(__package__, "tags_in_use")

# Maximum number of contacts that one page scans.
SCAN_LIMIT: Final = 50_000


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


@dataclass(frozen=True, slots=True)
class ContactSearchPage:
    """A page of contacts. `next_key` starts the next page; it is None on the last page.

    `is_cut` is true if the scan limit ended the page early.
    """

    contacts: tuple[Contact, ...]
    next_key: int | None
    is_cut: bool = False


async def search_contacts(
    database: Database, tenant_id: int, query: ContactQuery, *, limit: int, before: int = NEWEST
) -> ContactSearchPage:
    c = contacts.c
    source, key, conditions = _scan_source(tenant_id, query)
    conditions += [c.tenant_id == tenant_id, c.deleted_at.is_(None), key < before]
    if query.status:
        conditions.append(c.status == query.status)
    if query.text:
        conditions.append(_matches_text(query.text))
    floor = 0
    async with database.read() as tx:
        if (query.text and not is_address(query.text)) or query.status:
            if before == NEWEST:
                [row] = await tx.execute(select(func.max(c.id)).where(c.tenant_id == tenant_id))
                before = (row[0] or 0) + 1
            floor = max(0, before - 1 - SCAN_LIMIT)
            conditions.append(key > floor)
        rows = await tx.execute(
            select(*contact_columns()).select_from(source).where(*conditions).order_by(key.desc()).limit(limit)
        )
    page = tuple(contact_from_row(row) for row in rows)
    if len(page) == limit:
        return ContactSearchPage(page, page[-1].id)
    return ContactSearchPage(page, floor + 1, is_cut=True) if floor else ContactSearchPage(page, None)


async def count_subscribers(database: Database, tenant_id: int, list_key: str) -> int:
    """Count the subscribers of a list. The time grows with the size of the list."""
    async with database.read() as tx:
        rows = await tx.execute(
            select(func.count()).select_from(subscriptions).where(*_is_subscriber(tenant_id, list_key))
        )
    return int(rows[0][0])


async def list_tags(database: Database, tenant_id: int, *, limit: int = 200) -> list[str]:
    """List the tags in use."""
    async with database.read() as tx:
        rows = await tx.run(TAGS_IN_USE, tenant_id=tenant_id, limit=limit)
    return [row.tag for row in rows]


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
