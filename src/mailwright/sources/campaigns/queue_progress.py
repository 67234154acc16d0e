"""The progress of the queue: the campaign that is being sent, and the campaigns that wait."""

from collections.abc import Sequence

from mailwright.domain.campaign import INDEFINITELY, QUEUED, QueueStatus
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import BulkLimit
from mailwright.outbox.limits import DefaultLimits
from mailwright.sources.campaigns.bulk_limits import load_bulk_limits
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.forecast_values import CampaignForecast
from mailwright.sources.campaigns.progress import (
    CampaignMessageCounts,
    QueuePosition,
    count_messages,
    end_of_deferral,
    list_positions,
    send_rate,
)
from mailwright.sources.campaigns.queue_recorder import refresh_queue
from mailwright.storage.database import Database, ReadSnapshot


@dataclass(frozen=True, slots=True)
class QueueProgress:
    active: QueuePosition | None
    counts: CampaignMessageCounts | None
    rate: float  # messages per second of the active campaign
    eta: Instant | None
    queued: int
    next_campaign_at: Instant | None  # None if no campaign waits, or if only a user can start those that wait
    next_campaign_reason: str | None  # why the next campaign is not being sent yet
    reason: str | None
    next_run_at: Instant | None
    limits: tuple[BulkLimit, ...] = ()


async def queue_progress(
    database: Database, clock: Clock, defaults: DefaultLimits, *, tenant_id: int | None
) -> QueueProgress:
    """Return the progress of the campaign that is being sent, and how many wait behind it.

    Everything is read from one snapshot, so that the answer agrees with itself while workers change the queue.
    """
    await refresh_queue(database, clock, defaults)
    now = clock.now()
    async with database.read() as tx:
        queue = await list_positions(tx, tenant_id=tenant_id)
        active = _active(queue)
        counts = await count_messages(tx, active) if active is not None else None
        rate = await send_rate(tx, active, now) if active is not None else 0.0
        others = [position for position in queue if position is not active]
        snapshot = ReadSnapshot(database, tx)
        following, starts_at = await _next_campaign(snapshot, clock, defaults, others)
        limits = await load_bulk_limits(snapshot, defaults, tenant_id, now)
    unsent = counts.waiting + counts.sending if counts is not None else 0
    is_moving = active is not None and active.status is QueueStatus.PROCESSING and rate > 0
    return QueueProgress(
        active=active,
        counts=counts,
        rate=rate,
        eta=now + round(unsent / rate * 1000) if is_moving else None,
        queued=len(others),
        next_campaign_at=None if starts_at is None else max(starts_at, now),
        next_campaign_reason=following.defer_reason if following else None,
        reason=active.defer_reason if active else None,
        next_run_at=end_of_deferral(active) if active else None,
        limits=limits,
    )


async def _next_campaign(
    snapshot: ReadSnapshot, clock: Clock, defaults: DefaultLimits, others: Sequence[QueuePosition]
) -> tuple[QueuePosition | None, Instant | None]:
    """Return the campaign that is sent next, and when it is expected to send its next message.

    Campaigns that only a user can release come last, without a time. If the stored forecast lacks one of the others,
    because the queue has just changed, it is computed for this answer.
    """
    ends = [position for position in others if position.deferred_until != INDEFINITELY]
    expected = {each.campaign_id: each.expected_at for each in ends}  # None for one that is being sent
    if None in expected.values():
        found = await forecast(snapshot, clock, defaults, tenant_id=None)
        expected = {each.campaign_id: _start_of(each, found.computed_at) for each in found.campaigns}
    starts = [(at, each) for each in ends if (at := expected[each.campaign_id]) is not None]
    if starts:
        starts_at, following = min(starts, key=lambda start: start[0])
        return following, starts_at
    return next(iter(ends or others), None), None


def _start_of(campaign: CampaignForecast, now: Instant) -> Instant | None:
    """Return the expected start; now if everything was sent and only the end is not recorded yet."""
    return campaign.starts_at if campaign.remaining else now


def _active(queue: list[QueuePosition]) -> QueuePosition | None:
    """Return the first campaign that is being sent; if all are deferred, the one whose deferral ends first."""
    sending = [position for position in queue if position.status is QueueStatus.PROCESSING]
    if sending:
        return sending[0]
    return min(queue, key=lambda each: (each.defer_reason == QUEUED, each.deferred_until or 0), default=None)
