"""The forecast axis: near and distant times are visible on one axis."""

import itertools

import pytest

from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant
from mailwright.web.dashboard.axis import WIDTH, axis_for, round_number

NOW: Instant = 1_800_000_000_000


@pytest.mark.parametrize(
    "ends",
    [[3 * MINUTE, 18 * MINUTE, 3 * DAY], [0, 60 * DAY], [20_000, HOUR], [5 * HOUR], [6 * HOUR, 8 * HOUR], []],
)
def test_near_and_distant_ends_are_both_visible(ends: list[Instant]) -> None:
    axis = axis_for(NOW, [NOW + end for end in ends])
    assert axis.at(NOW) == 0
    assert axis.at(NOW + axis.length) == WIDTH
    positions = [axis.at(NOW + end) for end in sorted(ends)]
    assert positions == sorted(positions)
    assert all(position >= WIDTH / 12 for position, end in zip(positions, sorted(ends), strict=True) if end >= MINUTE)
    assert all(position < WIDTH for position in positions)


def test_axis_is_linear_when_ends_are_close() -> None:
    axis = axis_for(NOW, [NOW + 4 * HOUR, NOW + 8 * HOUR])
    assert axis.bend is None
    assert axis.at(NOW + axis.length // 2) == WIDTH / 2


@pytest.mark.parametrize("longest", [MINUTE, HOUR, 5 * HOUR, DAY, 3 * DAY, 20 * DAY, 64 * DAY])
@pytest.mark.parametrize("first", [20_000, 3 * MINUTE, 50 * MINUTE])
def test_ticks_do_not_overlap_and_match_their_labels(first: Instant, longest: Instant) -> None:
    axis = axis_for(NOW, [NOW + first, NOW + longest])
    ticks = axis.ticks()
    assert ticks[0].label == "now"
    assert 2 <= len(ticks) <= 7
    assert all(later.x - earlier.x >= WIDTH / 7 for earlier, later in itertools.pairwise(ticks))
    units = {"min": MINUTE, "h": HOUR, "day": DAY, "days": DAY}
    for tick in ticks[1:]:
        number, unit = tick.label.split()
        assert tick.x == axis.at(NOW + int(number) * units[unit])


@pytest.mark.parametrize(("most", "top"), [(0, 1), (1, 1), (3, 5), (5, 5), (6, 10), (11, 20), (60_001, 100_000)])
def test_scale_ends_with_round_number(most: int, top: int) -> None:
    assert round_number(most) == top
