"""The conductor: what must happen to campaigns whether or not anybody looks. Any worker does it, twice is harmless.

Audiences are walked, cancelled campaigns are emptied, experiments decided, and what has nothing left to send is
completed.
"""

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, select, update

from mailwright.domain.campaign import AWAITING_WINNER, CampaignStatus
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import Event
from mailwright.domain.states import CLAIMABLE, EventType
from mailwright.ops.logs import logger
from mailwright.outbox import defer
from mailwright.outbox.settle import APPEND_EVENTS, event_row
from mailwright.sources.campaigns import ab_test
from mailwright.sources.campaigns.enqueue import enqueue_batch
from mailwright.sources.campaigns.entries import QueueEntry, RunningAbTest, find_entry, update_entry
from mailwright.sources.campaigns.progress import COUNT_LANE
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaigns, deliveries, lane_deferrals, queue_entries

CANCEL_LANE = statement(__package__, "cancel_lane")
LANE_IS_MOVING = statement(__package__, "lane_is_moving")

# So many messages are cancelled in one transaction: others write in between.
BATCH_SIZE = 2_000
# Campaigns that are through, but for failures and doubts, are looked at again this often.
RECHECK_EVERY: Instant = 10 * SECOND

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """As much of a queue entry as tells what is to be done."""

    campaign_key: int
    campaign_id: str
    status: str
    lane: int
    enqueue_ended_at: Instant | None
    completed_at: Instant | None


class CampaignScheduler:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._looked_back_at: Instant | None = None

    async def tick(self) -> bool:
        """One step for each campaign in line; true when anything was done, so that there may be more."""
        has_done = False
        for each in [*await self._unfinished(), *await self._with_loose_ends()]:
            try:
                has_done |= await self._step(each)
            except NotDurable:
                raise
            except Exception:  # one campaign that cannot go on must not hold up the others
                log.exception("campaign_stuck", campaign=each.campaign_id)
        return has_done

    async def _step(self, each: OpenEntry) -> bool:
        if each.status == CampaignStatus.CANCELLED:
            return await self._empty(each)
        if each.completed_at is not None:
            return await self._look_again(each)
        if each.enqueue_ended_at is None:
            return await enqueue_batch(self._database, self._clock, each.campaign_key) is not None
        return await self._complete(each)

    async def _unfinished(self) -> list[OpenEntry]:
        """What waits for its time, or is paused, is left alone until then."""
        held = select(lane_deferrals.c.lane).where(
            lane_deferrals.c.lane == queue_entries.c.lane,
            lane_deferrals.c.deferred_until > self._clock.now(),
            campaigns.c.status.in_([CampaignStatus.READY, CampaignStatus.PAUSED]),
        )
        return await self._those(queue_entries.c.completed_at.is_(None) & ~held.exists())

    async def _with_loose_ends(self) -> list[OpenEntry]:
        """Completed, and not sent: a doubt may have been resolved since, or a failed message be tried again."""
        now = self._clock.now()
        if self._looked_back_at is not None and 0 <= now - self._looked_back_at < RECHECK_EVERY:
            return []
        self._looked_back_at = now
        is_sending = campaigns.c.status == CampaignStatus.SENDING
        # A doubt that was decided to be sent again after the campaign was cancelled: it is not sent any more.
        waits = select(deliveries.c.message_key).where(
            deliveries.c.locked_by.is_(None),
            deliveries.c.status.in_(CLAIMABLE),
            deliveries.c.lane == queue_entries.c.lane,
        )
        is_refilled = (campaigns.c.status == CampaignStatus.CANCELLED) & waits.exists()
        return await self._those(queue_entries.c.completed_at.is_not(None) & (is_sending | is_refilled))

    async def _those(self, condition: ColumnElement[bool]) -> list[OpenEntry]:
        columns = (
            queue_entries.c.campaign_key,
            campaigns.c.campaign_id,
            campaigns.c.status,
            queue_entries.c.lane,
            queue_entries.c.enqueue_ended_at,
            queue_entries.c.completed_at,
        )
        query = select(*columns).join(campaigns, campaigns.c.id == queue_entries.c.campaign_key).where(condition)
        async with self._database.read() as tx:
            return [OpenEntry(**row._mapping) for row in await tx.execute(query.order_by(queue_entries.c.id))]

    async def _empty(self, cancelled: OpenEntry) -> bool:
        now = self._clock.now()
        async with self._database.write() as tx:
            rows = await tx.run(CANCEL_LANE, lane=cancelled.lane, limit=BATCH_SIZE)
            if rows:
                event = Event(EventType.CANCELLED, now, {"by": "campaign"})
                await tx.run(APPEND_EVENTS, events=[event_row(row.message_key, row.tenant_id, event) for row in rows])
                return True
            if (await _counts(tx, cancelled)).sending:
                return False
            await update_entry(tx, cancelled.campaign_key, completed_at=now)
        return True

    async def _complete(self, walked: OpenEntry) -> bool:
        """Nothing waits and nothing is under way: with no failure and no doubt the campaign is sent."""
        async with self._database.read() as tx:
            # Asked of every campaign at every tick: only what does not move is worth a count.
            [found] = await tx.run(LANE_IS_MOVING, lane=walked.lane)
            if _is_moving(found):
                return False
        now = self._clock.now()
        async with self._database.write() as tx:
            entry = await find_entry(tx, walked.campaign_key, to_change=True)
            found = await _counts(tx, walked)
            if entry is None or not _may_be_completed(entry) or _is_moving(found):
                return False
            if entry.content.ab_test is not None:
                return await _go_on_with_contest(tx, entry, entry.content.ab_test, now)
            await update_entry(tx, entry.campaign_key, completed_at=now)
            if _is_clean(found):
                await _sent(tx, entry.campaign_key, now)
        return True

    async def _look_again(self, completed: OpenEntry) -> bool:
        now = self._clock.now()
        async with self._database.write() as tx:
            entry = await find_entry(tx, completed.campaign_key, to_change=True)
            if entry is None or entry.completed_at is None or entry.campaign_status is not CampaignStatus.SENDING:
                return False
            found = await _counts(tx, completed)
            if _is_moving(found):
                await update_entry(tx, entry.campaign_key, completed_at=None)
                return True
            if _is_clean(found):
                await _sent(tx, entry.campaign_key, now)
                return True
        return False


