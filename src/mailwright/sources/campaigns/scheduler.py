"""Advance campaigns in the background: enqueue audiences, cancel messages, decide A/B tests, complete campaigns.

Any worker may do this at any time, because each step is idempotent.
"""

from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, bindparam, select, update

from mailwright.domain.campaign import (
    AWAITING_WINNER,
    ENQUEUE_FAILED,
    INDEFINITELY,
    SCHEDULE_OVERDUE,
    CampaignStatus,
)
from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant, isoformat
from mailwright.domain.errors import NotDurable
from mailwright.domain.guard_rails import DEFAULT_GUARD_RAILS, GuardRails
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import Limits
from mailwright.domain.schedule import OVERDUE_AFTER
from mailwright.domain.states import EventType
from mailwright.ops.logs import logger
from mailwright.outbox import defer
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.operations import cancel_lane
from mailwright.outbox.queue_states import REOPENED, completed_values
from mailwright.sources.campaigns import ab_test
from mailwright.sources.campaigns.announce import AnnouncedCampaign, announce, announce_hold, announce_queue
from mailwright.sources.campaigns.approval_notices import ApprovalNotices
from mailwright.sources.campaigns.enqueue import ENQUEUED_STATUSES, enqueue_batch
from mailwright.sources.campaigns.entries import QueueEntry, RunningAbTest, find_entry, update_entry
from mailwright.sources.campaigns.guard_rails import CampaignGuard
from mailwright.sources.campaigns.progress import COUNT_LANE, LANE_IS_MOVING, has_nothing_to_send
from mailwright.sources.campaigns.queue_recorder import QueueRecorder
from mailwright.sources.campaigns.sender_rules_hold import hold_if_rules_are_unmet
from mailwright.sources.campaigns.waves import advance_waves
from mailwright.sources.sender_rules import NO_SENDER_RULES, SenderRules
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import IS_WAITING, campaigns, deliveries, lane_deferrals, queue_entries

NO_LIMITS: Final = DefaultLimits(Limits())

# The number of messages that one transaction cancels, so that others can write in between.
BATCH_SIZE = 2_000
# How often completed campaigns with failed or unconfirmed messages are checked again.
RECHECK_EVERY: Instant = 10 * SECOND
RETRY_ENQUEUE_AFTER: Instant = MINUTE

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """The columns of a queue entry that decide its next step."""

    campaign_key: int
    campaign_id: str
    status: str
    scheduled_at: Instant | None
    lane: int
    enqueue_ended_at: Instant | None
    completed_at: Instant | None
    wave: int | None


def _entries(condition: ColumnElement[bool]) -> Select[Any]:
    columns = (
        queue_entries.c.campaign_key,
        campaigns.c.campaign_id,
        campaigns.c.status,
        campaigns.c.scheduled_at,
        queue_entries.c.lane,
        queue_entries.c.enqueue_ended_at,
        queue_entries.c.completed_at,
        queue_entries.c.wave,
    )
    query = select(*columns).join(campaigns, campaigns.c.id == queue_entries.c.campaign_key).where(condition)
    return query.order_by(queue_entries.c.id)


_IS_DEFERRED: Final = (
    select(lane_deferrals.c.lane)
    .where(
        lane_deferrals.c.lane == queue_entries.c.lane,
        lane_deferrals.c.deferred_until > bindparam("now"),
        campaigns.c.status.in_([CampaignStatus.READY, CampaignStatus.PAUSED]),
    )
    .exists()
)
_HAS_WAITING_MESSAGES: Final = (
    select(deliveries.c.message_key).where(IS_WAITING, deliveries.c.lane == queue_entries.c.lane).exists()
)
_MAY_HAVE_ENDED: Final = (campaigns.c.status == CampaignStatus.PAUSED) & queue_entries.c.enqueue_ended_at.is_not(None)
# The campaigns that are not completed, without those that are scheduled for later, or paused with recipients who have
# no message. Every worker runs these queries every second, so they are built once.
_UNFINISHED: Final = _entries(queue_entries.c.completed_at.is_(None) & (~_IS_DEFERRED | _MAY_HAVE_ENDED))
# Completed campaigns with failed or unconfirmed messages, which a user may have retried or resolved since, or paused
# with an earlier version, and cancelled campaigns that have waiting messages again: a message in doubt may have been
# resolved as "resend" after its campaign was cancelled.
_UNSETTLED: Final = _entries(
    queue_entries.c.completed_at.is_not(None)
    & (
        campaigns.c.status.in_([CampaignStatus.SENDING, CampaignStatus.PAUSED])
        | (campaigns.c.status == CampaignStatus.CANCELLED) & _HAS_WAITING_MESSAGES
    )
)


