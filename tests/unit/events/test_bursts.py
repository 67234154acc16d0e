"""Programs are recognised by the pace of their opens and clicks, in whatever order these were reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.clock import HOUR, MINUTE, SECOND, Instant
from mailwright.events.tracking.bursts import EmailResponse, MachineReason, find_machines

SENT: Instant = 1_800_000_000_000
READ = SENT + HOUR


def clicks(*clicks: tuple[Instant, str]) -> list[EmailResponse]:
    return [EmailResponse(key, READ + at, is_click=True, url=url) for key, (at, url) in enumerate(clicks)]


def machines(responses: list[EmailResponse], *delivered_at: Instant) -> dict[int, str]:
    return {key: reason.value for key, reason in find_machines(responses, SENT, delivered_at).items()}


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        pytest.param(clicks((0, "a"), (12, "b"), (30, "c"), (47, "d")), {0, 1, 2, 3}, id="burst over four links"),
        pytest.param(clicks((0, "a"), (1_000, "b")), {0, 1}, id="whole seconds of a provider"),
        pytest.param(clicks((0, "a"), (900, "b"), (1_800, "c")), {0, 1, 2}, id="a chain longer than a second"),
        pytest.param(clicks((0, "a"), (0, "b"), (40, "a")), {0, 1, 2}, id="link that is followed twice in a burst"),
        pytest.param(clicks((0, "a"), (10, "b"), (5 * HOUR, "a")), {0, 1}, id="person hours after a burst"),
        pytest.param(clicks((0, "a"), (3_000, "b")), set(), id="person who clicks two links"),
        pytest.param(clicks((0, "a"), (1_001, "b")), set(), id="fast person"),
        pytest.param(clicks((0, "a"), (150, "a")), set(), id="double click"),
        pytest.param(clicks((0, "a")), set(), id="one click"),
        pytest.param([], set(), id="nothing"),
    ],
)
def test_clicks_on_several_links_within_a_second_are_a_machine(
    responses: list[EmailResponse], expected: set[int]
) -> None:
    assert machines(responses) == dict.fromkeys(expected, "burst")


def test_clicks_without_a_link_form_no_burst() -> None:
    without = [EmailResponse(key, READ, is_click=True) for key in range(3)]
    assert machines(without) == {}
    assert machines([*without, EmailResponse(3, READ, is_click=True, url="a")]) == {}


def test_open_within_a_burst_is_the_same_machine() -> None:
    opens = [EmailResponse(10, READ + 20, is_click=False), EmailResponse(11, READ - MINUTE, is_click=False)]
    assert machines([*clicks((0, "a"), (40, "b")), *opens]) == dict.fromkeys((0, 1, 10), "burst")
    assert machines([*clicks((0, "a")), *opens]) == {}


def test_clicks_around_the_invisible_link_are_a_machine() -> None:
    invisible = EmailResponse(9, READ + 7_000, is_click=True, is_invisible_link=True)
    slow = clicks((0, "a"), (3_500, "b"), (HOUR, "a"))
    assert machines([*slow, invisible]) == dict.fromkeys((0, 1, 9), "invisible_link")
    assert machines(slow) == {}


@pytest.mark.parametrize(("after_sending", "is_machine"), [(-SECOND, True), (4_999, True), (5_000, False)])
def test_response_sooner_than_a_person_can_react_is_a_machine(after_sending: Instant, is_machine: bool) -> None:
    for is_click in (True, False):
        found = machines([EmailResponse(1, SENT + after_sending, is_click=is_click, url="a")])
        assert found == ({1: "too_soon"} if is_machine else {})


@pytest.mark.parametrize(
    ("after_delivery", "is_machine"), [(-31 * SECOND, False), (-30 * SECOND, True), (1_999, True), (2_000, False)]
)
def test_click_during_delivery_is_a_machine(after_delivery: Instant, is_machine: bool) -> None:
    delivered_at = READ - after_delivery
    assert machines(clicks((0, "a")), delivered_at) == ({0: "too_soon"} if is_machine else {})


_CLICKS = st.lists(
    st.builds(
        EmailResponse,
        key=st.integers(0, 10**6),
        at=st.integers(SENT, SENT + 20_000),
        is_click=st.booleans(),
        url=st.sampled_from(["a", "b", None]),
        is_invisible_link=st.just(False) | st.just(False) | st.booleans(),
    ),
    max_size=12,
    unique_by=lambda each: each.key,
)


@given(responses=_CLICKS, delivered=st.lists(st.integers(SENT, SENT + 20_000), max_size=2), data=st.data())
def test_order_of_reports_does_not_matter(
    responses: list[EmailResponse], delivered: list[Instant], data: st.DataObject
) -> None:
    found = find_machines(responses, SENT, delivered)
    assert find_machines(data.draw(st.permutations(responses)), SENT, delivered) == found
    # A later report never makes a person of a machine.
    for number in range(len(responses)):
        assert find_machines(responses[:number], SENT, delivered).keys() <= found.keys()
    assert set(found.values()) <= set(MachineReason)


def test_open_minutes_before_the_invisible_link_counts() -> None:
    invisible = EmailResponse(9, READ, is_click=True, is_invisible_link=True)
    opens = [EmailResponse(1, READ - MINUTE, is_click=False), EmailResponse(2, READ - 4_000, is_click=False)]
    assert machines([invisible, *opens]) == dict.fromkeys((2, 9), "invisible_link")


@pytest.mark.parametrize(
    ("responses", "is_machine"),
    [
        pytest.param(clicks((7, "a"), (2_010, "b"), (4_020, "c"), (6_100, "d")), True, id="even pace"),
        pytest.param(clicks((7, "a"), (2_010, "b"), (3_000, "a"), (4_020, "c"), (6_100, "d")), True, id="and a person"),
        pytest.param(clicks((7, "a"), (2_010, "b"), (4_020, "c")), False, id="three links"),
        pytest.param(clicks((7, "a"), (2_010, "b"), (4_020, "a"), (6_100, "b")), False, id="two links"),
        pytest.param(clicks((7, "a"), (2_010, "b"), (5_020, "c"), (7_100, "d")), False, id="uneven pace"),
        pytest.param(clicks((0, "a"), (2_000, "b"), (4_000, "c"), (6_000, "d")), False, id="whole seconds"),
        pytest.param(clicks((7, "a"), (80_007, "b"), (160_007, "c"), (240_007, "d")), False, id="long waits"),
    ],
)
def test_links_at_an_even_pace_are_a_machine(responses: list[EmailResponse], is_machine: bool) -> None:
    assert ("even_pace" in machines(responses).values()) == is_machine


def at_gaps(*gaps: Instant) -> list[EmailResponse]:
    """Return clicks on different links with these waits between them."""
    times = [sum(gaps[:number], 7) for number in range(len(gaps) + 1)]
    return clicks(*((at, f"link {number}") for number, at in enumerate(times)))


@pytest.mark.parametrize(
    ("responses", "is_machine"),
    [
        pytest.param(at_gaps(1_900, 4_700, 1_200, 3_600), True, id="five links"),
        pytest.param(at_gaps(1_900, 4_700, 1_200), False, id="four links"),
        pytest.param(at_gaps(1_900, 5_001, 1_200, 3_600), False, id="pause among five links"),
        pytest.param(at_gaps(*(2_000 + 3_111 * (number % 9) for number in range(9))), True, id="ten links, slower"),
        pytest.param(at_gaps(*(2_000 + 3_111 * (number % 9) for number in range(8))), False, id="nine links, slower"),
        pytest.param(clicks(*((at * 2_300 + at**2, "ab"[at % 2]) for at in range(12))), False, id="two links, often"),
    ],
)
def test_many_links_in_a_row_are_a_machine(responses: list[EmailResponse], is_machine: bool) -> None:
    expected = dict.fromkeys(range(len(responses)), "series") if is_machine else {}
    assert machines(responses) == expected
    assert machines(responses[::-1]) == expected
