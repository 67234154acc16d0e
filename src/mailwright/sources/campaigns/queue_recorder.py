"""Record the state of every campaign in the queue, and when the forecast expects its next message.

Deferrals and the begin of sending are recorded where they happen. This module records the states that follow from other
campaigns, workers and providers: a worker does so every second. If no worker is running, the process that shows the
queue does it.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

import orjson
from sqlalchemy import func, or_, select

from mailwright.domain.campaign import (
    INDEFINITELY,
    NO_WORKER,
    NON_LIMIT_REASONS,
    QUEUED,
    CampaignStatus,
    QueueStatus,
)
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import MIN_DEFERRAL, Deferral, split_defer_reason
from mailwright.domain.working_hours import ALWAYS
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.queue_states import OUTAGES, CampaignQueueState, store_expected, store_state
from mailwright.outbox.sending_hold import SendingHold, load_hold
from mailwright.outbox.workers import load_present
from mailwright.sources.campaigns.deferrals import LaneOutages, load_message_deferrals, load_outages
from mailwright.sources.campaigns.entries import QUEUE_ORDER
from mailwright.sources.campaigns.forecast import forecast
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaigns, lane_deferrals, queue_entries

LIST_LANES_WITH_MESSAGES = statement(__package__, "list_lanes_with_messages")

# How often a worker computes the expected starts again while campaigns wait.
FORECAST_EVERY: Final[Instant] = 10 * SECOND
_PENDING, _PROCESSING = QueueStatus.PENDING, QueueStatus.PROCESSING


@dataclass(frozen=True, slots=True)
class _Facts:
    """Everything outside an entry that decides its state."""

    now: Instant
    has_worker: bool
    hold: SendingHold | None
    outages: LaneOutages
    messages: Mapping[int, Deferral]  # of lanes that may send, but none of whose messages is due
    with_messages: frozenset[int]  # lanes with messages that no worker has claimed


@dataclass(slots=True)
class _Ahead:
    """The campaigns that come before an entry in its tenant's queue."""

    has_turn: bool = False  # one of them may be sent now
    deferrals: set[tuple[str, Instant]] = field(default_factory=set)  # by limits


class QueueRecorder:
    def __init__(self, database: Database, clock: Clock, defaults: DefaultLimits) -> None:
        self._database = database
        self._clock = clock
        self._defaults = defaults
        self._forecast_at: Instant | None = None
        self._overtaken: dict[int, Instant] = {}  # Since when entries that were being sent wait for others, by ID.

    async def record(self) -> None:
        now = self._clock.now()
        async with self._database.read() as tx:
            rows = await _open_entries(tx, now)
            facts = await _load_facts(tx, now) if rows else None
        if facts is None:
            return
        changed = [(row, state) for row, state in self._decide(rows, facts) if state != _stored(row)]
        if changed:
            async with self._database.write() as tx:
                for row, state in changed:
                    await store_state(tx, row.id, _stored(row), state)
        if len(rows) > 1 and (changed or self._is_forecast_old(rows, now)):
            self._forecast_at = now
            await _record_forecast(self._database, self._clock, self._defaults)

    def _is_forecast_old(self, rows: list[Any], now: Instant) -> bool:
        is_due = self._forecast_at is None or not 0 <= now - self._forecast_at < FORECAST_EVERY
        return is_due or any(row.status == _PENDING and row.expected_at is None and _has_end(row) for row in rows)

    def _decide(self, rows: list[Any], facts: _Facts) -> list[tuple[Any, CampaignQueueState]]:
        ahead: dict[tuple[int, str | None], _Ahead] = {}
        found = []
        for row in rows:
            mine = ahead.setdefault((row.tenant_id, facts.outages.lanes.provider_of(row.lane)), _Ahead())
            state = _deferred_state(row, facts, mine) or self._state_in_turn(row, facts, mine)
            found.append((row, state))
            if _is_limited(row):
                mine.deferrals.add((row.lane_reason, row.lane_until))
            may_send = state.status is _PROCESSING or state.reason in (None, QUEUED)
            has_more = row.enqueue_ended_at is None or row.lane in facts.with_messages
            mine.has_turn |= may_send and has_more and row.lane_until is None
        return found

    def _state_in_turn(self, row: Any, facts: _Facts, ahead: _Ahead) -> CampaignQueueState:
        """Return the state of a campaign that nothing defers."""
        is_processing = row.status == _PROCESSING
        if not ahead.has_turn:
            self._overtaken.pop(row.id, None)
            if is_processing or (row.defer_reason == QUEUED and ahead.deferrals) or _is_reopened(row, facts.now):
                return _stored(row)  # It is recorded when its first message begins.
            return CampaignQueueState(_PENDING)
        # A campaign that is being sent may have to wait for a few messages of an earlier one.
        if is_processing and facts.now - self._overtaken.setdefault(row.id, facts.now) < MIN_DEFERRAL:
            return _stored(row)
        return CampaignQueueState(_PENDING, QUEUED, row.expected_at)


