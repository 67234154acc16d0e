"""Lanes: how a batch is divided among tenants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.lanes import Lane, lane_number, place_of, shares
from mailwright.domain.states import Priority

tenants = st.integers(1, 50)
lanes = st.lists(
    st.builds(
        Lane,
        number=st.builds(lane_number, st.sampled_from([Priority.TRANSACTIONAL, Priority.BULK]), tenants),
        weight=st.integers(1, 1_000),
        at_most=st.none() | st.integers(1, 20),
    ),
    unique_by=lambda lane: lane.number,
    max_size=30,
)


@pytest.mark.promise("claim-fair")
@given(lanes=lanes, limit=st.integers(0, 600), start_after=st.integers(0, 2**55))
def test_shares_never_exceed_the_limit(lanes: list[Lane], limit: int, start_after: int) -> None:
    given_ = shares(lanes, limit, start_after)
    assert sum(share for _, share in given_) <= limit
    assert all(share >= 1 for _, share in given_)
    assert all(share <= lane.at_most for lane, share in given_ if lane.at_most)
    assert len({lane.number for lane, _ in given_}) == len(given_)


@pytest.mark.promise("claim-fair")
@given(lanes=lanes, start_after=st.integers(0, 2**55))
def test_every_tenant_gets_a_share_if_possible(lanes: list[Lane], start_after: int) -> None:
    best = min((lane.priority for lane in lanes), default=0)
    equals = [lane for lane in lanes if lane.priority == best]
    limit = 2 * sum(lane.weight for lane in equals)
    got = {lane for lane, _ in shares(lanes, limit, start_after)}
    assert set(equals) <= got


@pytest.mark.promise("claim-fair")
@given(lanes=lanes, rounds=st.integers(1, 3))
def test_tenants_take_turns_with_one_message_per_batch(lanes: list[Lane], rounds: int) -> None:
    equals = [lane for lane in lanes if lane.priority == Priority.BULK]
    last, turns = 0, []
    for _ in range(rounds * len(equals)):
        ((lane, share),) = shares(equals, 1, last)
        assert share == 1
        turns.append(lane.number)
        last = lane.number
    assert turns == sorted(lane.number for lane in equals) * rounds


@pytest.mark.promise("transactional-first")
@given(lanes=lanes, limit=st.integers(1, 600))
def test_highest_priority_is_served_first(lanes: list[Lane], limit: int) -> None:
    priorities = [lane.priority for lane, _ in shares(lanes, limit)]
    assert priorities == sorted(priorities)


@pytest.mark.promise("claim-fair")
@given(weights=st.lists(st.integers(1, 20), min_size=1, max_size=10))
def test_equal_priorities_share_by_weight(weights: list[int]) -> None:
    equals = [Lane(lane_number(Priority.BULK, tenant), weight) for tenant, weight in enumerate(weights, start=1)]
    given_ = dict(shares(equals, 10 * sum(weights)))
    assert [given_[lane] for lane in equals] == [10 * weight for weight in weights]


@pytest.mark.promise("campaign-order")
@given(places=st.lists(st.integers(0, 2**28 - 1), min_size=1, max_size=10, unique=True), other=st.integers(0, 100))
def test_campaigns_of_a_tenant_are_served_in_order(places: list[int], other: int) -> None:
    mine = [Lane(lane_number(Priority.BULK, 7, place)) for place in places]
    theirs = Lane(lane_number(Priority.BULK, 9, other))
    given_ = dict(shares([*mine, theirs], 100))
    assert given_ == {Lane(lane_number(Priority.BULK, 7, min(places))): 50, theirs: 50}


@given(
    priority=st.sampled_from([Priority.TRANSACTIONAL, Priority.BULK]),
    tenant=st.integers(1, 2**24 - 1),
    place=st.integers(0, 2**28 - 1),
)
def test_lane_number_encodes_priority_tenant_and_place(priority: int, tenant: int, place: int) -> None:
    lane = Lane(lane_number(priority, tenant, place))
    assert (lane.priority, lane.tenant_id, place_of(lane.number)) == (priority, tenant, place)
    assert lane.number < 2**63
