"""Export contacts with their lists, tags and attributes as CSV or JSON lines, streamed.

Importing the unchanged CSV changes nothing. Cells are escaped so that spreadsheets do not run them as formulas.
"""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, and_, select, true

from mailwright.audience.contact_fields import as_text
from mailwright.audience.csv_cells import escape_formula
from mailwright.audience.eligibility import is_subscribed_to
from mailwright.audience.filter_sql import filter_clause
from mailwright.audience.tracking_consent import (
    CONSENT_COLUMNS,
    TrackingConsent,
    consent_cell,
    consent_json,
    consent_of_row,
)
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Readable, Transaction
from mailwright.storage.expressions import json_members
from mailwright.storage.tables import contact_tags, contacts, subscriptions

PAGE: Final = 2_000
FIELDS: Final = (
    "email",
    "name",
    "locale",
    "timezone",
    "status",
    "lists",
    "tags",
    "tracking_consent",
    "snoozed_until",
    "created_at",
)


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
    tracking_consent: TrackingConsent | None
    snoozed_until: Instant | None


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """The contacts to export: all contacts of a tenant, the subscribers of a list, or those who match a filter."""

    tenant_id: int
    list_key: str | None = None
    filter: Any = None


async def export_pages(
    database: Readable, selection: ExportSelection, now: Instant
) -> AsyncIterator[list[ExportedContact]]:
    """Yield pages ordered by address. Each page shows the database at the time it is read."""
    after = ""
    while True:
        async with database.read() as tx:
            page = await _page(tx, selection, now, after)
        if page:
            yield page
            after = page[-1].email
        if len(page) < PAGE:
            return


async def export_csv(database: Readable, selection: ExportSelection, now: Instant) -> AsyncIterator[str]:
    """Yield CSV with a column for every attribute. One query lists the attributes, so contacts are read only once.

    An attribute that appears for the first time during the export has no column.
    """
    async with database.read() as tx:
        member = json_members(contacts.c.attributes).table_valued("key")
        named = (
            select(member.c.key)
            .distinct()
            .select_from(contacts.join(member, true()))
            .where(_conditions(selection, now))
        )
        attributes = sorted(row.key for row in await tx.execute(named))
    yield _lines([[*FIELDS, *attributes]])
    async for page in export_pages(database, selection, now):
        yield _lines([_row(contact, attributes) for contact in page])


async def export_json_lines(database: Readable, selection: ExportSelection, now: Instant) -> AsyncIterator[str]:
    async for page in export_pages(database, selection, now):
        yield b"".join(orjson.dumps(as_json(contact), option=orjson.OPT_APPEND_NEWLINE) for contact in page).decode()


def as_json(contact: ExportedContact) -> dict[str, Any]:
    return {
        "email": contact.email,
        "name": contact.name,
        "locale": contact.locale,
        "timezone": contact.timezone,
        "status": contact.status,
        "lists": list(contact.lists),
        "tags": list(contact.tags),
        "trackingConsent": consent_json(contact.tracking_consent),
        "snoozedUntil": isoformat(contact.snoozed_until),
        "createdAt": isoformat(contact.created_at),
        "attributes": contact.attributes,
    }


async def _page(tx: Transaction, selection: ExportSelection, now: Instant, after: str) -> list[ExportedContact]:
    own = ("id", "email", "name", "locale", "timezone", "status", "snoozed_until", "created_at", "attributes")
    names = (*own, *CONSENT_COLUMNS)
    query = select(*(contacts.c[name] for name in names)).where(_conditions(selection, now), contacts.c.email > after)
    rows = await tx.execute(query.order_by(contacts.c.email).limit(PAGE))
    keys = [row.id for row in rows]
    lists = await _group_values(tx, keys, subscriptions.c.contact_key, subscriptions.c.list_key, _is_member())
    tags = await _group_values(tx, keys, contact_tags.c.contact_key, contact_tags.c.tag)
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
            consent_of_row(row),
            row.snoozed_until,
        )
        for row in rows
    ]


def _conditions(selection: ExportSelection, now: Instant) -> ColumnElement[bool]:
    conditions = [contacts.c.tenant_id == selection.tenant_id, contacts.c.deleted_at.is_(None)]
    if selection.list_key is not None:
        conditions.append(is_subscribed_to(selection.list_key))
    if selection.filter is not None:
        conditions.append(filter_clause(selection.filter, selection.tenant_id, now))
    return and_(*conditions)


def _is_member() -> ColumnElement[bool]:
    return and_(subscriptions.c.unsubscribed_at.is_(None), subscriptions.c.is_pending.is_(False))


async def _group_values(
    tx: Transaction, keys: Sequence[int], key: ColumnElement[int], value: ColumnElement[str], *more: ColumnElement[bool]
) -> dict[int, tuple[str, ...]]:
    grouped: dict[int, tuple[str, ...]] = {}
    if keys:
        rows: Any = await tx.execute(select(key, value).where(key.in_(keys), *more).order_by(key, value))
        for contact_key, text in rows:
            grouped[contact_key] = (*grouped.get(contact_key, ()), text)
    return grouped


def _row(contact: ExportedContact, attributes: Sequence[str]) -> list[str]:
    fields = (
        contact.email,
        contact.name or "",
        contact.locale or "",
        contact.timezone or "",
        contact.status,
        ", ".join(contact.lists),
        ", ".join(contact.tags),
        consent_cell(contact.tracking_consent),
        isoformat(contact.snoozed_until) or "",
        isoformat(contact.created_at) or "",
        *("" if (value := contact.attributes.get(name)) is None else as_text(value) for name in attributes),
    )
    return [escape_formula(field) for field in fields]


def _lines(rows: Sequence[Sequence[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerows(rows)
    return buffer.getvalue()
