"""Chart axes. The forecast axis gives near times more room than distant ones."""

import itertools
import math
from collections.abc import Iterable
from typing import Final

from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import gettext, lazy_gettext

# The length of the axis, in SVG units.
WIDTH: Final = 1000

# Candidate tick labels, the roundest first. An axis shows the labels that fit.
_TICK_LABELS: Final = (
    (
        (lazy_gettext("1 min"), MINUTE),
        (lazy_gettext("10 min"), 10 * MINUTE),
        (lazy_gettext("1 h"), HOUR),
        (lazy_gettext("6 h"), 6 * HOUR),
        (lazy_gettext("1 day"), DAY),
        (lazy_gettext("7 days"), 7 * DAY),
    ),
    (
        (lazy_gettext("5 min"), 5 * MINUTE),
        (lazy_gettext("30 min"), 30 * MINUTE),
        (lazy_gettext("3 h"), 3 * HOUR),
        (lazy_gettext("12 h"), 12 * HOUR),
        (lazy_gettext("30 days"), 30 * DAY),
    ),
    (
        (lazy_gettext("2 min"), 2 * MINUTE),
        (lazy_gettext("2 h"), 2 * HOUR),
        (lazy_gettext("3 days"), 3 * DAY),
        (lazy_gettext("14 days"), 14 * DAY),
        (lazy_gettext("60 days"), 60 * DAY),
    ),
    (
        (lazy_gettext("20 min"), 20 * MINUTE),
        (lazy_gettext("4 h"), 4 * HOUR),
        (lazy_gettext("8 h"), 8 * HOUR),
        (lazy_gettext("2 days"), 2 * DAY),
        (lazy_gettext("5 days"), 5 * DAY),
    ),
)
# The width of a label and its margins, on a phone.
_LABEL_WIDTH: Final = 150
# The axis is linear if the earliest end is at 1/6 of its length or later.
_LINEAR_FRACTION: Final = 6
_SHORTEST_BEND: Final = 15 * 1_000
_SHORTEST_AXIS: Final = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """A time axis. `bend` is the time scale of its logarithm; None makes the axis linear."""

    begins_at: Instant
    length: Instant
    bend: Instant | None = None

    @property
    def ends_at(self) -> Instant:
        return self.begins_at + self.length

    def at(self, instant: Instant) -> float:
        after = min(max(instant - self.begins_at, 0), self.length)
        if self.bend is None:
            return round(WIDTH * after / self.length, 2)
        return round(WIDTH * math.log1p(after / self.bend) / math.log1p(self.length / self.bend), 2)

    def ticks(self) -> list[Tick]:
        ticks = [Tick(0, gettext("now"))]
        for label, after in itertools.chain.from_iterable(_TICK_LABELS):
            x = self.at(self.begins_at + after)
            has_room = all(abs(x - other.x) >= _LABEL_WIDTH for other in ticks) and x <= WIDTH - 0.75 * _LABEL_WIDTH
            if has_room and after < self.length:
                ticks.append(Tick(x, label))
        return sorted(ticks, key=lambda tick: tick.x)


def axis_for(begins_at: Instant, ends: Iterable[Instant]) -> Axis:
    """Return an axis on which all `ends` are visible, even minutes beside days."""
    lengths = [max(end - begins_at, 0) for end in ends]
    longest = max([_SHORTEST_AXIS, *(length + length // 20 for length in lengths)])
    first = min(lengths, default=longest)
    if first * _LINEAR_FRACTION >= longest:
        return Axis(begins_at, longest)
    return Axis(begins_at, longest, max(first // 3, _SHORTEST_BEND))


def round_number(most: int) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50, … that is at least `most`."""
    scale = int("1" + "0" * (len(str(max(most, 1))) - 1))
    return next(step * scale for step in (1, 2, 5, 10) if step * scale >= most)
