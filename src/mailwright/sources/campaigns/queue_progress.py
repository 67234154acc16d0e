"""The progress of the queue: the campaign that is being sent, and the campaigns that wait."""

from collections.abc import Sequence
from dataclasses import dataclass

from mailwright.domain.campaign import INDEFINITELY, QUEUED, QueueStatus
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.permits import BulkLimit
from mailwright.outbox.limits import DefaultLimits
from mailwright.sources.campaigns.bulk_limits import load_bulk_limits
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.progress import (
    CampaignMessageCounts,
    QueuePosition,
    count_messages,
    end_of_deferral,
    list_positions,
    send_rate,
)
from mailwright.sources.campaigns.queue_recorder import refresh_queue
from mailwright.storage.database import Database


@dataclass(frozen=True, slots=True)
class QueueProgress:
    active: QueuePosition | None
    counts: CampaignMessageCounts | None
    rate: float  # messages per second of the active campaign
    eta: Instant | None
    queued: int
    next_campaign_at: Instant | None
    reason: str | None
    next_run_at: Instant | None
    limits: tuple[BulkLimit, ...] = ()


async def queue_progress(
    database: Database, clock: Clock, defaults: DefaultLimits, *, tenant_id: int | None
) -> QueueProgress:
    """Return the progress of the campaign that is being sent, and how many wait behind it."""
    await refresh_queue(database, clock, defaults)
    now = clock.now()
    async with database.read() as tx:
        queue = await list_positions(tx, tenant_id=tenant_id)
        active = _active(queue)
        counts = await count_messages(tx, active) if active is not None else None
        rate = await send_rate(tx, active, now) if active is not None else 0.0
    others = [position for position in queue if position is not active]
    starts = await _expected_starts(database, clock, defaults, others)
    unsent = counts.waiting + counts.sending if counts is not None else 0
    is_moving = active is not None and active.status is QueueStatus.PROCESSING and rate > 0
    return QueueProgress(
        active=active,
        counts=counts,
        rate=rate,
        eta=now + round(unsent / rate * 1000) if is_moving else None,
        queued=len(others),
        next_campaign_at=max(min(starts), now) if starts else None,
        reason=active.defer_reason if active else None,
        next_run_at=end_of_deferral(active) if active else None,
        limits=await load_bulk_limits(database, defaults, tenant_id, now),
    )


async def _expected_starts(
    database: Database, clock: Clock, defaults: DefaultLimits, waiting: Sequence[QueuePosition]
) -> list[Instant]:
    """Return when the campaigns are expected to send their next messages, without those that only a user can release.

    If the stored forecast lacks one of them, because the queue has just changed, it is computed for this answer.
    """
    ends = [position for position in waiting if position.deferred_until != INDEFINITELY]
    expected = {each.campaign_id: each.expected_at for each in ends if each.status is QueueStatus.PENDING}
    if None in expected.values():
        found = await forecast(database, clock, defaults, tenant_id=None)
        expected = {each.campaign_id: each.starts_at for each in found.campaigns if each.campaign_id in expected}
    return [at for at in expected.values() if at is not None]


def _active(queue: list[QueuePosition]) -> QueuePosition | None:
    """Return the first campaign that is being sent; if all are deferred, the one whose deferral ends first."""
    sending = [position for position in queue if position.status is QueueStatus.PROCESSING]
    if sending:
        return sending[0]
    return min(queue, key=lambda each: (each.defer_reason == QUEUED, each.deferred_until or 0), default=None)
