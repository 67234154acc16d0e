"""Create webhook deliveries from events, once per event and endpoint, in the order of events.

A cursor reads the events that are stored anyway, so webhooks do not slow down sending. The cursor moves in the
transaction that writes the deliveries, so after a crash the next process continues where the last one stopped.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import Row, and_, insert, select, true, update
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.ids import uuid7s
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Database, Transaction
from mailwright.storage.horizon import Horizon, read_horizon
from mailwright.storage.tables import events, webhook_cursor, webhook_deliveries, webhook_endpoints

CURSOR: Final = "events"
# Maximum number of event keys per transaction. The transaction must be short, because workers wait for it.
BATCH_SIZE: Final = 2_000


@dataclass(frozen=True, slots=True)
class _EndpointFilter:
    """The event types of one endpoint, and the key of the last event before it was created."""

    endpoint_key: int
    types: frozenset[str]
    since: int


async def derive_deliveries(database: Database, clock: Clock) -> bool:
    """Process one batch of events, and return whether there may be more. Several processes may call this at once."""
    async with database.read() as tx:
        filters = await _endpoint_filters(tx)
        newest = (await read_horizon(tx, events)).newest if filters else 0
    if not filters:
        return False
    begins = min(endpoint_filter.since for each in filters.values() for endpoint_filter in each)
    if newest <= begins:
        return False
    await _create_cursor(database, begins)
    async with database.write() as tx:
        mine = webhook_cursor.c.name == CURSOR
        [cursor] = await tx.execute(select(webhook_cursor).where(mine).with_for_update())
        # The cursor does not move while no endpoint is active.
        position = max(cursor.position, begins)
        # Read the horizon after the cursor, because another process may have stored younger writers in it.
        seen = await read_horizon(tx, events)
        reach = seen.reach(Horizon(cursor.seen, frozenset(cursor.writers.split()))) or position
        end = min(reach, position + BATCH_SIZE)
        if end > position:
            await _insert_deliveries(tx, filters, position, end, clock.now())
        changes = {"position": max(position, end), **(_next_wait(cursor, reach, seen) if end >= reach else {})}
        if any(getattr(cursor, name) != value for name, value in changes.items()):
            await tx.execute(update(webhook_cursor).where(mine).values(**changes))
        return bool(position < end < reach)


def _next_wait(cursor: Row[Any], reach: int, seen: Horizon) -> dict[str, int | str]:
    """Return the transactions that the cursor must wait for next, after the previous wait is over."""
    if cursor.seen > reach or seen.newest <= reach:
        return {}
    return {"seen": seen.newest, "writers": " ".join(sorted(seen.writers))}


async def _endpoint_filters(tx: Transaction) -> dict[int, list[_EndpointFilter]]:
    """Return the filters of active endpoints by tenant."""
    e = webhook_endpoints.c
    rows = await tx.execute(
        select(e.id, e.tenant_id, e.types, e.after_event).where(e.is_active == true(), e.paused_at.is_(None))
    )
    by_tenant: dict[int, list[_EndpointFilter]] = {}
    for row in rows:
        endpoint_filter = _EndpointFilter(row.id, frozenset(orjson.loads(row.types)), row.after_event)
        by_tenant.setdefault(row.tenant_id, []).append(endpoint_filter)
    return by_tenant


async def _create_cursor(database: Database, position: int) -> None:
    async with database.read() as tx:
        if await tx.execute(select(webhook_cursor.c.name)):
            return
    try:
        async with database.write() as tx:
            values = {"name": CURSOR, "position": position, "seen": 0, "writers": ""}
            await tx.execute(insert(webhook_cursor).values(**values))
    except IntegrityError:
        pass  # Another process created the cursor at the same time.


async def _insert_deliveries(
    tx: Transaction, filters: Mapping[int, Sequence[_EndpointFilter]], after: int, until: int, now: Instant
) -> None:
    e = events.c
    wanted = {type_ for each in filters.values() for endpoint_filter in each for type_ in endpoint_filter.types}
    found = await tx.execute(
        select(e.id, e.tenant_id, e.message_key, e.type, e.created_at)
        .where(and_(e.id > after, e.id <= until), e.tenant_id.in_(filters), e.type.in_(sorted(wanted)))
        .order_by(e.id)
    )
    matches = [
        (row, endpoint_filter.endpoint_key)
        for row in found
        for endpoint_filter in filters[row.tenant_id]
        if row.type in endpoint_filter.types and row.id > endpoint_filter.since
    ]
    if not matches:
        return
    rows = [
        {
            "delivery_id": delivery_id,
            "endpoint_key": endpoint_key,
            "tenant_id": row.tenant_id,
            "event_key": row.id,
            "event_at": row.created_at,
            "message_key": row.message_key,
            "type": row.type,
            "status": "PENDING",
            "due_at": now,
            "attempts": 0,
            "log": "[]",
            "created_at": now,
        }
        for delivery_id, (row, endpoint_key) in zip(uuid7s(now, len(matches)), matches, strict=True)
    ]
    await tx.execute(insert(webhook_deliveries), rows)
