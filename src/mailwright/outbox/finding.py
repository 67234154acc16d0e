"""Finding: messages by whatever people remember of them, in steps that cost no more in a long history.

An address, a campaign and the rare states have indexes. What has none (words, a source, an everyday state) is looked
for among so many of the latest messages, and whoever wants to goes on from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import func, select

from mailwright.domain.clock import Instant
from mailwright.domain.permits import Held, reason_told
from mailwright.domain.states import Status
from mailwright.outbox.records import NEWEST, Search, Summary, search
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries, holds, messages

# What is looked through at once for something that no index knows.
STRETCH: Final = 100_000

_EVERYDAY: Final = frozenset({Status.PENDING, Status.SENT_ATTEMPT, Status.RETRY_SCHEDULED, Status.SENT})

_WAITING: Final = frozenset({Status.PENDING, Status.RETRY_SCHEDULED})


@dataclass(frozen=True, slots=True)
class Found:
    """`next_key` is where to go on, None at the end; `is_cut`: there may be more although the page is short."""

    messages: tuple[Summary, ...]
    next_key: int | None
    is_cut: bool = False


async def look_for(database: Database, tenant_id: int, wanted: Search, *, limit: int) -> Found:
    if not _is_unknown_to_indexes(wanted):
        return _page(tuple(await search(database, tenant_id, wanted, limit=limit)), limit)
    top = wanted.before_key
    if top == NEWEST:
        async with database.read() as tx:
            [row] = await tx.execute(select(func.max(messages.c.id)).where(messages.c.tenant_id == tenant_id))
        top = (row[0] or 0) + 1
    floor = max(0, top - 1 - STRETCH)
    found = tuple(await search(database, tenant_id, replace(wanted, after_key=floor), limit=limit))
    if len(found) == limit or floor == 0:
        return _page(found, limit)
    return Found(found, floor + 1, is_cut=True)


async def holds_on(database: Database, found: Sequence[Summary], now: Instant) -> dict[int, Held]:
    """What keeps those of them that wait, by their key: the hold on their lane, or what they wait for themselves."""
    keys = [each.message_key for each in found if each.status in _WAITING]
    if not keys:
        return {}
    kept = deliveries.outerjoin(holds, (holds.c.lane == deliveries.c.lane) & (holds.c.deferred_until > now))
    columns = (deliveries.c.message_key, deliveries.c.claimable_at, deliveries.c.defer_reason)
    wanted = select(*columns, holds.c.defer_reason.label("held_by"), holds.c.deferred_until).select_from(kept)
    async with database.read() as tx:
        rows = await tx.execute(wanted.where(deliveries.c.message_key.in_(keys)))
    waits: dict[int, Held] = {}
    for row in rows:
        reason, _ = reason_told(row.held_by or row.defer_reason)
        until = row.deferred_until if row.held_by else row.claimable_at
        if reason is not None and until is not None and until > now:
            waits[row.message_key] = Held(until, reason)
    return waits


def _page(found: tuple[Summary, ...], limit: int) -> Found:
    return Found(found, found[-1].message_key if len(found) == limit else None)


def _is_unknown_to_indexes(wanted: Search) -> bool:
    if wanted.to_email is not None:
        return False
    return wanted.words is not None or wanted.source is not None or wanted.status in _EVERYDAY