class CampaignScheduler:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        rules: SenderRules = NO_SENDER_RULES,
        rails: GuardRails = DEFAULT_GUARD_RAILS,
        notices: ApprovalNotices | None = None,
        *,
        defaults: DefaultLimits = NO_LIMITS,
    ) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._notices = notices
        self._guard = CampaignGuard(database, clock, rails)
        self._recorder = QueueRecorder(database, clock, defaults)
        self._rechecked_at: Instant | None = None

    async def tick(self) -> bool:
        """Take one step for each queued campaign. Return whether anything was done, so that there may be more."""
        has_progress = False
        for entry in await self._open_entries():
            try:
                has_progress |= await self._step(entry)
            except NotDurable:
                raise
            except Exception:  # one campaign that fails must not stop the others
                log.exception("campaign_step_failed", campaign=entry.campaign_id)
                await self._give_up_turn(entry)
        await self._record_queue()
        await announce_queue(self._database, self._clock.now())
        if self._notices is not None:
            await self._notices.send()
        return has_progress

    async def _give_up_turn(self, entry: OpenEntry) -> None:
        """Let the tenant's next campaign go first if the messages of this one cannot be created."""
        if entry.enqueue_ended_at is None and entry.status in ENQUEUED_STATUSES:
            until = self._clock.now() + RETRY_ENQUEUE_AFTER
            await defer.defer_lane(self._database, entry.lane, ENQUEUE_FAILED, until)

    async def _record_queue(self) -> None:
        try:
            await self._recorder.record()
        except NotDurable:
            raise
        except Exception:  # as above: the forecast reads all campaigns
            log.exception("queue_not_recorded")

    async def _step(self, entry: OpenEntry) -> bool:
        if entry.status == CampaignStatus.CANCELLED:
            return await self._cancel_messages(entry)
        if entry.status == CampaignStatus.PAUSED:
            return await self._end_paused(entry)
        if entry.completed_at is not None:
            return await self._recheck(entry)
        if self._is_overdue(entry):
            return await self._hold(entry)
        return await self._advance(entry)

    async def _advance(self, entry: OpenEntry) -> bool:
        """Judge the campaign by its guard rails, then enqueue its audience or complete it."""
        if await self._guard.check(entry.campaign_key):
            return False
        if entry.enqueue_ended_at is None:
            if await hold_if_rules_are_unmet(self._database, self._clock, self._rules, entry.campaign_key):
                return False
            return await enqueue_batch(self._database, self._clock, entry.campaign_key) is not None
        if entry.wave is not None:
            general = self._guard.general
            return await advance_waves(self._database, self._clock, general, entry.campaign_key, entry.lane)
        return await self._complete(entry)

    def _is_overdue(self, entry: OpenEntry) -> bool:
        """Return whether no worker started the campaign within a day of its send time."""
        is_scheduled = entry.status == CampaignStatus.READY and entry.scheduled_at is not None
        return is_scheduled and self._clock.now() - (entry.scheduled_at or 0) > OVERDUE_AFTER

    async def _hold(self, overdue: OpenEntry) -> bool:
        """Hold the campaigns until a user decides, because content that is a day late may be outdated."""
        async with self._database.write() as tx:
            entry = await find_entry(tx, overdue.campaign_key, to_change=True)
            if entry is None or entry.campaign_status is not CampaignStatus.READY:
                return False
            await defer.record_lane_deferral(tx, entry.lane, SCHEDULE_OVERDUE, INDEFINITELY)
        log.warning("campaign_overdue", campaign=overdue.campaign_id, scheduledAt=isoformat(overdue.scheduled_at))
        return True

    async def _open_entries(self) -> list[OpenEntry]:
        """Return the campaigns that are not completed, and from time to time the completed ones to check again."""
        now = self._clock.now()
        async with self._database.read() as tx:
            rows = [*await tx.execute(_UNFINISHED, {"now": now})]
            if self._rechecked_at is None or not 0 <= now - self._rechecked_at < RECHECK_EVERY:
                self._rechecked_at = now
                rows += await tx.execute(_UNSETTLED)
        return [OpenEntry(**row._mapping) for row in rows]

    async def _cancel_messages(self, cancelled: OpenEntry) -> bool:
        now = self._clock.now()
        async with self._database.write() as tx:
            if await cancel_lane(tx, cancelled.lane, by="campaign", now=now, limit=BATCH_SIZE):
                return True
            if (await _counts(tx, cancelled)).sending:
                return False
            await update_entry(tx, cancelled.campaign_key, **completed_values(now))
        return True

    async def _end_paused(self, paused: OpenEntry) -> bool:
        """End the pause of a campaign whose last messages have left, so that it is completed like any other."""
        now = self._clock.now()
        async with self._database.read() as tx:
            entry = await find_entry(tx, paused.campaign_key)
            if entry is None or not await has_nothing_to_send(tx, entry):
                return False
        async with self._database.write() as tx:
            entry = await find_entry(tx, paused.campaign_key, to_change=True)
            if entry is None or entry.campaign_status is not CampaignStatus.PAUSED:
                return False
            if not await has_nothing_to_send(tx, entry):
                return False
            await defer.end_lane_deferral(tx, entry.lane)
            sending = {"status": CampaignStatus.SENDING, "updated_at": now}
            await tx.execute(update(campaigns).where(campaigns.c.id == entry.campaign_key).values(**sending))
        return True

    async def _complete(self, enqueued: OpenEntry) -> bool:
        """Complete a campaign with nothing left to send. Its status is SENT if no message failed or is in doubt."""
        async with self._database.read() as tx:
            # This runs for every campaign at every tick, so messages are counted only if none is waiting or being sent.
            [moving] = await tx.run(LANE_IS_MOVING, lane=enqueued.lane)
            if _is_moving(moving):
                return False
        now = self._clock.now()
        async with self._database.write() as tx:
            entry = await find_entry(tx, enqueued.campaign_key, to_change=True)
            counts = await _counts(tx, enqueued)
            if entry is None or not _can_be_completed(entry) or _is_moving(counts):
                return False
            if entry.content.ab_test is not None:
                return await _advance_ab_test(tx, entry, entry.content.ab_test, now)
            await update_entry(tx, entry.campaign_key, **completed_values(now))
            if _is_clean(counts):
                await _mark_sent(tx, entry, now)
            else:
                await announce_hold(tx, _announced(entry), "failures" if counts.failed else "in_doubt", now)
        return True

    async def _recheck(self, completed: OpenEntry) -> bool:
        now = self._clock.now()
        async with self._database.write() as tx:
            entry = await find_entry(tx, completed.campaign_key, to_change=True)
            if entry is None or entry.completed_at is None or entry.campaign_status is not CampaignStatus.SENDING:
                return False
            counts = await _counts(tx, completed)
            if _is_moving(counts):
                await update_entry(tx, entry.campaign_key, **REOPENED)
                return True
            if _is_clean(counts):
                await _mark_sent(tx, entry, now)
                return True
        return False


