"""Axes of charts: the one of a forecast is wide for what ends soon and narrow for what ends late."""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant

# The axis has so many parts.
WIDTH: Final = 1000

# Words that people have for a while, from which an axis takes those for which it has room: the rounder ones first.
_WHILES: Final = (
    (("1 min", MINUTE), ("10 min", 10 * MINUTE), ("1 h", HOUR), ("6 h", 6 * HOUR), ("1 day", DAY), ("7 days", 7 * DAY)),
    (("5 min", 5 * MINUTE), ("30 min", 30 * MINUTE), ("3 h", 3 * HOUR), ("12 h", 12 * HOUR), ("30 days", 30 * DAY)),
    (("2 min", 2 * MINUTE), ("2 h", 2 * HOUR), ("3 days", 3 * DAY), ("14 days", 14 * DAY), ("60 days", 60 * DAY)),
    (("20 min", 20 * MINUTE), ("4 h", 4 * HOUR), ("8 h", 8 * HOUR), ("2 days", 2 * DAY), ("5 days", 5 * DAY)),
)
# A word and the space around it, on a phone.
_ROOM: Final = 150
# Where the first to end has this share of the axis anyway, time needs no bending.
_ENOUGH: Final = 6
_SHORTEST_BEND: Final = 15 * 1_000
_SHORTEST_AXIS: Final = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    words: str


@dataclass(frozen=True, slots=True)
class Axis:
    """`bend` is how long the axis stays about even before it runs faster and faster. None: even all along."""

    begins_at: Instant
    length: Instant
    bend: Instant | None = None

    @property
    def ends_at(self) -> Instant:
        return self.begins_at + self.length

    def at(self, moment: Instant) -> float:
        after = min(max(moment - self.begins_at, 0), self.length)
        if self.bend is None:
            return round(WIDTH * after / self.length, 2)
        return round(WIDTH * math.log1p(after / self.bend) / math.log1p(self.length / self.bend), 2)

    def ticks(self) -> list[Tick]:
        found = [Tick(0, "now")]
        for words, after in itertools.chain.from_iterable(_WHILES):
            x = self.at(self.begins_at + after)
            has_room = all(abs(x - other.x) >= _ROOM for other in found) and x <= WIDTH - 0.75 * _ROOM
            if has_room and after < self.length:
                found.append(Tick(x, words))
        return sorted(found, key=lambda tick: tick.x)


def axis_for(begins_at: Instant, ends: Iterable[Instant]) -> Axis:
    """One that all of these fit on, each so that it can be seen: minutes beside days, where there are both."""
    lengths = [max(end - begins_at, 0) for end in ends]
    longest = max([_SHORTEST_AXIS, *(length + length // 20 for length in lengths)])
    first = min(lengths, default=longest)
    if first * _ENOUGH >= longest:
        return Axis(begins_at, longest)
    return Axis(begins_at, longest, max(first // 3, _SHORTEST_BEND))


def round_number(most: int) -> int:
    """The least number to end a scale of counts with: 1, 2 or 5, with noughts."""
    scale = int("1" + "0" * (len(str(max(most, 1))) - 1))
    return next(step * scale for step in (1, 2, 5, 10) if step * scale >= most)
