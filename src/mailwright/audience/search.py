"""Finding people: by a piece of their address or name, their status, a list or a tag, the latest first.

A list and a tag are walked by their own index. What no index knows is looked for among so many people at once, and
whoever wants to goes on from there.
"""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, func, literal, or_, select

from mailwright.audience.contacts import NEWEST, Contact, contact_columns, contact_from_row
from mailwright.audience.filter_sql import is_subscribed_to
from mailwright.domain import address
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.storage.database import Database
from mailwright.storage.expressions import lower_ascii, position
from mailwright.storage.statements import statement
from mailwright.storage.tables import contact_tags, contacts, subscriptions

TAGS_IN_USE = statement(__package__, "tags_in_use")

# So many are looked through at once.
SCAN_LIMIT: Final = 50_000


@dataclass(frozen=True, slots=True)
class ContactQuery:
    """Nothing set finds everyone."""

    words: str = ""
    status: str = ""
    list_key: str = ""
    tag: str = ""

    @property
    def is_anything(self) -> bool:
        return bool(self.words or self.status or self.list_key or self.tag)


@dataclass(frozen=True, slots=True)
class ContactSearchPage:
    """`next_key` is where to go on, None at the end; `is_cut`: there may be more although the page is short."""

    contacts: tuple[Contact, ...]
    next_key: int | None
    is_cut: bool = False


async def search_contacts(
    database: Database, tenant_id: int, asked: ContactQuery, *, limit: int, before: int = NEWEST
) -> ContactSearchPage:
    c = contacts.c
    source, key, conditions = _walked(tenant_id, asked)
    conditions += [c.tenant_id == tenant_id, c.deleted_at.is_(None), key < before]
    if asked.status:
        conditions.append(c.status == asked.status)
    if asked.words:
        conditions.append(_named(asked.words))
    floor = 0
    async with database.read() as tx:
        if (asked.words and not _is_address(asked.words)) or asked.status:
            if before == NEWEST:
                [row] = await tx.execute(select(func.max(c.id)).where(c.tenant_id == tenant_id))
                before = (row[0] or 0) + 1
            floor = max(0, before - 1 - SCAN_LIMIT)
            conditions.append(key > floor)
        rows = await tx.execute(
            select(*contact_columns()).select_from(source).where(*conditions).order_by(key.desc()).limit(limit)
        )
    people = tuple(contact_from_row(row) for row in rows)
    if len(people) == limit:
        return ContactSearchPage(people, people[-1].id)
    return ContactSearchPage(people, floor + 1, is_cut=True) if floor else ContactSearchPage(people, None)


async def count_subscribers(database: Database, tenant_id: int, list_key: str) -> int:
    """Who is on a list now. It takes as long as the list is: ask once the page is there."""
    async with database.read() as tx:
        rows = await tx.execute(select(func.count()).select_from(subscriptions).where(*_members(tenant_id, list_key)))
    return int(rows[0][0])


async def list_tags(database: Database, tenant_id: int, *, limit: int = 200) -> list[str]:
    """The tags in use, for whoever chooses among them."""
    async with database.read() as tx:
        rows = await tx.run(TAGS_IN_USE, tenant_id=tenant_id, limit=limit)
    return [row.tag for row in rows]


def _walked(tenant_id: int, asked: ContactQuery) -> tuple[Any, ColumnElement[int], list[ColumnElement[bool]]]:
    """The table whose index is walked, and the key that orders it, which is the same in all of them."""
    t, s = contact_tags.c, subscriptions.c
    if asked.tag:
        conditions = [t.tenant_id == tenant_id, t.tag == asked.tag]
        if asked.list_key:
            conditions.append(is_subscribed_to(asked.list_key))
        return contact_tags.join(contacts, contacts.c.id == t.contact_key), t.contact_key, conditions
    if asked.list_key and asked.list_key != GENERAL:
        conditions = _members(tenant_id, asked.list_key)
        return subscriptions.join(contacts, contacts.c.id == s.contact_key), s.contact_key, conditions
    return contacts, contacts.c.id, [is_subscribed_to(asked.list_key)] if asked.list_key else []


def _members(tenant_id: int, list_key: str) -> list[ColumnElement[bool]]:
    """As `is_on` has it, for whoever walks the memberships themselves."""
    s = subscriptions.c
    return [s.tenant_id == tenant_id, s.list_key == list_key, s.unsubscribed_at.is_(None), s.is_pending.is_(False)]


def _named(words: str) -> ColumnElement[bool]:
    if _is_address(words):
        return contacts.c.email == address.normal(words)
    wanted = lower_ascii(literal(words))
    return or_(
        position(contacts.c.email, wanted) > 0,
        func.coalesce(position(lower_ascii(contacts.c.name), wanted), 0) > 0,
    )


def _is_address(words: str) -> bool:
    try:
        address.normal(words)
    except address.InvalidAddress:
        return False
    return True
