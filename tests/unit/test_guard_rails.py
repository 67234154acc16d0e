"""The rule of the guard rails: shares of few messages, and exact probabilities."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.guard_rails import GuardRails, GuardRailSettings, GuardState, IncidentCounts
from mailwright.policies.guard_rails import chance_of_more, is_passed, judge

RAILS = GuardRails()


@pytest.mark.parametrize(
    ("messages", "needed"), [(100, 2), (200, 3), (500, 5), (1_000, 7), (10_000, 40), (100_000, 330)]
)
def test_complaints_that_stop_are_those_of_the_documentation(messages: int, needed: int) -> None:
    passed = [is_passed(number, messages, 0.3) for number in (needed - 1, needed)]
    assert passed == [False, True]


@given(st.integers(1, 60), st.floats(0.001, 0.5))
def test_chance_is_the_binomial_tail(incidents: int, share: float) -> None:
    messages = 60
    exact = sum(
        comb(messages, each) * share**each * (1 - share) ** (messages - each) for each in range(incidents, messages + 1)
    )
    found = chance_of_more(incidents, messages, share)
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-9) or (found > 0.05 and exact > 0.05)


@given(st.integers(2, 500), st.integers(0, 400), st.sampled_from([0.1, 0.3, 2.0, 5.0]))
def test_more_messages_with_equal_incidents_never_pass(messages: int, more: int, threshold: float) -> None:
    for incidents in (2, 5):
        if not is_passed(incidents, messages, threshold):
            assert not is_passed(incidents, messages + more, threshold)


def test_few_messages_and_single_incidents_are_not_judged() -> None:
    assert judge(RAILS, IncidentCounts(99, 99, 99)) is None
    assert judge(RAILS, IncidentCounts(100, complaints=1)) is None
    assert judge(RAILS, IncidentCounts(100_000, 100, 20)) is None


def test_strictest_passed_threshold_decides() -> None:
    found = judge(RAILS, IncidentCounts(1_000, hard_bounces=40, complaints=20))
    assert found is not None
    assert (found.kind, found.action, found.threshold) == ("complaint", "stop", 0.3)


def test_zero_turns_a_threshold_off() -> None:
    own = GuardRailSettings(complaint_stop_percent=0, complaint_warn_percent=0)
    assert judge(own.over(RAILS), IncidentCounts(1_000, complaints=500)) is None


def test_state_survives_writing_and_reading() -> None:
    found = judge(RAILS, IncidentCounts(1_000, hard_bounces=400))
    state = GuardState(5, 7, found, 9, 100)
    assert GuardState.read(state.as_text()) == state
