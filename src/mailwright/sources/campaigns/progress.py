"""The progress of campaigns, read from the queue. The reason for a deferral is never recomputed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select

from mailwright.domain.buckets import UNFINISHED, Bucket
from mailwright.domain.campaign import INDEFINITELY, CampaignStatus, QueueStatus
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.permits import Deferral, split_defer_reason
from mailwright.sources.campaigns.deferrals import load_lane_deferrals
from mailwright.sources.campaigns.entries import NO_LIST, QUEUE_ORDER, CampaignSnapshot
from mailwright.storage.database import Database, Rows, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaigns, lane_deferrals, queue_entries

COUNT_LANE = statement(__package__, "count_lane")
COUNT_BY_LANE = statement(__package__, "count_by_lane")
COUNT_RECENTLY_SENT = statement(__package__, "count_recently_sent")

# The period over which a campaign's send rate is measured, and the maximum number of messages that are read for it.
RATE_WINDOW: Instant = 10 * SECOND
MAX_KEYS_SCANNED = 20_000

_COUNTED = ("waiting", "sending", "bounced", "failed", "suppressed", "in_doubt", "closed_unknown", "cancelled")


@dataclass(frozen=True, slots=True)
class CampaignMessageCounts:
    """The audience of a campaign by bucket. Every report, page and command shows these numbers.

    Each recipient is in exactly one bucket, so the buckets add up to the audience.
    """

    planned: int  # recipients in the audience at the start
    recipients: int  # messages created so far
    buckets: Mapping[Bucket, int]

    @property
    def audience(self) -> int:
        return max(self.planned, self.recipients)

    @property
    def not_enqueued(self) -> int:
        return self.buckets[Bucket.NOT_ENQUEUED]

    @property
    def excluded(self) -> int:
        return self.buckets[Bucket.EXCLUDED]

    @property
    def waiting(self) -> int:
        return self.buckets[Bucket.WAITING]

    @property
    def sending(self) -> int:
        return self.buckets[Bucket.SENDING]

    @property
    def sent(self) -> int:
        return self.buckets[Bucket.SENT]

    @property
    def bounced(self) -> int:
        return self.buckets[Bucket.BOUNCED]

    @property
    def failed(self) -> int:
        return self.buckets[Bucket.FAILED]

    @property
    def suppressed(self) -> int:
        return self.buckets[Bucket.SUPPRESSED]

    @property
    def in_doubt(self) -> int:
        return self.buckets[Bucket.IN_DOUBT]

    @property
    def closed_unknown(self) -> int:
        return self.buckets[Bucket.CLOSED_UNKNOWN]

    @property
    def cancelled(self) -> int:
        return self.buckets[Bucket.CANCELLED]

    @property
    def remaining(self) -> int:
        """The number of recipients who may still receive a message."""
        return sum(self.buckets[bucket] for bucket in UNFINISHED)

    @property
    def done(self) -> int:
        return self.audience - self.remaining

    @property
    def percent(self) -> float:
        return round(100 * self.done / self.audience, 1) if self.audience else 0.0


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """A campaign in the queue, with its deferral."""

    campaign_key: int
    campaign_id: str
    name: str
    tenant_id: int
    lane: int
    campaign_status: CampaignStatus
    status: QueueStatus
    defer_reason: str | None
    deferred_until: Instant | None  # INDEFINITELY: until a user acts
    is_enqueued: bool
    planned: int
    recipients: int
    announced: str | None = None  # the last state that webhooks were notified of
    stored_reason: str | None = None  # the reason for the deferral with its detail
    awaits_recipients: bool = False  # the rest is enqueued after the A/B test, or by another source


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


async def list_positions(tx: Transaction, now: Instant, *, tenant_id: int | None) -> list[QueuePosition]:
    """Return the queued campaigns in order."""
    is_queued = queue_entries.c.completed_at.is_(None) & (campaigns.c.status != CampaignStatus.CANCELLED)
    query = _positions(now).where(is_queued)
    if tenant_id is not None:
        query = query.where(queue_entries.c.tenant_id == tenant_id)
    return await _with_deferrals(tx, await tx.execute(query.order_by(QUEUE_ORDER)), now)


async def find_position(tx: Transaction, campaign_key: int, now: Instant) -> QueuePosition | None:
    return next(iter(await find_positions(tx, [campaign_key], now)), None)


async def find_positions(tx: Transaction, campaign_keys: Sequence[int], now: Instant) -> list[QueuePosition]:
    """Return the positions of these campaigns, including completed ones."""
    rows = await tx.execute(_positions(now).where(queue_entries.c.campaign_key.in_(campaign_keys)))
    return await _with_deferrals(tx, rows, now)


async def _with_deferrals(tx: Transaction, rows: Rows, now: Instant) -> list[QueuePosition]:
    """Load the deferrals only if there are campaigns: a worker looks for them every second."""
    deferrals = await load_lane_deferrals(tx, now) if rows else {}
    return [_position(row, deferrals.get(row.lane)) for row in rows]


async def count_messages(tx: Transaction, position: QueuePosition) -> CampaignMessageCounts:
    [row] = await tx.run(COUNT_LANE, lane=position.lane)
    return _counts(position, row._mapping)


async def count_messages_of(tx: Transaction, positions: Sequence[QueuePosition]) -> list[CampaignMessageCounts]:
    """Count the messages of several campaigns with one query, in the order of the positions."""
    rows = await tx.run(COUNT_BY_LANE, lanes=[(each.lane,) for each in positions]) if positions else ()
    by_lane = {row.lane: {name: row._mapping[name] for name in _COUNTED} for row in rows}
    return [_counts(position, by_lane[position.lane]) for position in positions]


async def queue_progress(database: Database, clock: Clock, *, tenant_id: int | None) -> QueueProgress:
    """Return the progress of the campaign that is being sent, and how many wait behind it."""
    now = clock.now()
    async with database.read() as tx:
        queue = await list_positions(tx, now, tenant_id=tenant_id)
        active = _active(queue)
        counts = await count_messages(tx, active) if active is not None else None
        rate = await send_rate(tx, active, now) if active is not None else 0.0
    others = [position for position in queue if position is not active]
    starts = [until for position in others if (until := end_of_deferral(position)) is not None]
    unsent = counts.waiting + counts.sending if counts is not None else 0
    is_moving = active is not None and active.status is QueueStatus.PROCESSING and rate > 0
    return QueueProgress(
        active=active,
        counts=counts,
        rate=rate,
        eta=now + round(unsent / rate * 1000) if is_moving else None,
        queued=len(others),
        next_campaign_at=min(starts, default=None),
        reason=active.defer_reason if active else None,
        next_run_at=end_of_deferral(active) if active else None,
    )


async def send_rate(tx: Transaction, position: QueuePosition, now: Instant) -> float:
    """Return the messages per second that the campaign has sent recently."""
    since = now - RATE_WINDOW
    [row] = await tx.run(COUNT_RECENTLY_SENT, lane=position.lane, since=since, now=now, most=MAX_KEYS_SCANNED)
    return float(row.messages) * SECOND / RATE_WINDOW


def _counts(position: QueuePosition, counted: Mapping[Any, int]) -> CampaignMessageCounts:
    """Compute the buckets. Messages in no other bucket were sent; the rest of the audience has no message."""
    buckets = dict.fromkeys(Bucket, 0) | {Bucket(name): number for name, number in counted.items()}
    buckets[Bucket.SENT] = position.recipients - sum(counted.values())
    without_message = Bucket.EXCLUDED if _has_ended_enqueueing(position) else Bucket.NOT_ENQUEUED
    buckets[without_message] = max(position.planned - position.recipients, 0)
    return CampaignMessageCounts(position.planned, position.recipients, buckets)


def _has_ended_enqueueing(position: QueuePosition) -> bool:
    is_cancelled = position.campaign_status is CampaignStatus.CANCELLED
    return position.is_enqueued and not position.awaits_recipients and not is_cancelled


def end_of_deferral(position: QueuePosition) -> Instant | None:
    """Return the end of the deferral, or None if only a user can end it."""
    return None if position.deferred_until == INDEFINITELY else position.deferred_until


def _active(queue: list[QueuePosition]) -> QueuePosition | None:
    """Return the campaign that is being sent; if all are deferred, the one whose deferral ends first."""
    sending = [position for position in queue if position.status is QueueStatus.PROCESSING]
    if sending:
        return sending[0]
    return min(queue, key=lambda position: position.deferred_until or 0, default=None)


def _positions(now: Instant) -> Select[Any]:
    is_deferred = (lane_deferrals.c.lane == queue_entries.c.lane) & (lane_deferrals.c.deferred_until > now)
    return (
        select(
            campaigns.c.campaign_id,
            campaigns.c.name,
            campaigns.c.status.label("campaign_status"),
            queue_entries,
            lane_deferrals.c.defer_reason,
            lane_deferrals.c.deferred_until,
        )
        .join(campaigns, campaigns.c.id == queue_entries.c.campaign_key)
        .outerjoin(lane_deferrals, is_deferred)
    )


def _position(row: Any, message_deferral: Deferral | None = None) -> QueuePosition:
    """Build a position. `message_deferral` is the deferral of the messages if the campaign itself is not deferred."""
    reason, until = row.defer_reason, row.deferred_until
    content = CampaignSnapshot.read(row.content)
    if message_deferral is not None:
        reason, until = message_deferral.reason, message_deferral.until
    return QueuePosition(
        campaign_key=row.campaign_key,
        campaign_id=row.campaign_id,
        name=row.name,
        tenant_id=row.tenant_id,
        lane=row.lane,
        campaign_status=CampaignStatus(row.campaign_status),
        status=_status(row.completed_at, until),
        defer_reason=split_defer_reason(reason)[0],
        stored_reason=reason,
        deferred_until=until,
        is_enqueued=row.enqueue_ended_at is not None,
        planned=row.planned,
        recipients=row.recipients,
        announced=row.announced,
        awaits_recipients=content.ab_test is not None or row.wave is not None or content.lists == (NO_LIST,),
    )


def _status(completed_at: Instant | None, deferred_until: Instant | None) -> QueueStatus:
    if completed_at is not None:
        return QueueStatus.COMPLETED
    return QueueStatus.PROCESSING if deferred_until is None else QueueStatus.PENDING
