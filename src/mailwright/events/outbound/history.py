"""The past events of a tenant's messages in the order of their times, as programs read them page by page."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import select, tuple_

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.events.outbound.outbound_event import OutboundEvent
from mailwright.events.outbound.stored_messages import GIVEN, message_columns, message_from_row
from mailwright.storage.database import Database
from mailwright.storage.tables import events, messages

# How many events are read at once while those that a caller does not want are skipped.
_BATCH: Final = 1_000

Position = tuple[Instant, int]


@dataclass(frozen=True, slots=True)
class EventSelection:
    """Which events to return: their types, the times between which they happened, and the recipient."""

    types: tuple[str, ...]
    since: Instant | None = None
    until: Instant | None = None
    recipient: str | None = None  # normalized


def position_of(event: OutboundEvent) -> Position:
    return event.at, event.event_key or 0


async def find_events(
    database: Database,
    tenant_id: int,
    selection: EventSelection,
    is_wanted: Callable[[OutboundEvent], bool],
    *,
    limit: int,
    after: Position | None,
    ascending: bool,
    default_sender: str,
) -> list[OutboundEvent]:
    """Return the next wanted events after a position, in the order of their times or in the reverse order."""
    found: list[OutboundEvent] = []
    while True:
        rows = await _read(database, tenant_id, selection, after, ascending=ascending)
        batch = [_event(row, default_sender) for row in rows]
        found += [each for each in batch if is_wanted(each)]
        if len(found) >= limit or len(batch) < _BATCH:
            return found[:limit]
        after = position_of(batch[-1])


async def _read(
    database: Database, tenant_id: int, selection: EventSelection, after: Position | None, *, ascending: bool
) -> Sequence[Any]:
    e = events.c
    query = (
        select(e.id, e.type, e.created_at, e.metadata, *message_columns(GIVEN))
        .join(messages, messages.c.id == e.message_key)
        .where(e.tenant_id == tenant_id, e.type.in_(selection.types))
    )
    if selection.since is not None:
        query = query.where(e.created_at >= selection.since)
    if selection.until is not None:
        query = query.where(e.created_at <= selection.until)
    if selection.recipient is not None:
        query = query.where(messages.c.tenant_id == tenant_id, messages.c.to_email == selection.recipient)
    place = tuple_(e.created_at, e.id)
    if after is not None:
        query = query.where(place > after if ascending else place < after)
    order = (e.created_at.asc(), e.id.asc()) if ascending else (e.created_at.desc(), e.id.desc())
    async with database.read() as tx:
        return await tx.execute(query.order_by(*order).limit(_BATCH))


def _event(row: Any, default_sender: str) -> OutboundEvent:
    message, metadata = message_from_row(row, default_sender), orjson.loads(row.metadata or "{}")
    return OutboundEvent("", "", row.type, row.created_at, message, metadata=metadata, event_key=row.id)
