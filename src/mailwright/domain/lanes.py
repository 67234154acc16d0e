"""Lanes: one tenant at one priority, and within it one campaign.

Lanes of the best priority go first. Among equals, tenants take turns; a tenant's own campaigns go one after another, in
the order in which they were started.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

# From the right: the place of the campaign (28 bits, 0 for mail of none), the tenant (24 bits), the priority.
_TENANT_SHIFT = 28
_PRIORITY_SHIFT = 52


@dataclass(frozen=True, slots=True)
class Lane:
    number: int
    weight: int = 1
    at_most: int | None = None  # the tenant's limit of mails under way at once

    @property
    def tenant_id(self) -> int:
        return (self.number & ((1 << _PRIORITY_SHIFT) - 1)) >> _TENANT_SHIFT

    @property
    def priority(self) -> int:
        return self.number >> _PRIORITY_SHIFT


def lane_number(priority: int, tenant_id: int, place: int = 0) -> int:
    """Sorts by priority, tenant and place, as one integer that one index can hold."""
    return priority << _PRIORITY_SHIFT | tenant_id << _TENANT_SHIFT | place


def place_of(lane: int) -> int:
    """The place in the queue of campaigns that a lane was made for; 0 for mail of no campaign."""
    return lane & ((1 << _TENANT_SHIFT) - 1)


def shares(lanes: Sequence[Lane], limit: int, start_after: int = 0) -> list[tuple[Lane, int]]:
    """How many to take from each lane, best priority first.

    Within a priority every tenant gets its weighted share, and at least one while there are any left to give; it comes
    from the tenant's first lane, the others follow when that one is empty. Lanes after `start_after` come first, so
    that with more tenants than places the next batch goes on where the last one ended.
    """
    given: list[tuple[Lane, int]] = []
    last_tenant = Lane(start_after).tenant_id
    for _, group in groupby(sorted(lanes, key=lambda lane: lane.priority), key=lambda lane: lane.priority):
        if limit <= 0:
            break
        first_of_tenant = {lane.tenant_id: lane for lane in sorted(group, key=lambda lane: -lane.number)}
        equals = sorted(first_of_tenant.values(), key=lambda lane: (lane.tenant_id <= last_tenant, lane.number))
        total = sum(lane.weight for lane in equals)
        budget = limit
        for lane in equals:
            share = min(max(1, budget * lane.weight // total), limit, lane.at_most or limit)
            if share > 0:
                given.append((lane, share))
                limit -= share
    return given
