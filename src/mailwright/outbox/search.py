"""Search messages in bounded steps, so that a search is as fast in a long history as in a short one.

Addresses and rare states have indexes. Conditions without an index (words, a source, a common state) are checked only
for a limited number of messages per page: the newest ones, or those of a campaign. The next page continues the scan.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import func, select

from mailwright.domain.clock import MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import Deferral, split_defer_reason
from mailwright.domain.states import MessageGroup, Status
from mailwright.outbox.message_records import NEWEST, MessageSearch, MessageSummary, search
from mailwright.storage.database import Readable, Transaction
from mailwright.storage.statements import Statement, statement
from mailwright.storage.tables import campaigns, deliveries, lane_deferrals, messages

KEY_BEFORE = statement(__package__, "key_before")
_EVENT_KEY_BEFORE: Final = Statement("event_key_before", KEY_BEFORE.text.replace("messages", "events"))

# The number of messages that one search without an index scans.
SCAN_LIMIT: Final = 25_000
# Margin for key bounds, because keys and times grow together only roughly: clocks differ, and transactions take time.
_SLACK: Final = 10 * MINUTE

_COMMON: Final = frozenset({Status.PENDING, Status.SENT_ATTEMPT, Status.RETRY_SCHEDULED, Status.SENT})

_WAITING: Final = frozenset({Status.PENDING, Status.RETRY_SCHEDULED})


@dataclass(frozen=True, slots=True)
class MessagePage:
    """A page of messages. `next_key` starts the next page; it is None on the last page.

    `is_cut` is true if the scan limit was reached.
    """

    messages: tuple[MessageSummary, ...]
    next_key: int | None
    is_cut: bool = False


async def find_page(
    database: Readable, tenant_id: int, wanted: MessageSearch, *, limit: int, scan_limit: int | None = None
) -> MessagePage:
    needs_scan = _needs_scan(wanted)
    if wanted.to_email is not None or not (needs_scan or wanted.campaign_key is not None):
        return _page(tuple(await search(database, tenant_id, wanted, limit=limit)), limit)
    async with database.read() as tx:
        lowest, highest = await _bounds(tx, tenant_id, wanted)
    floor = max(lowest, highest - 1 - (scan_limit or SCAN_LIMIT)) if needs_scan else lowest
    bounded = replace(wanted, before_key=highest, after_key=floor)
    found = tuple(await search(database, tenant_id, bounded, limit=limit))
    if len(found) == limit or floor == lowest:
        return _page(found, limit)
    return MessagePage(found, floor + 1, is_cut=True)


async def newest_message_key(tx: Transaction) -> int:
    """Return the newest message key. Every later message has a larger key, even if the clock is set back."""
    [row] = await tx.execute(select(func.max(messages.c.id)))
    return int(row[0] or 0)


async def key_before(tx: Transaction, time: Instant) -> int:
    """Return a key that is smaller than the keys of all messages since this time."""
    [row] = await tx.run(KEY_BEFORE, time=time - _SLACK)
    return int(row.low)


async def _key_after(tx: Transaction, time: Instant) -> int:
    """Return a key that is larger than the keys of all messages until this time."""
    [row] = await tx.run(KEY_BEFORE, time=time + _SLACK)
    return int(row.low) + 1


async def event_keys_between(tx: Transaction, since: Instant, until: Instant) -> tuple[int, int]:
    """Return a key before the events of an interval, and one after them."""
    [first] = await tx.run(_EVENT_KEY_BEFORE, time=since - _SLACK)
    [last] = await tx.run(_EVENT_KEY_BEFORE, time=until + _SLACK)
    return int(first.low), int(last.low) + 1


async def _bounds(tx: Transaction, tenant_id: int, wanted: MessageSearch) -> tuple[int, int]:
    """Return lower and upper bounds for the keys of all matching messages."""
    lowest, highest = 0, wanted.before_key
    if wanted.campaign_key is not None:
        mine = (campaigns.c.id == wanted.campaign_key, campaigns.c.tenant_id == tenant_id)
        for row in await tx.execute(select(campaigns.c.messages_after_key, campaigns.c.finished_at).where(*mine)):
            lowest = row.messages_after_key
            if row.finished_at is not None and highest == NEWEST:
                highest = await _key_after(tx, row.finished_at)
    if highest == NEWEST:
        [newest] = await tx.execute(select(func.max(messages.c.id)).where(messages.c.tenant_id == tenant_id))
        highest = (newest[0] or 0) + 1
    return lowest, highest


async def find_deferrals(database: Readable, found: Sequence[MessageSummary], now: Instant) -> dict[int, Deferral]:
    """Return the deferral of each waiting message, by message key: its lane's deferral or its own."""
    keys = [each.message_key for each in found if each.status in _WAITING]
    if not keys:
        return {}
    kept = deliveries.outerjoin(
        lane_deferrals, (lane_deferrals.c.lane == deliveries.c.lane) & (lane_deferrals.c.deferred_until > now)
    )
    columns = (deliveries.c.message_key, deliveries.c.claimable_at, deliveries.c.defer_reason)
    wanted = select(
        *columns, lane_deferrals.c.defer_reason.label("lane_reason"), lane_deferrals.c.deferred_until
    ).select_from(kept)
    async with database.read() as tx:
        rows = await tx.execute(wanted.where(deliveries.c.message_key.in_(keys)))
    waits: dict[int, Deferral] = {}
    for row in rows:
        reason, _ = split_defer_reason(row.lane_reason or row.defer_reason)
        until = row.deferred_until if row.lane_reason else row.claimable_at
        if reason is not None and until is not None and until > now:
            waits[row.message_key] = Deferral(until, reason)
    return waits


def _page(found: tuple[MessageSummary, ...], limit: int) -> MessagePage:
    return MessagePage(found, found[-1].message_key if len(found) == limit else None)


def _needs_scan(wanted: MessageSearch) -> bool:
    if wanted.words is not None or wanted.source is not None or wanted.sent_since is not None:
        return True
    if wanted.group is not None:
        return wanted.group is MessageGroup.QUEUED
    is_common = wanted.status is None and wanted.campaign_key is not None and wanted.failed_since is None
    return wanted.status in _COMMON or is_common
