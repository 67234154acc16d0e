"""Lanes: one tenant at one priority. Lanes of the best priority go first; among equals, tenants take turns."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

_PRIORITY_SHIFT = 40


@dataclass(frozen=True, slots=True)
class Lane:
    number: int
    weight: int = 1
    at_most: int | None = None  # the tenant's limit of mails under way at once

    @property
    def tenant_id(self) -> int:
        return self.number & ((1 << _PRIORITY_SHIFT) - 1)

    @property
    def priority(self) -> int:
        return self.number >> _PRIORITY_SHIFT


def lane_number(priority: int, tenant_id: int) -> int:
    """Sorts by priority, then tenant, as one integer that one index can hold."""
    return priority << _PRIORITY_SHIFT | tenant_id


def shares(lanes: Sequence[Lane], limit: int, start_after: int = 0) -> list[tuple[Lane, int]]:
    """How many to take from each lane, best priority first.

    Within a priority every lane gets its weighted share, and at least one while there are any left to give. Lanes
    after `start_after` come first, so that with more lanes than places the next batch goes on where the last one ended.
    """
    given: list[tuple[Lane, int]] = []
    for _, group in groupby(sorted(lanes, key=lambda lane: lane.priority), key=lambda lane: lane.priority):
        if limit <= 0:
            break
        equals = sorted(group, key=lambda lane: (lane.number <= start_after, lane.number))
        total = sum(lane.weight for lane in equals)
        budget = limit
        for lane in equals:
            share = min(max(1, budget * lane.weight // total), limit, lane.at_most or limit)
            if share > 0:
                given.append((lane, share))
                limit -= share
    return given
