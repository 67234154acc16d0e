"""Segments: saved filters, evaluated at each use."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Row, Select, and_, case, delete, func, insert, select, true, update
from sqlalchemy.exc import IntegrityError

from mailwright.audience import filters
from mailwright.audience.contacts import Contact, contact_columns, contact_from_row
from mailwright.audience.eligibility import can_receive, is_active_subscription, may_receive
from mailwright.audience.filter_references import find_missing, require_references
from mailwright.audience.filter_sql import filter_clause
from mailwright.audience.lists import KEY_PATTERN
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.printable import is_printable
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.expressions import json_text
from mailwright.storage.tables import contacts, segments, subscriptions

__all__ = [
    "Segment",
    "SegmentExists",
    "audience",
    "audience_query",
    "change",
    "change_in",
    "count_members",
    "create",
    "delete_segment",
    "find",
    "lacks_attribute",
    "list_all",
    "list_members",
    "load_filters",
    "load_memberships",
    "membership",
]

MAX_NAME_LENGTH: Final = 200

_KEY: Final = re.compile(KEY_PATTERN)
# Reserved keys: URL paths of the API and the dashboard use these words at the position of a segment key.
RESERVED_KEYS: Final = frozenset({"count", "new", "builder", "summary"})


class SegmentExists(NotPossibleNow):
    """A segment with this key already exists."""

    code = "SEGMENT_EXISTS"


@dataclass(frozen=True, slots=True)
class Segment:
    segment_key: str
    name: str
    filter: dict[str, Any]
    created_at: Instant
    updated_at: Instant


def audience(
    tenant_id: int, lists: Sequence[str], filter_: Mapping[str, Any] | None, now: Instant
) -> ColumnElement[bool]:
    """Match the contacts who may now receive bulk email to these lists and who match the filter."""
    return and_(may_receive(tenant_id, lists), _matches(filter_, tenant_id, now))


def audience_query(
    tenant_id: int, lists: Sequence[str], filter_: Mapping[str, Any] | None, now: Instant
) -> Select[Any]:
    """Return a query for aggregates over the same contacts. For a single list, it reads only its subscriptions."""
    if len(lists) != 1 or lists[0] == GENERAL:
        return select().select_from(contacts).where(audience(tenant_id, lists, filter_, now))
    joined = subscriptions.alias()  # The filter may refer to another list.
    on_it = contacts.join(joined, and_(joined.c.tenant_id == tenant_id, is_active_subscription(joined, lists[0])))
    return select().select_from(on_it).where(can_receive(tenant_id, lists), _matches(filter_, tenant_id, now))


def lacks_attribute(attribute: str) -> ColumnElement[bool]:
    """Match contacts whose attribute is missing or null."""
    return json_text(contacts.c.attributes, attribute).is_(None)


async def create(
    database: Database,
    clock: Clock,
    tenant_id: int,
    segment_key: str,
    *,
    filter_: Any,
    name: str | None = None,
    actor: str | None = None,
) -> Segment:
    """Create a segment. An `actor` is recorded in the audit log."""
    if not _KEY.fullmatch(segment_key):
        raise InvalidInput(
            "A segment key has 1 to 63 characters: a-z, 0-9, - and _, for example big-spenders.", field="segmentKey"
        )
    if segment_key in RESERVED_KEYS:
        raise InvalidInput(
            "The key {segment_key} is reserved. Choose another one.", field="segmentKey", segment_key=segment_key
        )
    filters.parse(filter_)
    now = clock.now()
    segment = Segment(segment_key, _name(name or segment_key), filter_, now, now)
    try:
        async with database.write() as tx:
            await require_references(tx, tenant_id, filter_)
            await tx.execute(
                insert(segments).values(
                    tenant_id=tenant_id,
                    segment_key=segment_key,
                    name=segment.name,
                    filter=orjson.dumps(filter_).decode(),
                    created_at=now,
                    updated_at=now,
                )
            )
            await _record_audit_entry(tx, now, tenant_id, segment_key, actor=actor, action="segment.create")
    except IntegrityError as error:
        raise SegmentExists(
            "The segment {segment_key} already exists.", field="segmentKey", segment_key=segment_key
        ) from error
    return segment


async def change(
    database: Database,
    clock: Clock,
    tenant_id: int,
    segment_key: str,
    *,
    filter_: Any = None,
    name: str | None = None,
    actor: str | None = None,
) -> Segment:
    """Change a segment. Campaigns that have started keep the filter that they started with."""
    async with database.write() as tx:
        await change_in(tx, clock.now(), tenant_id, segment_key, filter_=filter_, name=name, actor=actor)
    return await find(database, tenant_id, segment_key)


async def change_in(
    tx: Transaction,
    now: Instant,
    tenant_id: int,
    segment_key: str,
    *,
    filter_: Any = None,
    name: str | None = None,
    actor: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Change a segment in a transaction. `detail` is recorded in the audit log."""
    values: dict[str, Any] = {"updated_at": now}
    if name is not None:
        values["name"] = _name(name)
    if filter_ is not None:
        filters.parse(filter_)
        values["filter"] = orjson.dumps(filter_).decode()
        await require_references(tx, tenant_id, filter_)
    await tx.execute(update(segments).where(_matches_key(tenant_id, segment_key)).values(**values))
    await _record_audit_entry(tx, now, tenant_id, segment_key, actor=actor, action="segment.edit", detail=detail)


