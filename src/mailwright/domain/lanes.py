"""Lanes: a lane is the queue of one tenant at one priority; each campaign and each sequence has its own lane.

Lanes with the highest priority are served first. At the same priority, tenants take turns; a tenant's campaigns follow
one another in the order in which they were started, or in the order that a user gave them. Its single emails and its
sequences come before the campaigns, the oldest message first.
"""

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Final

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import Priority

# Bits of a lane number from the right: the campaign's place in the queue or the sequence (28 bits, 0 for single
# emails), the tenant (24 bits), the priority.
_TENANT_SHIFT = 28
PRIORITY_SHIFT: Final = 52
# The keys of sequences follow the places of campaigns. `waiting_lanes.sql` and `due_lanes.sql` contain the same number.
_FIRST_SEQUENCE: Final = 1 << 27


@dataclass(frozen=True, slots=True)
class Lane:
    number: int
    weight: int = 1
    at_most: int | None = None  # The tenant's limit on messages in flight.
    place: int = 0  # The campaign's place among its tenant's campaigns, which a user can change.
    due_since: int = 0  # The due time of its first message.
    is_due: bool = True  # False if a campaign only keeps its turn: its next messages are due within seconds.
    is_pending: bool = False  # Whether no message of the campaign has begun since it was started or deferred.
    source: str | None = None  # The source of all its messages; None if it has single emails of any source.

    @property
    def tenant_id(self) -> int:
        return (self.number & ((1 << PRIORITY_SHIFT) - 1)) >> _TENANT_SHIFT

    @property
    def priority(self) -> int:
        return priority_of(self.number)

    @property
    def queue(self) -> tuple[int, int]:
        """The lanes of one priority and tenant take turns in order."""
        return self.priority, self.tenant_id


def lane_number(priority: int, tenant_id: int, place: int = 0) -> int:
    """Encode priority, tenant and place as one integer that sorts in this order and fits one index."""
    return priority << PRIORITY_SHIFT | tenant_id << _TENANT_SHIFT | place


def sequence_lane(tenant_id: int, sequence_key: int) -> int:
    return lane_number(Priority.BULK, tenant_id, _FIRST_SEQUENCE + sequence_key)


def priority_of(lane: int) -> int:
    return lane >> PRIORITY_SHIFT


def place_of(lane: int) -> int:
    """Return the number of the campaign or sequence of a lane; 0 if the lane has single emails."""
    return lane & ((1 << _TENANT_SHIFT) - 1)


def is_of_campaign(lane: int) -> bool:
    """Return whether the lane is that of a campaign. Its place in the campaign queue is `place_of`."""
    return 0 < place_of(lane) < _FIRST_SEQUENCE


def in_turn(lanes: Sequence[Lane], skipped: Collection[int] = ()) -> list[Lane]:
    """Return the lanes to claim from, without campaigns that wait for an earlier campaign of their tenant.

    A campaign keeps its turn while its pace delays its messages: while it is skipped, or none is due yet.
    """
    last: dict[tuple[int, int], int] = {}
    for lane in lanes:
        if is_of_campaign(lane.number) and (not lane.is_due or lane.number in skipped):
            last[lane.queue] = min(lane.place, last.get(lane.queue, lane.place))
    return [
        lane
        for lane in lanes
        if lane.is_due and lane.number not in skipped and lane.place <= last.get(lane.queue, lane.place)
    ]


def shares(lanes: Sequence[Lane], limit: int, start_after: int = 0) -> list[tuple[Lane, int]]:
    """Divide `limit` messages among the lanes, highest priority first.

    Within a priority every tenant gets its weighted share, and at least one message while any are left. The share comes
    from the tenant's first lane; its other lanes follow when the first one is empty. Lanes after `start_after` come
    first, so that with more tenants than messages, the next batch continues where the last one ended.
    """
    result: list[tuple[Lane, int]] = []
    last_tenant = Lane(start_after).tenant_id
    for _, group in groupby(sorted(lanes, key=lambda lane: lane.priority), key=lambda lane: lane.priority):
        if limit <= 0:
            break
        last_first = sorted(group, key=lambda lane: (-lane.place, -lane.due_since, -lane.number))
        first_of_tenant = {lane.tenant_id: lane for lane in last_first}
        equals = sorted(first_of_tenant.values(), key=lambda lane: (lane.tenant_id <= last_tenant, lane.number))
        total = sum(lane.weight for lane in equals)
        budget = limit
        for lane in equals:
            share = min(max(1, budget * lane.weight // total), limit, lane.at_most or limit)
            if share > 0:
                result.append((lane, share))
                limit -= share
    return result