async def refresh_queue(database: Database, clock: Clock, defaults: DefaultLimits) -> None:
    """Bring the queue up to date before it is shown, if no worker does that or a campaign has just changed."""
    now = clock.now()
    q = queue_entries.c
    is_waiting = (
        q.completed_at.is_(None),
        q.status == _PENDING.value,
        func.coalesce(q.deferred_until, 0) != INDEFINITELY,
    )
    has_changed = or_(q.expected_at.is_(None), q.defer_reason == NO_WORKER)
    async with database.read() as tx:
        has_worker = bool(await load_present(tx, now))
        is_old = not has_worker or bool(await tx.execute(select(q.id).where(*is_waiting, has_changed).limit(1)))
    if is_old:
        await QueueRecorder(database, clock, defaults).record()


async def _record_forecast(database: Database, clock: Clock, defaults: DefaultLimits) -> None:
    """Store when each campaign that is not being sent is expected to send its next message.

    A forecast of a queue that has changed in the meantime is dropped; the next one follows soon.
    """
    async with database.read() as tx:
        before = await _open_entries(tx, clock.now())
    found = await forecast(database, clock, defaults, tenant_id=None)
    expected = {each.campaign_id: each.starts_at for each in found.campaigns}
    if not any(row.status == _PENDING and _has_moved(row, expected.get(row.campaign_id)) for row in before):
        return
    async with database.write() as tx:
        rows = await _open_entries(tx, clock.now())
        if [_without_forecast(row) for row in rows] != [_without_forecast(row) for row in before]:
            return
        for row in rows:
            if row.status == _PENDING and _has_moved(row, expected.get(row.campaign_id)):
                await store_expected(tx, row.id, expected.get(row.campaign_id))


def _has_end(row: Any) -> bool:
    return row.deferred_until is None or row.deferred_until < INDEFINITELY


def _without_forecast(row: Any) -> tuple[Any, ...]:
    return row.id, row.status, row.defer_reason, row.lane_reason, row.lane_until


def _has_moved(row: Any, expected_at: Instant | None) -> bool:
    if row.expected_at is None or expected_at is None:
        return row.expected_at is not expected_at
    return abs(int(row.expected_at - expected_at)) >= SECOND


def _deferred_state(row: Any, facts: _Facts, ahead: _Ahead) -> CampaignQueueState | None:
    """Return the state of a campaign that is deferred, or that no worker can send."""
    if facts.hold is not None:
        return CampaignQueueState(_PENDING, facts.hold.reason, INDEFINITELY)
    if row.lane_until is not None:
        is_shared = (row.lane_reason, row.lane_until) in ahead.deferrals and not _sets_limit(row)
        if is_shared:  # When the tenant's limit ends, the campaigns before this one are sent first.
            return CampaignQueueState(_PENDING, QUEUED, row.expected_at)
        return CampaignQueueState(_PENDING, row.lane_reason, row.lane_until)
    if (outage := facts.outages.of(row.lane)) is not None:
        return CampaignQueueState(_PENDING, outage.reason, outage.until)
    deferral = facts.messages.get(row.lane)
    if deferral is not None and deferral.until - facts.now >= MIN_DEFERRAL:
        return CampaignQueueState(_PENDING, deferral.reason, deferral.until)
    return None if facts.has_worker else CampaignQueueState(_PENDING, NO_WORKER)


def _is_limited(row: Any) -> bool:
    return row.lane_until is not None and row.lane_reason not in NON_LIMIT_REASONS


def _is_reopened(row: Any, now: Instant) -> bool:
    """Return whether a limit defers the campaign, and a worker has just returned some permits."""
    is_unexpired = row.deferred_until is not None and now < row.deferred_until < INDEFINITELY
    return is_unexpired and row.defer_reason not in (QUEUED, *NON_LIMIT_REASONS, *OUTAGES)


def _sets_limit(row: Any) -> bool:
    """Return whether the campaign itself sets the limit that defers it."""
    name = split_defer_reason(row.lane_reason)[0]
    own = orjson.loads(row.limits)
    return own.get("working_hours" if name == "outside_hours" else name) not in (None, False, ALWAYS)


def _stored(row: Any) -> CampaignQueueState:
    return CampaignQueueState(QueueStatus(row.status), row.defer_reason, row.deferred_until)


async def _load_facts(tx: Transaction, now: Instant) -> _Facts:
    return _Facts(
        now=now,
        has_worker=bool(await load_present(tx, now)),
        hold=await load_hold(tx),
        outages=await load_outages(tx, now),
        messages=await load_message_deferrals(tx, now),
        with_messages=frozenset([row.lane for row in await tx.run(LIST_LANES_WITH_MESSAGES)]),
    )


async def _open_entries(tx: Transaction, now: Instant) -> list[Any]:
    """Return the campaigns that are not completed, in order, with the deferrals of their lanes."""
    q, held = queue_entries.c, lane_deferrals.c
    columns = (
        q.id,
        q.tenant_id,
        q.lane,
        q.status,
        q.defer_reason,
        q.deferred_until,
        q.expected_at,
        q.enqueue_ended_at,
        q.limits,
        campaigns.c.campaign_id,
        held.defer_reason.label("lane_reason"),
        held.deferred_until.label("lane_until"),
    )
    query = (
        select(*columns)
        .join(campaigns, campaigns.c.id == q.campaign_key)
        .outerjoin(lane_deferrals, (held.lane == q.lane) & (held.deferred_until > now))
        .where(q.completed_at.is_(None), campaigns.c.status != CampaignStatus.CANCELLED)
        .order_by(QUEUE_ORDER)
    )
    return list(await tx.execute(query))
