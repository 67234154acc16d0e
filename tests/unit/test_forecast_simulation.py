"""The simulation by itself: leaps change nothing, nobody is lost, no rule is broken, and a year takes a moment."""

from datetime import date
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant
from mailwright.domain.permits import Deferral, LimitLevel, Limits, QuotaSnapshot
from mailwright.policies.hours import outside_hours
from mailwright.sources.campaigns import simulation
from mailwright.sources.campaigns.simulation import (
    ForecastSegment,
    QueuedCampaign,
    SimulationConditions,
    simulate,
    summarize_segments,
)
from tests.unit.test_policies import changes, moments

NOW: Instant = 1_800_000_000_000

zones = st.sampled_from(["UTC", "Europe/Lisbon", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
limits = st.builds(
    Limits,
    rate_per_second=st.none() | st.integers(1, 20),
    interval_ms=st.none() | st.integers(20, 5_000),
    rate_per_hour=st.none() | st.integers(50, 5_000),
    daily_limit=st.none() | st.integers(500, 20_000),
    working_hours=st.sampled_from(["00:00-24:00", "09:00-18:00", "22:00-24:00", "00:30-03:15"]),
    timezone=zones,
    warmup_since=st.none() | st.sampled_from([date(2027, 1, 10), date(2027, 1, 24)]),
)
sizes = st.integers(0, 30_000)


@st.composite
def lines(draw: st.DrawFn) -> list[QueuedCampaign]:
    tenants = [LimitLevel(str(number), draw(limits)) for number in (1, 2)]
    found = []
    for number in range(draw(st.integers(1, 5))):
        tenant = draw(st.sampled_from(tenants))
        own = LimitLevel(f"campaign-{number}", draw(limits)) if draw(st.booleans()) else None
        held = (
            Deferral(NOW + draw(st.integers(1, 20)) * 5 * HOUR, "scheduled") if draw(st.integers(0, 4)) == 0 else None
        )
        found.append(QueuedCampaign(f"c{number}", f"c{number}", int(tenant.owner), draw(sizes), tenant, own, 1, held))
    return found


quotas = st.none() | st.builds(
    QuotaSnapshot,
    providers=st.just(("ses",)),
    remaining=st.integers(0, 50_000),
    synced_at=st.just(NOW - HOUR),
    sync_every=st.just(5 * MINUTE),
    per_day=st.none() | st.integers(500, 50_000),
)


def one(remaining: int, tenant: Limits, own: Limits | None = None) -> QueuedCampaign:
    return QueuedCampaign(
        "c", "c", 1, remaining, LimitLevel("1", tenant), LimitLevel("campaign-1", own) if own else None
    )


@settings(deadline=None, max_examples=40)
@given(line=lines(), quota=quotas)
def test_leaps_over_days_that_are_alike_change_nothing(line: list[QueuedCampaign], quota: QuotaSnapshot | None) -> None:
    conditions = SimulationConditions(NOW, 7.0, {}, quota, 60 * DAY)
    told = simulate(line, conditions)
    with mock.patch.object(simulation, "_periods", return_value=[]):
        in_detail = simulate(line, conditions)
    assert told.steps <= in_detail.steps + 2 * 24 * 60
    for short, long in zip(told.campaigns, in_detail.campaigns, strict=True):
        assert (short.starts_at is None) == (long.starts_at is None)
        assert (short.finishes_at is None) == (long.finishes_at is None)
        if short.finishes_at is not None and long.finishes_at is not None:
            assert abs(short.finishes_at - long.finishes_at) <= MINUTE
        assert abs(sum(span.sent for span in short.segments) - sum(span.sent for span in long.segments)) <= 5


@settings(deadline=None, max_examples=40)
@given(line=lines(), quota=quotas)
def test_every_moment_has_one_answer_and_nobody_is_lost_or_counted_twice(
    line: list[QueuedCampaign], quota: QuotaSnapshot | None
) -> None:
    told = simulate(line, SimulationConditions(NOW, 7.0, {}, quota, 60 * DAY))
    for queued, course in zip(line, told.campaigns, strict=True):
        assert sum(span.sent for span in course.segments) <= queued.remaining
        if course.finishes_at is not None:
            assert sum(span.sent for span in course.segments) == queued.remaining
        ends = NOW
        for span in course.segments:
            assert span.begins_at == ends
            assert span.ends_at >= span.begins_at
            assert (span.sent > 0) or span.reason is not None or span.ends_at - span.begins_at <= SECOND * 60
            ends = span.ends_at
        assert ends == (course.finishes_at or told.looked_until)


@settings(deadline=None, max_examples=40)
@given(now=moments | changes, zone=zones, hours=st.sampled_from(["09:00-18:00", "01:30-02:30", "00:30-03:15"]))
def test_nothing_is_foretold_to_go_outside_the_hours(now: Instant, zone: str, hours: str) -> None:
    """Also in the nights when clocks change."""
    tenant = Limits(working_hours=hours, timezone=zone)
    with mock.patch.object(simulation, "_periods", return_value=[]):
        [course] = simulate([one(200_000, tenant)], SimulationConditions(now, 5.0, horizon=5 * DAY)).campaigns
    for span in course.segments:
        if span.sent:
            for moment in range(span.begins_at, span.ends_at, max(1, (span.ends_at - span.begins_at) // 20)):
                assert outside_hours(tenant, is_bulk=True, now=moment) is None


def test_a_limit_per_second_is_a_pace() -> None:
    """Portions of any second: a little less than the limit, so that none ever has more."""
    [course] = simulate([one(36_000, Limits(rate_per_second=10))], SimulationConditions(NOW, 1_000.0)).campaigns
    assert course.finishes_at is not None
    assert NOW + HOUR <= course.finishes_at <= NOW + HOUR * 1.04
    assert {span.reason for span in course.segments} == {"rate_per_second"}


def test_an_interval_is_a_pace() -> None:
    [course] = simulate([one(7_200, Limits(), Limits(interval_ms=500))], SimulationConditions(NOW, 1_000.0)).campaigns
    assert course.finishes_at == NOW + HOUR
    assert {span.reason for span in course.segments} == {"interval"}


@pytest.mark.parametrize(
    ("own", "reason", "ends"),
    [
        (Limits(one_at_a_time=True), "one_at_a_time", NOW + HOUR),
        (Limits(one_at_a_time=True, interval_ms=200), "interval", NOW + 2 * HOUR),
    ],
)
def test_mails_that_go_one_at_a_time_wait_for_one_another(own: Limits, reason: str, ends: Instant) -> None:
    [course] = simulate([one(36_000, Limits(), own)], SimulationConditions(NOW, 1_000.0)).campaigns
    assert (course.finishes_at, {span.reason for span in course.segments}) == (ends, {reason})


def test_tenants_share_the_workers_by_weight_and_what_one_cannot_use_goes_to_the_others() -> None:
    line = [
        QueuedCampaign("a", "a", 1, 3_000, LimitLevel("1", Limits()), weight=3),
        QueuedCampaign("b", "b", 2, 1_000, LimitLevel("2", Limits()), weight=1),
        QueuedCampaign("c", "c", 3, 600, LimitLevel("3", Limits(interval_ms=1_000)), weight=6),
    ]
    courses = {course.name: course for course in simulate(line, SimulationConditions(NOW, 41.0)).campaigns}
    assert courses["a"].finishes_at == courses["b"].finishes_at == NOW + 100 * SECOND
    assert courses["c"].finishes_at == NOW + 600 * SECOND


def test_what_does_not_end_within_the_year_has_no_end() -> None:
    told = simulate([one(10_000_000, Limits(rate_per_hour=100))], SimulationConditions(NOW, 50.0))
    [course] = told.campaigns
    assert (course.starts_at, course.finishes_at) == (NOW, None)
    assert told.looked_until == NOW + 365 * DAY
    assert abs(sum(span.sent for span in course.segments) - 365 * 24 * 100) <= 100


@pytest.mark.parametrize(
    "tenant",
    [
        Limits(),
        Limits(rate_per_hour=100),
        Limits(rate_per_hour=20_000),
        Limits(rate_per_second=30, rate_per_hour=90_000),
        Limits(rate_per_hour=10_000, daily_limit=100_000, working_hours="09:00-18:00", timezone="Europe/Lisbon"),
        Limits(rate_per_hour=20_000, sliding_hour=True),
        Limits(warmup_since=date(2027, 1, 15)),
    ],
)
def test_a_hundred_campaigns_of_a_million_take_a_few_thousand_steps(tenant: Limits) -> None:
    line = [QueuedCampaign(f"c{n}", f"c{n}", 1, 1_000_000, LimitLevel("1", tenant)) for n in range(100)]
    told = simulate(line, SimulationConditions(NOW, 1_000.0))
    print(f"{told.steps} steps")
    assert told.steps < 8_000


def test_a_hundred_campaigns_with_limits_of_their_own_do_not_take_long_either() -> None:
    own = Limits(rate_per_hour=1_000)
    line = [
        QueuedCampaign(f"c{n}", f"c{n}", 1, 1_000_000, LimitLevel("1", Limits()), LimitLevel(f"campaign-{n}", own))
        for n in range(100)
    ]
    told = simulate(line, SimulationConditions(NOW, 1_000.0))
    assert told.steps < 8_000
    assert all(course.finishes_at is not None for course in told.campaigns)


def test_portions_and_waits_that_go_on_are_told_in_short() -> None:
    pair = [(SECOND, 100, None), (HOUR - SECOND, 0, "rate_per_hour")]
    spans, begins = [], NOW
    for length, sent, reason in [*pair * 5, (SECOND, 20, None), (DAY, 0, "outside_hours")]:
        spans.append(ForecastSegment(begins, begins + length, sent, reason))
        begins += length
    assert summarize_segments(spans) == [
        ForecastSegment(NOW, NOW + 5 * HOUR + SECOND, 520, "rate_per_hour"),
        ForecastSegment(NOW + 5 * HOUR + SECOND, NOW + 5 * HOUR + SECOND + DAY, 0, "outside_hours"),
    ]
    assert summarize_segments(spans[:4]) == spans[:4]
    assert summarize_segments([]) == []