async def delete_segment(
    database: Database, tenant_id: int, segment_key: str, *, actor: str | None = None, clock: Clock | None = None
) -> None:
    """Delete a segment. An `actor` is recorded in the audit log."""
    await find(database, tenant_id, segment_key)
    async with database.write() as tx:
        await tx.execute(delete(segments).where(_matches_key(tenant_id, segment_key)))
        if clock is not None:
            await _record_audit_entry(tx, clock.now(), tenant_id, segment_key, actor=actor, action="segment.forget")


async def find(database: Database, tenant_id: int, segment_key: str) -> Segment:
    async with database.read() as tx:
        rows = await tx.execute(select(*_columns()).where(_matches_key(tenant_id, segment_key)))
    if not rows:
        raise NotFound("There is no such segment.")
    return _segment(rows[0])


async def list_all(database: Database, tenant_id: int) -> list[Segment]:
    query = select(*_columns()).where(segments.c.tenant_id == tenant_id)
    async with database.read() as tx:
        rows = await tx.execute(query.order_by(segments.c.name, segments.c.segment_key))
    return [_segment(row) for row in rows]


async def load_filters(tx: Transaction, tenant_id: int, segment_keys: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the filters of these segments. Segments that do not exist are missing."""
    if not segment_keys:
        return {}
    wanted = and_(segments.c.tenant_id == tenant_id, segments.c.segment_key.in_(list(segment_keys)))
    rows = await tx.execute(select(segments.c.segment_key, segments.c.filter).where(wanted))
    return {row.segment_key: orjson.loads(row.filter) for row in rows}


def membership(
    tenant_id: int, filters_: Mapping[str, Mapping[str, Any]], now: Instant
) -> dict[str, ColumnElement[bool]]:
    """Return a condition for each segment that is true for its members."""
    return {key: filter_clause(filter_, tenant_id, now) for key, filter_ in filters_.items()}


async def load_memberships(
    tx: Transaction, tenant_id: int, segment_keys: Collection[str], emails: Collection[str], now: Instant
) -> dict[str, dict[str, bool]]:
    """Return for each address whether it belongs to a contact in each segment.

    Segments that do not exist, or that name a list that does not exist, are missing, so that a template with a
    condition on one fails.
    """
    saved = await load_filters(tx, tenant_id, segment_keys)
    usable = {key: each for key, each in saved.items() if not await find_missing(tx, tenant_id, each)}
    clauses = membership(tenant_id, usable, now)
    found: dict[str, dict[str, bool]] = {email: dict.fromkeys(clauses, False) for email in emails}
    if not clauses or not emails:
        return found
    columns = [case((clause, 1), else_=0) for clause in clauses.values()]
    known = and_(contacts.c.tenant_id == tenant_id, contacts.c.deleted_at.is_(None), contacts.c.email.in_(list(emails)))
    for row in await tx.execute(select(contacts.c.email, *columns).where(known)):
        found[row[0]] = dict(zip(clauses, map(bool, row[1:]), strict=True))
    return found


async def count_members(tx: Transaction, tenant_id: int, filter_: Any, now: Instant) -> int:
    """Count all contacts who match, whether they may receive email or not."""
    rows = await tx.execute(
        select(func.count()).select_from(contacts).where(_matching_contacts(tenant_id, filter_, now))
    )
    return int(rows[0][0])


async def list_members(
    tx: Transaction, tenant_id: int, filter_: Any, now: Instant, *, limit: int, after: str = ""
) -> list[Contact]:
    """Return a page of members, ordered by address. The next page starts after the last address of this page."""
    page = and_(_matching_contacts(tenant_id, filter_, now), contacts.c.email > after)
    rows = await tx.execute(select(*contact_columns()).where(page).order_by(contacts.c.email).limit(limit))
    return [contact_from_row(row) for row in rows]


def _matching_contacts(tenant_id: int, filter_: Any, now: Instant) -> ColumnElement[bool]:
    return and_(
        contacts.c.tenant_id == tenant_id, contacts.c.deleted_at.is_(None), filter_clause(filter_, tenant_id, now)
    )


def _matches(filter_: Mapping[str, Any] | None, tenant_id: int, now: Instant) -> ColumnElement[bool]:
    return true() if filter_ is None else filter_clause(filter_, tenant_id, now)


async def _record_audit_entry(
    tx: Transaction,
    now: Instant,
    tenant_id: int,
    segment_key: str,
    *,
    actor: str | None,
    action: str,
    detail: Mapping[str, Any] | None = None,
) -> None:
    if actor is not None:
        await audit_log.record(
            tx, now, actor=actor, action=action, subject=segment_key, tenant_id=tenant_id, detail=detail
        )


def _name(text: str) -> str:
    if not 1 <= len(text) <= MAX_NAME_LENGTH or not is_printable(text):
        raise InvalidInput(
            "The name of a segment has 1 to {max_length} printable characters.",
            field="name",
            max_length=MAX_NAME_LENGTH,
        )
    return text


def _matches_key(tenant_id: int, segment_key: str) -> ColumnElement[bool]:
    return and_(segments.c.tenant_id == tenant_id, segments.c.segment_key == segment_key)


def _columns() -> list[ColumnElement[Any]]:
    return [segments.c[name] for name in Segment.__slots__]


def _segment(row: Row[Any]) -> Segment:
    return Segment(**{**row._mapping, "filter": orjson.loads(row.filter)})