async def _go_on_with_contest(tx: Transaction, entry: QueueEntry, contest: RunningAbTest, now: Instant) -> bool:
    """The part that tries the versions has got its mail: its readers have their time, then the winner is found."""
    if contest.decides_at is None:
        decides_at = now + contest.wait
        content = replace(entry.content, ab_test=replace(contest, decides_at=decides_at))
        await update_entry(tx, entry.campaign_key, content=content.as_text())
        await defer.record_lane_deferral(tx, entry.lane, AWAITING_WINNER, decides_at)
        return True
    if now < contest.decides_at:
        return False
    await ab_test.decide_winner(tx, entry, now, actor=ab_test.DECIDED_BY_STATISTICS)
    return True


async def _counts(tx: Transaction, each: OpenEntry) -> Any:
    [found] = await tx.run(COUNT_LANE, lane=each.lane)
    return found


def _may_be_completed(entry: QueueEntry) -> bool:
    is_walked = entry.enqueue_ended_at is not None and entry.completed_at is None
    return is_walked and entry.campaign_status is CampaignStatus.SENDING


def _is_moving(found: Any) -> bool:
    return bool(found.waiting or found.sending)


def _is_clean(found: Any) -> bool:
    return not found.failed and not found.in_doubt


async def _sent(tx: Transaction, campaign_key: int, now: Instant) -> None:
    values = {"status": CampaignStatus.SENT, "updated_at": now, "finished_at": now}
    await tx.execute(update(campaigns).where(campaigns.c.id == campaign_key).values(**values))
