"""Progress: how far a campaign is, straight from the queue. Nobody computes a reason of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select

from mailwright.domain.campaign import INDEFINITELY, CampaignStatus, QueueStatus
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.permits import Deferral, split_defer_reason
from mailwright.sources.campaigns.deferrals import load_lane_deferrals
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaigns, lane_deferrals, queue_entries

COUNT_LANE = statement(__package__, "count_lane")
COUNT_BY_LANE = statement(__package__, "count_by_lane")
COUNT_RECENTLY_SENT = statement(__package__, "count_recently_sent")

# How far back a campaign's own rate looks, and how many of its mails at the most.
RATE_WINDOW: Instant = 10 * SECOND
MAX_KEYS_SCANNED = 20_000

# Where a mail can be that was not sent.
_ELSEWHERE = ("waiting", "sending", "failed", "withdrawn", "in_doubt", "closed_unknown", "cancelled")


@dataclass(frozen=True, slots=True)
class CampaignMessageCounts:
    planned: int
    recipients: int  # as many as have become messages so far
    waiting: int
    sending: int
    sent: int
    failed: int
    withdrawn: int  # left, or were deleted, before their turn
    in_doubt: int
    closed_unknown: int
    cancelled: int

    @property
    def done(self) -> int:
        return self.sent + self.failed + self.withdrawn + self.in_doubt + self.closed_unknown + self.cancelled

    @property
    def percent(self) -> float:
        total = max(self.planned, self.recipients)
        return round(100 * self.done / total, 1) if total else 0.0


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """A campaign's queue entry as people see it."""

    campaign_key: int
    campaign_id: str
    name: str
    tenant_id: int
    lane: int
    campaign_status: CampaignStatus
    status: QueueStatus
    defer_reason: str | None
    deferred_until: Instant | None  # UNTIL_TOLD: until a person ends the wait
    is_walked: bool
    planned: int
    recipients: int


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """What a page that watches the queue shows."""

    active: QueuePosition | None
    counts: CampaignMessageCounts | None
    rate: float  # of the active campaign, in mails per second
    eta: Instant | None
    queued: int
    next_campaign_at: Instant | None
    reason: str | None
    next_run_at: Instant | None


async def list_positions(tx: Transaction, now: Instant, *, tenant_id: int | None) -> list[QueuePosition]:
    """Everything in line, in its order."""
    query = _places(now).where(queue_entries.c.completed_at.is_(None), campaigns.c.status != CampaignStatus.CANCELLED)
    if tenant_id is not None:
        query = query.where(queue_entries.c.tenant_id == tenant_id)
    waiting = await load_lane_deferrals(tx, now)
    rows = await tx.execute(query.order_by(queue_entries.c.id))
    return [_place(row, waiting.get(row.lane)) for row in rows]


async def find_position(tx: Transaction, campaign_key: int, now: Instant) -> QueuePosition | None:
    rows = await tx.execute(_places(now).where(queue_entries.c.campaign_key == campaign_key))
    return _place(rows[0], (await load_lane_deferrals(tx, now)).get(rows[0].lane)) if rows else None


async def find_positions(tx: Transaction, campaign_keys: Sequence[int], now: Instant) -> list[QueuePosition]:
    """Of these campaigns, also of those that have ended."""
    waiting = await load_lane_deferrals(tx, now)
    rows = await tx.execute(_places(now).where(queue_entries.c.campaign_key.in_(campaign_keys)))
    return [_place(row, waiting.get(row.lane)) for row in rows]


async def count_messages(tx: Transaction, place: QueuePosition) -> CampaignMessageCounts:
    [row] = await tx.run(COUNT_LANE, lane=place.lane)
    return _counts(place, row._mapping)


async def count_messages_of(tx: Transaction, some: Sequence[QueuePosition]) -> list[CampaignMessageCounts]:
    """Of several at once, in their order."""
    rows = await tx.run(COUNT_BY_LANE, lanes=[(place.lane,) for place in some]) if some else ()
    found = {row.lane: {name: row._mapping[name] for name in _ELSEWHERE} for row in rows}
    return [_counts(place, found[place.lane]) for place in some]


async def queue_progress(database: Database, clock: Clock, *, tenant_id: int | None) -> QueueProgress:
    now = clock.now()
    async with database.read() as tx:
        line = await list_positions(tx, now, tenant_id=tenant_id)
        active = _active(line)
        found = await count_messages(tx, active) if active is not None else None
        rate = await send_rate(tx, active, now) if active is not None else 0.0
    waiting = [each for each in line if each is not active]
    upcoming = [until for each in waiting if (until := _known_end(each)) is not None]
    left = found.waiting + found.sending if found is not None else 0
    is_moving = active is not None and active.status is QueueStatus.PROCESSING and rate > 0
    return QueueProgress(
        active=active,
        counts=found,
        rate=rate,
        eta=now + round(left / rate * 1000) if is_moving else None,
        queued=len(waiting),
        next_campaign_at=min(upcoming, default=None),
        reason=active.defer_reason if active else None,
        next_run_at=_known_end(active) if active else None,
    )


async def send_rate(tx: Transaction, place: QueuePosition, now: Instant) -> float:
    """Mails per second that the campaign itself has sent of late, whatever else the workers send."""
    [row] = await tx.run(COUNT_RECENTLY_SENT, lane=place.lane, since=now - RATE_WINDOW, now=now, most=MAX_KEYS_SCANNED)
    return float(row.mails) * SECOND / RATE_WINDOW


def _counts(place: QueuePosition, elsewhere: Mapping[Any, int]) -> CampaignMessageCounts:
    """Whatever is nowhere else was sent."""
    return CampaignMessageCounts(
        place.planned, place.recipients, **elsewhere, sent=place.recipients - sum(elsewhere.values())
    )


def _known_end(place: QueuePosition) -> Instant | None:
    """None where only a person ends the wait."""
    return None if place.deferred_until == INDEFINITELY else place.deferred_until


def _active(line: list[QueuePosition]) -> QueuePosition | None:
    """The one that is being sent; where all wait, the one whose wait ends first."""
    moving = [each for each in line if each.status is QueueStatus.PROCESSING]
    if moving:
        return moving[0]
    return min(line, key=lambda each: each.deferred_until or 0, default=None)


def _places(now: Instant) -> Select[Any]:
    held = (lane_deferrals.c.lane == queue_entries.c.lane) & (lane_deferrals.c.deferred_until > now)
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
        .outerjoin(lane_deferrals, held)
    )


def _place(row: Any, wait: Deferral | None = None) -> QueuePosition:
    """`wait`: what its mails wait for where nothing holds it as a whole."""
    reason, until = (row.defer_reason, row.deferred_until) if wait is None else (wait.reason, wait.until)
    return QueuePosition(
        campaign_key=row.campaign_key,
        campaign_id=row.campaign_id,
        name=row.name,
        tenant_id=row.tenant_id,
        lane=row.lane,
        campaign_status=CampaignStatus(row.campaign_status),
        status=_status(row.completed_at, until),
        defer_reason=split_defer_reason(reason)[0],
        deferred_until=until,
        is_walked=row.enqueue_ended_at is not None,
        planned=row.planned,
        recipients=row.recipients,
    )


def _status(completed_at: Instant | None, deferred_until: Instant | None) -> QueueStatus:
    if completed_at is not None:
        return QueueStatus.COMPLETED
    return QueueStatus.PROCESSING if deferred_until is None else QueueStatus.PENDING
