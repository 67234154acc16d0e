"""Exports: a tenant's people with their lists, tags and attributes, as CSV or JSON lines, streamed.

The CSV can be imported again and changes nothing then. No cell of it is a formula to a spreadsheet.
"""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, and_, select, true

from mailwright.audience.contact_fields import as_text
from mailwright.audience.csv_cells import escape_formula
from mailwright.audience.filter_sql import filter_clause, is_subscribed_to
from mailwright.domain.clock import Instant, isoformat
from mailwright.storage.database import Database, Transaction
from mailwright.storage.expressions import json_members
from mailwright.storage.tables import contact_tags, contacts, subscriptions

PAGE: Final = 2_000
FIELDS: Final = ("email", "name", "locale", "timezone", "status", "lists", "tags", "created_at")


@dataclass(frozen=True, slots=True)
class ExportedContact:
    email: str
    name: str | None
    locale: str | None
    timezone: str | None
    status: str
    lists: tuple[str, ...]
    tags: tuple[str, ...]
    created_at: Instant
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Everyone of the tenant, or those on a list, or those who answer to a filter."""

    tenant_id: int
    list_key: str | None = None
    filter: Any = None


async def export_pages(
    database: Database, wanted: ExportSelection, now: Instant
) -> AsyncIterator[list[ExportedContact]]:
    """Page by page, in the order of addresses; each page is as the database is when it is read."""
    after = ""
    while True:
        async with database.read() as tx:
            page = await _page(tx, wanted, now, after)
        if page:
            yield page
            after = page[-1].email
        if len(page) < PAGE:
            return


async def as_csv(database: Database, wanted: ExportSelection, now: Instant) -> AsyncIterator[str]:
    """A column for every attribute that anyone has. The database itself names them: the people are read once.

    What somebody gets for the first time while the file is written has no column in it.
    """
    async with database.read() as tx:
        member = json_members(contacts.c.attributes).table_valued("key")
        named = select(member.c.key).distinct().select_from(contacts.join(member, true())).where(_asked(wanted, now))
        attributes = sorted(row.key for row in await tx.execute(named))
    yield _lines([[*FIELDS, *attributes]])
    async for page in export_pages(database, wanted, now):
        yield _lines([_row(person, attributes) for person in page])


async def as_json_lines(database: Database, wanted: ExportSelection, now: Instant) -> AsyncIterator[str]:
    async for page in export_pages(database, wanted, now):
        yield b"".join(orjson.dumps(as_json(person), option=orjson.OPT_APPEND_NEWLINE) for person in page).decode()


def as_json(person: ExportedContact) -> dict[str, Any]:
    return {
        "email": person.email,
        "name": person.name,
        "locale": person.locale,
        "timezone": person.timezone,
        "status": person.status,
        "lists": list(person.lists),
        "tags": list(person.tags),
        "createdAt": isoformat(person.created_at),
        "attributes": person.attributes,
    }


async def _page(tx: Transaction, wanted: ExportSelection, now: Instant, after: str) -> list[ExportedContact]:
    names = ("id", "email", "name", "locale", "timezone", "status", "created_at", "attributes")
    query = select(*(contacts.c[name] for name in names)).where(_asked(wanted, now), contacts.c.email > after)
    rows = await tx.execute(query.order_by(contacts.c.email).limit(PAGE))
    keys = [row.id for row in rows]
    lists = await _gathered(tx, keys, subscriptions.c.contact_key, subscriptions.c.list_key, _is_member())
    tags = await _gathered(tx, keys, contact_tags.c.contact_key, contact_tags.c.tag)
    return [
        ExportedContact(
            row.email,
            row.name,
            row.locale,
            row.timezone,
            row.status,
            lists.get(row.id, ()),
            tags.get(row.id, ()),
            row.created_at,
            orjson.loads(row.attributes),
        )
        for row in rows
    ]


def _asked(wanted: ExportSelection, now: Instant) -> ColumnElement[bool]:
    conditions = [contacts.c.tenant_id == wanted.tenant_id, contacts.c.deleted_at.is_(None)]
    if wanted.list_key is not None:
        conditions.append(is_subscribed_to(wanted.list_key))
    if wanted.filter is not None:
        conditions.append(filter_clause(wanted.filter, wanted.tenant_id, now))
    return and_(*conditions)


def _is_member() -> ColumnElement[bool]:
    return and_(subscriptions.c.unsubscribed_at.is_(None), subscriptions.c.is_pending.is_(False))


async def _gathered(
    tx: Transaction, keys: Sequence[int], key: ColumnElement[int], value: ColumnElement[str], *more: ColumnElement[bool]
) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    if keys:
        rows: Any = await tx.execute(select(key, value).where(key.in_(keys), *more).order_by(key, value))
        for contact, text in rows:
            found[contact] = (*found.get(contact, ()), text)
    return found


def _row(person: ExportedContact, attributes: Sequence[str]) -> list[str]:
    fields = (
        person.email,
        person.name or "",
        person.locale or "",
        person.timezone or "",
        person.status,
        ", ".join(person.lists),
        ", ".join(person.tags),
        isoformat(person.created_at) or "",
        *("" if (value := person.attributes.get(name)) is None else as_text(value) for name in attributes),
    )
    return [escape_formula(field) for field in fields]


def _lines(rows: Sequence[Sequence[str]]) -> str:
    made = io.StringIO()
    csv.writer(made, lineterminator="\r\n").writerows(rows)
    return made.getvalue()
