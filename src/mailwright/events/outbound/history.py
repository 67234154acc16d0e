"""The past events of a tenant's messages in the order of their times, as programs read them page by page."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import select, tuple_

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.events.outbound.outbound_event import OutboundEvent, OutboundMessage
from mailwright.events.outbound.stored_messages import GIVEN, message_columns, message_from_row
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import events, messages

# How many events one request searches at most for those that a caller wants, and how many at once.
MAX_SEARCHED: Final = 50_000
BATCH_SIZE: Final = 500

Position = tuple[Instant, int]


@dataclass(frozen=True, slots=True)
class EventSelection:
    """Which events to return: their types, the times between which they happened, and the recipient."""

    types: tuple[str, ...]
    since: Instant
    until: Instant | None = None
    recipient: str | None = None  # normalized


@dataclass(frozen=True, slots=True)
class EventMessageFilter:
    """Which messages the events are about. Of the `GIVEN` fields, it sees only those that it names."""

    fields: frozenset[str]
    accepts: Callable[[OutboundMessage], bool]


@dataclass(frozen=True, slots=True)
class FoundEvents:
    """The events of a page, and the position after which the next page continues.

    If the search ended early, there may be more events although the page is not full.
    """

    events: list[OutboundEvent]
    reached: Position | None
    ended_early: bool = False


def position_of(event: OutboundEvent) -> Position:
    return event.at, event.event_key or 0


async def find_events(
    database: Database,
    tenant_id: int,
    selection: EventSelection,
    wanted: EventMessageFilter | None,
    *,
    limit: int,
    after: Position | None,
    ascending: bool,
    default_sender: str,
) -> FoundEvents:
    """Return the next wanted events after a position, in the order of their times or in the reverse order.

    Payloads can be large, so they are read only for the events of the page, and as far as a filter needs them.
    """
    size = limit if wanted is None else MAX_SEARCHED
    async with database.read() as tx:
        found = await _find(tx, tenant_id, selection, after, ascending=ascending, limit=size)
        reached, ended_early = (found[-1] if found else after), wanted is not None and len(found) == size
        if wanted is not None:
            searched, found = found, []
            for start in range(0, len(searched), BATCH_SIZE):
                batch = await _load(tx, searched[start : start + BATCH_SIZE], wanted.fields, default_sender)
                found += [position_of(each) for each in batch if wanted.accepts(each.about)]
                if len(found) >= limit:
                    found = found[:limit]
                    reached, ended_early = found[-1], False
                    break
        return FoundEvents(await _load(tx, found, GIVEN, default_sender), reached, ended_early)


async def _find(
    tx: Transaction,
    tenant_id: int,
    selection: EventSelection,
    after: Position | None,
    *,
    ascending: bool,
    limit: int,
) -> list[Position]:
    e = events.c
    query = (
        select(e.created_at, e.id)
        .join(messages, messages.c.id == e.message_key)
        .where(e.tenant_id == tenant_id, e.type.in_(selection.types), e.created_at >= selection.since)
    )
    if selection.until is not None:
        query = query.where(e.created_at <= selection.until)
    if selection.recipient is not None:
        query = query.where(messages.c.tenant_id == tenant_id, messages.c.to_email == selection.recipient)
    if after is not None:
        # Compare the time alone, too, because PostgreSQL does not exclude partitions by a position.
        place, at = tuple_(e.created_at, e.id), e.created_at
        query = query.where(place > after, at >= after[0]) if ascending else query.where(place < after, at <= after[0])
    order = (e.created_at.asc(), e.id.asc()) if ascending else (e.created_at.desc(), e.id.desc())
    return [(row.created_at, row.id) for row in await tx.execute(query.order_by(*order).limit(limit))]


async def _load(
    tx: Transaction, positions: Sequence[Position], fields: Collection[str], default_sender: str
) -> list[OutboundEvent]:
    """Return the events at these positions, in this order, with these fields of their messages."""
    if not positions:
        return []
    e = events.c
    times = [at for at, _ in positions]
    rows = await tx.execute(
        select(e.id, e.type, e.created_at, e.metadata, *message_columns(fields))
        .join(messages, messages.c.id == e.message_key)
        .where(e.id.in_([key for _, key in positions]), e.created_at.between(min(times), max(times)))
    )
    loaded = {row.id: _event(row, default_sender) for row in rows}
    return [loaded[key] for _, key in positions]


def _event(row: Any, default_sender: str) -> OutboundEvent:
    message, metadata = message_from_row(row, default_sender), orjson.loads(row.metadata or "{}")
    return OutboundEvent("", "", row.type, row.created_at, message, metadata=metadata, event_key=row.id)
