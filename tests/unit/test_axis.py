"""The axis of a forecast: minutes can be seen beside days, and what it says of time is true."""

import itertools

import pytest

from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant
from mailwright.web.dashboard.axis import WIDTH, axis_for, round_number

NOW: Instant = 1_800_000_000_000


@pytest.mark.parametrize(
    "ends",
    [[3 * MINUTE, 18 * MINUTE, 3 * DAY], [0, 60 * DAY], [20_000, HOUR], [5 * HOUR], [6 * HOUR, 8 * HOUR], []],
)
def test_whatever_ends_soon_can_be_seen_beside_what_ends_late(ends: list[Instant]) -> None:
    axis = axis_for(NOW, [NOW + end for end in ends])
    assert axis.at(NOW) == 0
    assert axis.at(NOW + axis.length) == WIDTH
    places = [axis.at(NOW + end) for end in sorted(ends)]
    assert places == sorted(places)
    assert all(place >= WIDTH / 12 for place, end in zip(places, sorted(ends), strict=True) if end >= MINUTE)
    assert all(place < WIDTH for place in places)


def test_an_axis_on_which_everything_ends_about_together_is_even() -> None:
    axis = axis_for(NOW, [NOW + 4 * HOUR, NOW + 8 * HOUR])
    assert axis.bend is None
    assert axis.at(NOW + axis.length // 2) == WIDTH / 2


@pytest.mark.parametrize("longest", [MINUTE, HOUR, 5 * HOUR, DAY, 3 * DAY, 20 * DAY, 64 * DAY])
@pytest.mark.parametrize("first", [20_000, 3 * MINUTE, 50 * MINUTE])
def test_marks_have_room_and_stand_where_their_words_say(first: Instant, longest: Instant) -> None:
    axis = axis_for(NOW, [NOW + first, NOW + longest])
    marks = axis.ticks()
    assert marks[0].words == "now"
    assert 2 <= len(marks) <= 7
    assert all(later.x - earlier.x >= WIDTH / 7 for earlier, later in itertools.pairwise(marks))
    units = {"min": MINUTE, "h": HOUR, "day": DAY, "days": DAY}
    for mark in marks[1:]:
        number, unit = mark.words.split()
        assert mark.x == axis.at(NOW + int(number) * units[unit])


@pytest.mark.parametrize(("most", "top"), [(0, 1), (1, 1), (3, 5), (5, 5), (6, 10), (11, 20), (60_001, 100_000)])
def test_a_scale_ends_with_a_round_number(most: int, top: int) -> None:
    assert round_number(most) == top
