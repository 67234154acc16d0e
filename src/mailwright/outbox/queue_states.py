"""The stored state of campaigns in the queue. Only this module writes it; reports, pages and webhooks show it as it is.

A campaign is PENDING when it is started, PROCESSING from its first message until it is deferred, then PENDING again
with the reason and the end of the deferral, and COMPLETED when nothing is left to send.
"""

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import case, func, select, update

from mailwright.domain.campaign import QUEUED, QueueStatus
from mailwright.domain.clock import Instant
from mailwright.domain.lanes import Lane, is_of_campaign, place_of
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import DeferReason
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import lane_deferrals, queue_entries

_NO_DEFERRAL: Final = {"defer_reason": None, "deferred_until": None, "expected_at": None}
# While the provider is unavailable, single messages are sent to find out whether it works again.
OUTAGES: Final = (DeferReason.PROVIDER_UNAVAILABLE.value, DeferReason.PROVIDER_THROTTLED.value)

# The column values of an entry that has messages to send again. One that was not completed keeps its state.
REOPENED: Final[dict[str, Any]] = {
    "completed_at": None,
    "status": case(
        (queue_entries.c.status == QueueStatus.COMPLETED.value, QueueStatus.PENDING.value),
        else_=queue_entries.c.status,
    ),
}


@dataclass(frozen=True, slots=True)
class CampaignQueueState:
    status: QueueStatus
    reason: str | None = None  # with its detail
    until: Instant | None = None


def completed_values(now: Instant) -> dict[str, Any]:
    """Return the column values of an entry with nothing left to send."""
    return {"completed_at": now, "status": QueueStatus.COMPLETED.value, **_NO_DEFERRAL}


async def begin_campaign(database: Database, lane: int, now: Instant) -> None:
    """Record that a message of the campaign begins, unless the campaign was deferred in the meantime."""
    q, held = queue_entries.c, lane_deferrals.c
    is_deferred = select(held.lane).where(held.lane == q.lane, held.deferred_until > now)
    may_begin = (
        q.id == place_of(lane),
        q.status == QueueStatus.PENDING.value,
        func.coalesce(q.defer_reason, "").not_in(OUTAGES),
        ~is_deferred.exists(),
    )
    async with database.write() as tx:
        values = {"status": QueueStatus.PROCESSING.value, **_NO_DEFERRAL}
        await tx.execute(update(queue_entries).where(*may_begin).values(**values))


async def record_deferral(tx: Transaction, lane: int, reason: str, until: Instant, *, is_limit: bool) -> None:
    """Record the deferral of a campaign's lane, if the lane has it.

    A campaign that waits for those before it is not sent when the limit ends, so that reason stays.
    """
    if not is_of_campaign(lane):
        return
    q, held = queue_entries.c, lane_deferrals.c
    has_deferral = select(held.lane).where(held.lane == lane, held.defer_reason == reason, held.deferred_until == until)
    deferred = update(queue_entries).where(
        q.id == place_of(lane), q.status != QueueStatus.COMPLETED.value, has_deferral.exists()
    )
    if is_limit:
        deferred = deferred.where(func.coalesce(q.defer_reason, "") != QUEUED)
    values = {"status": QueueStatus.PENDING.value, "defer_reason": reason, "deferred_until": until}
    await tx.execute(deferred.values(**values))
    await _forget_forecast(tx, lane)


async def clear_deferral(tx: Transaction, lanes: Collection[int]) -> None:
    """Record that nothing defers these campaigns any more. They stay PENDING until a message begins."""
    ids = [place_of(lane) for lane in lanes if is_of_campaign(lane)]
    if ids:
        is_deferred = (queue_entries.c.id.in_(ids), queue_entries.c.status == QueueStatus.PENDING.value)
        await tx.execute(update(queue_entries).where(*is_deferred).values(**_NO_DEFERRAL))
        for lane in lanes:
            await _forget_forecast(tx, lane)


async def _forget_forecast(tx: Transaction, lane: int) -> None:
    """Let the other campaigns of the tenant be decided and forecast again before they are shown."""
    q = queue_entries.c
    is_waiting = (q.tenant_id == Lane(lane).tenant_id, q.completed_at.is_(None), q.status == QueueStatus.PENDING.value)
    await tx.execute(update(queue_entries).where(*is_waiting).values(expected_at=None))


async def store_state(tx: Transaction, entry_id: int, before: CampaignQueueState, state: CampaignQueueState) -> None:
    """Change the state of an entry, unless it has changed since it was read."""
    q = queue_entries.c
    is_unchanged = (
        q.id == entry_id,
        q.status == before.status.value,
        q.defer_reason.is_not_distinct_from(before.reason),
        q.deferred_until.is_not_distinct_from(before.until),
    )
    values = {"status": state.status.value, "defer_reason": state.reason, "deferred_until": state.until}
    await tx.execute(update(queue_entries).where(*is_unchanged).values(**values))


async def store_expected(tx: Transaction, entry_id: int, expected_at: Instant | None) -> None:
    """Store when the forecast expects the next message of a campaign that is not being sent."""
    q = queue_entries.c
    until = case((q.defer_reason == QUEUED, expected_at), else_=q.deferred_until)
    is_pending = (q.id == entry_id, q.status == QueueStatus.PENDING.value)
    await tx.execute(update(queue_entries).where(*is_pending).values(expected_at=expected_at, deferred_until=until))
