"""Deriving: every event that somebody wants to be told of becomes a delivery, once, in the order of events.

A cursor goes over the events that the engine writes anyway, so mail pays nothing for webhooks. The cursor moves in the
transaction that writes the deliveries: whoever is cut off leaves neither, and the next one begins where the last ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import Row, and_, insert, select, true, update
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.ids import uuid7s
from mailwright.storage.database import Database, Transaction
from mailwright.storage.horizon import EventHorizon, event_horizon
from mailwright.storage.tables import events, webhook_cursor, webhook_deliveries, webhook_endpoints

CURSOR: Final = "events"
# One transaction looks at so many keys: it must stay short while workers wait for their turn.
BATCH_SIZE: Final = 2_000


@dataclass(frozen=True, slots=True)
class _Wish:
    """One endpoint's: which events, and after which."""

    endpoint_key: int
    types: frozenset[str]
    since: int


async def derive_deliveries(database: Database, clock: Clock) -> bool:
    """One stride; whether there may be more to look at now. Any number of processes may call it."""
    async with database.read() as tx:
        wishes = await _wishes(tx)
        now_visible = await event_horizon(tx) if wishes else None
    if now_visible is None:
        return False
    begins = min(wish.since for each in wishes.values() for wish in each)
    if now_visible.newest <= begins:
        return False
    await _open_cursor(database, begins)
    async with database.write() as tx:
        mine = webhook_cursor.c.name == CURSOR
        [cursor] = await tx.execute(select(webhook_cursor).where(mine).with_for_update())
        # While nobody wanted to be told, the cursor stood still.
        position = max(cursor.position, begins)
        reach = _reach(cursor, position, now_visible)
        end = min(reach, position + BATCH_SIZE)
        if end > position:
            await _deliveries(tx, wishes, position, end, clock.now())
        changes = {"position": max(position, end), **(_noted(cursor, reach, now_visible) if end >= reach else {})}
        if any(getattr(cursor, name) != value for name, value in changes.items()):
            await tx.execute(update(webhook_cursor).where(mine).values(**changes))
        return bool(position < end < reach)


def _reach(cursor: Row[Any], position: int, visible: EventHorizon) -> int:
    """Up to here no event can appear any more."""
    if visible.is_quiet:
        return visible.newest
    is_over = visible.oldest_running >= cursor.seen_before
    return cursor.seen if is_over else position


def _noted(cursor: Row[Any], reach: int, visible: EventHorizon) -> dict[str, int]:
    """What to wait for next, once what was waited for has come."""
    if cursor.seen > reach or visible.newest <= reach:
        return {}
    return {"seen": visible.newest, "seen_before": visible.next_to_run}


async def _wishes(tx: Transaction) -> dict[int, list[_Wish]]:
    """By tenant, of those that can be told now."""
    e = webhook_endpoints.c
    rows = await tx.execute(
        select(e.id, e.tenant_id, e.types, e.after_event).where(e.is_active == true(), e.paused_at.is_(None))
    )
    found: dict[int, list[_Wish]] = {}
    for row in rows:
        wish = _Wish(row.id, frozenset(orjson.loads(row.types)), row.after_event)
        found.setdefault(row.tenant_id, []).append(wish)
    return found


async def _open_cursor(database: Database, position: int) -> None:
    async with database.read() as tx:
        if await tx.execute(select(webhook_cursor.c.name)):
            return
    try:
        async with database.write() as tx:
            values = {"name": CURSOR, "position": position, "seen": 0, "seen_before": 0}
            await tx.execute(insert(webhook_cursor).values(**values))
    except IntegrityError:
        pass  # another process opened it at the same moment


async def _deliveries(
    tx: Transaction, wishes: Mapping[int, Sequence[_Wish]], after: int, until: int, now: Instant
) -> None:
    e = events.c
    wanted = {type_ for each in wishes.values() for wish in each for type_ in wish.types}
    found = await tx.execute(
        select(e.id, e.tenant_id, e.message_key, e.type, e.created_at)
        .where(and_(e.id > after, e.id <= until), e.tenant_id.in_(wishes), e.type.in_(sorted(wanted)))
        .order_by(e.id)
    )
    told = [
        (row, wish.endpoint_key)
        for row in found
        for wish in wishes[row.tenant_id]
        if row.type in wish.types and row.id > wish.since
    ]
    if not told:
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
        for delivery_id, (row, endpoint_key) in zip(uuid7s(now, len(told)), told, strict=True)
    ]
    await tx.execute(insert(webhook_deliveries), rows)
