"""Segments: saved questions about contacts. Asked anew each time, so that they are always true now."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Row, Select, and_, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.audience import filters
from mailwright.audience.contacts import Contact, contact_columns, contact_from_row
from mailwright.audience.filter_sql import filter_clause, is_active_subscription, is_subscribed_to
from mailwright.audience.lists import KEY_PATTERN
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.expressions import json_text, unindexed
from mailwright.storage.tables import contacts, segments, subscriptions, suppressions

__all__ = [
    "Segment",
    "SegmentExists",
    "audience",
    "audience_query",
    "change",
    "count",
    "create",
    "delete_segment",
    "find",
    "lacks_attribute",
    "list_all",
    "members",
]

# A suppression with one of these scopes keeps every campaign away, whatever its list.
EVERY_CAMPAIGN: Final = ("*", GENERAL)
LONGEST_NAME: Final = 200

_KEY: Final = re.compile(KEY_PATTERN)


class SegmentExists(NotPossibleNow):
    """A segment of this key exists already."""

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
    """Who may be written to now: on any of the lists (anyone, where none is named), and answering to the filter."""
    may_be_written_to = _may_be_written_to(tenant_id, lists, filter_, now)
    return and_(may_be_written_to, is_subscribed_to(lists[0])) if len(lists) == 1 else may_be_written_to


def audience_query(
    tenant_id: int, lists: Sequence[str], filter_: Mapping[str, Any] | None, now: Instant
) -> Select[Any]:
    """The same people, for columns about all of them at once. Those of one list are found along it, and nobody else is
    looked at."""
    if len(lists) != 1 or lists[0] == GENERAL:
        return select().select_from(contacts).where(audience(tenant_id, lists, filter_, now))
    joined = subscriptions.alias()  # the filter may ask for another list
    on_it = contacts.join(joined, and_(joined.c.tenant_id == tenant_id, is_active_subscription(joined, lists[0])))
    return select().select_from(on_it).where(_may_be_written_to(tenant_id, lists, filter_, now))


def lacks_attribute(attribute: str) -> ColumnElement[bool]:
    """Has no such attribute, or nothing in it."""
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
    """Whoever acts under a name of their own, as `actor`, is noted in the journal."""
    if not _KEY.fullmatch(segment_key):
        raise InvalidInput("a segment's key has 1 to 63 of a-z, 0-9, - and _, as in big-spenders", field="segmentKey")
    filters.parse(filter_)
    now = clock.now()
    made = Segment(segment_key, _name(name or segment_key), filter_, now, now)
    try:
        async with database.write() as tx:
            await tx.execute(
                insert(segments).values(
                    tenant_id=tenant_id,
                    segment_key=segment_key,
                    name=made.name,
                    filter=orjson.dumps(filter_).decode(),
                    created_at=now,
                    updated_at=now,
                )
            )
            await _note(tx, now, tenant_id, segment_key, actor=actor, action="segment.create")
    except IntegrityError as error:
        raise SegmentExists(f"the segment {segment_key} exists already", field="segmentKey") from error
    return made


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
    """Campaigns that were started keep the question that they were started with."""
    values: dict[str, Any] = {"updated_at": clock.now()}
    if name is not None:
        values["name"] = _name(name)
    if filter_ is not None:
        filters.parse(filter_)
        values["filter"] = orjson.dumps(filter_).decode()
    async with database.write() as tx:
        await tx.execute(update(segments).where(_mine(tenant_id, segment_key)).values(**values))
        await _note(tx, values["updated_at"], tenant_id, segment_key, actor=actor, action="segment.edit")
    return await find(database, tenant_id, segment_key)


async def delete_segment(
    database: Database, tenant_id: int, segment_key: str, *, actor: str | None = None, clock: Clock | None = None
) -> None:
    """An `actor` is noted in the journal, by the `clock`."""
    await find(database, tenant_id, segment_key)
    async with database.write() as tx:
        await tx.execute(delete(segments).where(_mine(tenant_id, segment_key)))
        if clock is not None:
            await _note(tx, clock.now(), tenant_id, segment_key, actor=actor, action="segment.forget")


async def find(database: Database, tenant_id: int, segment_key: str) -> Segment:
    async with database.read() as tx:
        rows = await tx.execute(select(*_columns()).where(_mine(tenant_id, segment_key)))
    if not rows:
        raise NotFound
    return _segment(rows[0])


async def list_all(database: Database, tenant_id: int) -> list[Segment]:
    query = select(*_columns()).where(segments.c.tenant_id == tenant_id)
    async with database.read() as tx:
        rows = await tx.execute(query.order_by(segments.c.name, segments.c.segment_key))
    return [_segment(row) for row in rows]


async def count(tx: Transaction, tenant_id: int, filter_: Any, now: Instant) -> int:
    """Everyone who answers to it, whether they may be written to or not."""
    rows = await tx.execute(select(func.count()).select_from(contacts).where(_people(tenant_id, filter_, now)))
    return int(rows[0][0])


async def members(
    tx: Transaction, tenant_id: int, filter_: Any, now: Instant, *, limit: int, after: str = ""
) -> list[Contact]:
    """In the order of addresses; the next page begins after the last address of this one."""
    people = and_(_people(tenant_id, filter_, now), contacts.c.email > after)
    rows = await tx.execute(select(*contact_columns()).where(people).order_by(contacts.c.email).limit(limit))
    return [contact_from_row(row) for row in rows]


def _people(tenant_id: int, filter_: Any, now: Instant) -> ColumnElement[bool]:
    return and_(
        contacts.c.tenant_id == tenant_id, contacts.c.deleted_at.is_(None), filter_clause(filter_, tenant_id, now)
    )


def _may_be_written_to(
    tenant_id: int, lists: Sequence[str], filter_: Mapping[str, Any] | None, now: Instant
) -> ColumnElement[bool]:
    """All but whether they are on the list, where it is only one."""
    conditions = [
        contacts.c.tenant_id == tenant_id,
        contacts.c.deleted_at.is_(None),
        contacts.c.status == "active",
        # Whoever is on one list only is looked up once for both.
        ~_is_suppressed(tenant_id, *EVERY_CAMPAIGN, *(lists if len(lists) == 1 else ())),
    ]
    if len(lists) > 1:
        conditions.append(or_(*(and_(is_subscribed_to(each), ~_is_suppressed(tenant_id, each)) for each in lists)))
    if filter_ is not None:
        conditions.append(filter_clause(filter_, tenant_id, now))
    return and_(*conditions)


def _is_suppressed(tenant_id: int, *scopes: str) -> ColumnElement[bool]:
    return (
        select(suppressions.c.id)
        .where(
            suppressions.c.tenant_id == tenant_id,
            suppressions.c.email == contacts.c.email,
            # Nearly everyone has none at all, which one look tells.
            unindexed(suppressions.c.list_key).in_(sorted(set(scopes))),
        )
        .exists()
    )


async def _note(
    tx: Transaction, now: Instant, tenant_id: int, segment_key: str, *, actor: str | None, action: str
) -> None:
    if actor is not None:
        await audit_log.record(tx, now, actor=actor, action=action, subject=segment_key, tenant_id=tenant_id)


def _name(text: str) -> str:
    if not 1 <= len(text) <= LONGEST_NAME or not text.isprintable():
        raise InvalidInput(f"a segment's name has 1 to {LONGEST_NAME} printable characters", field="name")
    return text


def _mine(tenant_id: int, segment_key: str) -> ColumnElement[bool]:
    return and_(segments.c.tenant_id == tenant_id, segments.c.segment_key == segment_key)


def _columns() -> list[ColumnElement[Any]]:
    return [segments.c[name] for name in Segment.__slots__]


def _segment(row: Row[Any]) -> Segment:
    return Segment(**{**row._mapping, "filter": orjson.loads(row.filter)})
