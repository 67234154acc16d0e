"""The progress of campaigns, read from the queue. The reason for a deferral is never recomputed."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, select, union

from mailwright.domain.buckets import UNFINISHED, Bucket
from mailwright.domain.campaign import INDEFINITELY, CampaignStatus, QueueStatus
from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import split_defer_reason
from mailwright.domain.states import Status
from mailwright.sources.campaigns.entries import NO_LIST, QUEUE_ORDER, CampaignSnapshot, QueueEntry
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaigns, deliveries, messages, queue_entries

COUNT_LANE = statement(__package__, "count_lane")
COUNT_BY_LANE = statement(__package__, "count_by_lane")
COUNT_RECENTLY_SENT = statement(__package__, "count_recently_sent")
LANE_IS_MOVING = statement(__package__, "lane_is_moving")

# The period over which a campaign's send rate is measured, and the maximum number of messages that are read for it.
RATE_WINDOW: Instant = 10 * SECOND
MAX_KEYS_SCANNED = 20_000
# The number of recipients at each end of the alphabet whose providers tell where a campaign went.
SAMPLED = 100

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
    expected_at: Instant | None = None  # when the forecast expects its next message, if it is not being sent
    announced: str | None = None  # the last state that webhooks were notified of
    awaits_recipients: bool = False  # the rest is enqueued after the A/B test, or by another source


async def list_positions(tx: Transaction, *, tenant_id: int | None) -> list[QueuePosition]:
    """Return the queued campaigns in order."""
    is_queued = queue_entries.c.completed_at.is_(None) & (campaigns.c.status != CampaignStatus.CANCELLED)
    query = _positions().where(is_queued)
    if tenant_id is not None:
        query = query.where(queue_entries.c.tenant_id == tenant_id)
    return [_position(row) for row in await tx.execute(query.order_by(QUEUE_ORDER))]


async def find_position(tx: Transaction, campaign_key: int) -> QueuePosition | None:
    return next(iter(await find_positions(tx, [campaign_key])), None)


async def find_positions(tx: Transaction, campaign_keys: Sequence[int]) -> list[QueuePosition]:
    """Return the positions of these campaigns, including completed ones."""
    rows = await tx.execute(_positions().where(queue_entries.c.campaign_key.in_(campaign_keys)))
    return [_position(row) for row in rows]


async def count_messages(tx: Transaction, position: QueuePosition) -> CampaignMessageCounts:
    [row] = await tx.run(COUNT_LANE, lane=position.lane)
    return _counts(position, row._mapping)


async def count_messages_of(tx: Transaction, positions: Sequence[QueuePosition]) -> list[CampaignMessageCounts]:
    """Count the messages of several campaigns with one query, in the order of the positions."""
    rows = await tx.run(COUNT_BY_LANE, lanes=[(each.lane,) for each in positions]) if positions else ()
    by_lane = {row.lane: {name: row._mapping[name] for name in _COUNTED} for row in rows}
    return [_counts(position, by_lane[position.lane]) for position in positions]


async def has_nothing_to_send(tx: Transaction, entry: QueueEntry) -> bool:
    """Return whether every recipient has a message, and none of them waits or is being sent."""
    content = entry.content
    if entry.enqueue_ended_at is None or entry.wave is not None or content.ab_test is not None:
        return False
    if content.lists == (NO_LIST,) and entry.recipients < entry.planned:
        return False  # Another source adds the recipients.
    [moving] = await tx.run(LANE_IS_MOVING, lane=entry.lane)
    return not moving.waiting and not moving.sending


async def sent_through(tx: Transaction, campaign_key: int) -> frozenset[str]:
    """Return the providers that sent messages of the campaign, from a sample of its recipients.

    Addresses have nothing to do with the order of sending, so that the sample covers the whole time.
    """
    of_campaign = select(messages.c.id).where(messages.c.campaign_key == campaign_key).limit(SAMPLED)
    first = of_campaign.order_by(messages.c.to_email).subquery()
    last = of_campaign.order_by(messages.c.to_email.desc()).subquery()
    sample = union(select(first.c.id), select(last.c.id))
    is_sent = (deliveries.c.status == Status.SENT) & deliveries.c.provider.is_not(None)
    found = select(deliveries.c.provider).where(deliveries.c.message_key.in_(sample), is_sent).distinct()
    return frozenset(row.provider for row in await tx.execute(found))


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


def _positions() -> Select[Any]:
    return select(
        campaigns.c.campaign_id, campaigns.c.name, campaigns.c.status.label("campaign_status"), queue_entries
    ).join(campaigns, campaigns.c.id == queue_entries.c.campaign_key)


def _position(row: Any) -> QueuePosition:
    content = CampaignSnapshot.read(row.content)
    return QueuePosition(
        campaign_key=row.campaign_key,
        campaign_id=row.campaign_id,
        name=row.name,
        tenant_id=row.tenant_id,
        lane=row.lane,
        campaign_status=CampaignStatus(row.campaign_status),
        status=QueueStatus(row.status),
        defer_reason=split_defer_reason(row.defer_reason)[0],
        deferred_until=row.deferred_until,
        expected_at=row.expected_at,
        is_enqueued=row.enqueue_ended_at is not None,
        planned=row.planned,
        recipients=row.recipients,
        announced=row.announced,
        awaits_recipients=content.ab_test is not None or row.wave is not None or content.lists == (NO_LIST,),
    )