async def _advance_ab_test(tx: Transaction, entry: QueueEntry, test: RunningAbTest, now: Instant) -> bool:
    """Advance an A/B test whose test group has its messages: wait for the results, then decide by them."""
    if test.decides_at is None:
        decides_at = now + test.wait
        content = replace(entry.content, ab_test=replace(test, decides_at=decides_at))
        await update_entry(tx, entry.campaign_key, content=content.as_text())
        await defer.record_lane_deferral(tx, entry.lane, AWAITING_WINNER, decides_at)
        return True
    if test.is_undecided or now < test.decides_at:
        return False
    await ab_test.end_test(tx, entry, test, now)
    return True


async def _counts(tx: Transaction, entry: OpenEntry) -> Any:
    [counts] = await tx.run(COUNT_LANE, lane=entry.lane)
    return counts


def _can_be_completed(entry: QueueEntry) -> bool:
    is_enqueued = entry.enqueue_ended_at is not None and entry.completed_at is None
    return is_enqueued and entry.campaign_status is CampaignStatus.SENDING


def _is_moving(counts: Any) -> bool:
    return bool(counts.waiting or counts.sending)


def _is_clean(counts: Any) -> bool:
    return not counts.failed and not counts.in_doubt


async def _mark_sent(tx: Transaction, entry: QueueEntry, now: Instant) -> None:
    values = {"status": CampaignStatus.SENT, "updated_at": now, "finished_at": now}
    await tx.execute(update(campaigns).where(campaigns.c.id == entry.campaign_key).values(**values))
    await announce(tx, _announced(entry), EventType.CAMPAIGN_FINISHED, now)


def _announced(entry: QueueEntry) -> AnnouncedCampaign:
    return AnnouncedCampaign(entry.campaign_key, entry.campaign_id, entry.campaign_name, entry.tenant_id)
