"""Summarize a tenant's queue: the waiting messages per lane, each lane's deferral, and the messages that need an
operator.

The cost depends on the waiting messages, not on the sent ones.
"""

from typing import Final

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.lanes import is_of_campaign, lane_number
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.lifetimes import DELAYED_AFTER
from mailwright.domain.states import Priority, Status
from mailwright.outbox.message_records import MessageSearch, count
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement

WAITING_LANES = statement(__package__, "waiting_lanes")
FIRST_WAITING = statement(__package__, "first_waiting")
COUNT_NEEDING_OPERATOR = statement(__package__, "count_needing_operator")

# Maximum count. Larger numbers are shown as "more than 1,000".
MAX_COUNTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class WaitingLane:
    lane: int
    waiting: int
    due: int
    reason: str | None  # None if the lane is not deferred.
    until: Instant | None
    sequence_id: str | None = None  # The sequence whose lane it is.
    name: str | None = None

    @property
    def is_of_campaign(self) -> bool:
        return is_of_campaign(self.lane)


@dataclass(frozen=True, slots=True)
class QueueSummary:
    lanes: tuple[WaitingLane, ...]
    sending: int
    in_doubt: int
    dead_letters: int
    delayed: int = 0  # Messages that the receiving server or an outage has deferred for hours.
    failed_in_a_day: int = 0  # Messages that failed in the last 24 hours.

    @property
    def waiting(self) -> int:
        return sum(lane.waiting for lane in self.lanes)


async def summarize_queue(database: Database, now: Instant, tenant_id: int) -> QueueSummary:
    async with database.read() as tx:
        lanes = [lane for priority in _PRIORITIES for lane in await _lanes(tx, now, priority, tenant_id)]
        [row] = await tx.run(
            COUNT_NEEDING_OPERATOR, tenant_id=tenant_id, most=MAX_COUNTED + 1, delayed_since=now - DELAYED_AFTER
        )
        failed = await count(tx, tenant_id, failed_since(now - DAY), most=MAX_COUNTED + 1)
    return QueueSummary(tuple(lanes), row.sending, row.in_doubt, row.dead_letters, row.delayed, failed)


def failed_since(since: Instant) -> MessageSearch:
    """Return the search for the messages that the summary counts as failed."""
    return MessageSearch(failed_since=since).with_shown_status(Status.FAILED)


_PRIORITIES: Final = (Priority.TRANSACTIONAL, Priority.BULK)


async def _lanes(tx: Transaction, now: Instant, priority: int, tenant_id: int) -> list[WaitingLane]:
    bounds = {"first": lane_number(priority, tenant_id), "beyond": lane_number(priority, tenant_id + 1)}
    lanes = []
    for row in await tx.run(WAITING_LANES, now=now, **bounds):
        reason, until = row.defer_reason, row.deferred_until
        if reason is None and not row.due:
            [first] = await tx.run(FIRST_WAITING, lane=row.lane)
            reason, until = first.reason, first.claimable_at
        lanes.append(WaitingLane(row.lane, row.waiting, row.due, reason, until, row.sequence_id, row.name))
    return lanes
