"""The simulation alone: skipping periods changes nothing, no message is lost, and a year takes little time."""

from datetime import date
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant
from mailwright.domain.permits import Deferral, LimitLevel, Limits, QuotaSnapshot
from mailwright.policies.hours import outside_hours
from mailwright.sources.campaigns import leaps
from mailwright.sources.campaigns.forecast_values import ForecastSegment, QueuedCampaign, summarize_segments
from mailwright.sources.campaigns.simulation import SimulationConditions, simulate
from tests.examples import examples
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
def queues(draw: st.DrawFn) -> list[QueuedCampaign]:
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


@settings(deadline=None, max_examples=examples(20))
@given(queue=queues(), quota=quotas)
def test_skipping_equal_days_does_not_change_the_result(
    queue: list[QueuedCampaign], quota: QuotaSnapshot | None
) -> None:
    conditions = SimulationConditions(NOW, 7.0, {}, quota, 60 * DAY)
    result = simulate(queue, conditions)
    with mock.patch.object(leaps, "recurrence_periods", return_value=[]):
        in_detail = simulate(queue, conditions)
    assert result.steps <= in_detail.steps + 2 * 24 * 60
    for short, long in zip(result.campaigns, in_detail.campaigns, strict=True):
        assert (short.starts_at is None) == (long.starts_at is None)
        assert (short.finishes_at is None) == (long.finishes_at is None)
        if short.finishes_at is not None and long.finishes_at is not None:
            assert abs(short.finishes_at - long.finishes_at) <= MINUTE
        assert (
            abs(sum(segment.sent for segment in short.segments) - sum(segment.sent for segment in long.segments)) <= 5
        )


@settings(deadline=None, max_examples=examples(20))
@given(queue=queues(), quota=quotas)
def test_segments_cover_all_time_and_all_messages_once(
    queue: list[QueuedCampaign], quota: QuotaSnapshot | None
) -> None:
    result = simulate(queue, SimulationConditions(NOW, 7.0, {}, quota, 60 * DAY))
    for queued, campaign in zip(queue, result.campaigns, strict=True):
        assert sum(segment.sent for segment in campaign.segments) <= queued.remaining
        if campaign.finishes_at is not None:
            assert sum(segment.sent for segment in campaign.segments) == queued.remaining
        ends = NOW
        for segment in campaign.segments:
            assert segment.begins_at == ends
            assert segment.ends_at >= segment.begins_at
            assert (
                (segment.sent > 0) or segment.reason is not None or segment.ends_at - segment.begins_at <= SECOND * 60
            )
            ends = segment.ends_at
        assert ends == (campaign.finishes_at or result.looked_until)


@settings(deadline=None, max_examples=examples(20))
@given(now=moments | changes, zone=zones, hours=st.sampled_from(["09:00-18:00", "01:30-02:30", "00:30-03:15"]))
def test_simulation_sends_nothing_outside_working_hours(now: Instant, zone: str, hours: str) -> None:
    """Includes the nights in which clocks change."""
    tenant = Limits(working_hours=hours, timezone=zone)
    with mock.patch.object(leaps, "recurrence_periods", return_value=[]):
        [campaign] = simulate([one(200_000, tenant)], SimulationConditions(now, 5.0, horizon=5 * DAY)).campaigns
    for segment in campaign.segments:
        if segment.sent:
            for time in range(segment.begins_at, segment.ends_at, max(1, (segment.ends_at - segment.begins_at) // 20)):
                assert outside_hours(tenant, is_bulk=True, now=time) is None


def test_limit_per_second_paces_the_campaign() -> None:
    """The batches of a second are slightly below the limit, so that no second exceeds it."""
    [campaign] = simulate([one(36_000, Limits(rate_per_second=10))], SimulationConditions(NOW, 1_000.0)).campaigns
    assert campaign.finishes_at is not None
    assert NOW + HOUR <= campaign.finishes_at <= NOW + HOUR * 1.04
    assert {segment.reason for segment in campaign.segments} == {"rate_per_second"}


def test_interval_paces_the_campaign() -> None:
    [campaign] = simulate([one(7_200, Limits(), Limits(interval_ms=500))], SimulationConditions(NOW, 1_000.0)).campaigns
    assert campaign.finishes_at == NOW + HOUR
    assert {segment.reason for segment in campaign.segments} == {"interval"}


@pytest.mark.parametrize(
    ("own", "reason", "ends"),
    [
        (Limits(one_at_a_time=True), "one_at_a_time", NOW + HOUR),
        (Limits(one_at_a_time=True, interval_ms=200), "interval", NOW + 2 * HOUR),
    ],
)
def test_one_at_a_time_paces_the_campaign(own: Limits, reason: str, ends: Instant) -> None:
    [campaign] = simulate([one(36_000, Limits(), own)], SimulationConditions(NOW, 1_000.0)).campaigns
    assert (campaign.finishes_at, {segment.reason for segment in campaign.segments}) == (ends, {reason})


def test_tenants_share_the_rate_by_weight() -> None:
    queue = [
        QueuedCampaign("a", "a", 1, 3_000, LimitLevel("1", Limits()), weight=3),
        QueuedCampaign("b", "b", 2, 1_000, LimitLevel("2", Limits()), weight=1),
        QueuedCampaign("c", "c", 3, 600, LimitLevel("3", Limits(interval_ms=1_000)), weight=6),
    ]
    courses = {campaign.name: campaign for campaign in simulate(queue, SimulationConditions(NOW, 41.0)).campaigns}
    assert courses["a"].finishes_at == courses["b"].finishes_at == NOW + 100 * SECOND
    assert courses["c"].finishes_at == NOW + 600 * SECOND


def test_campaign_beyond_the_horizon_has_no_end() -> None:
    result = simulate([one(10_000_000, Limits(rate_per_hour=100))], SimulationConditions(NOW, 50.0))
    [campaign] = result.campaigns
    assert (campaign.starts_at, campaign.finishes_at) == (NOW, None)
    assert result.looked_until == NOW + 365 * DAY
    assert abs(sum(segment.sent for segment in campaign.segments) - 365 * 24 * 100) <= 100


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
def test_large_queue_takes_few_steps(tenant: Limits) -> None:
    queue = [QueuedCampaign(f"c{n}", f"c{n}", 1, 1_000_000, LimitLevel("1", tenant)) for n in range(100)]
    result = simulate(queue, SimulationConditions(NOW, 1_000.0))
    print(f"{result.steps} steps")
    assert result.steps < 8_000


def test_queue_with_individual_limits_is_simulated_quickly() -> None:
    own = Limits(rate_per_hour=1_000)
    queue = [
        QueuedCampaign(f"c{n}", f"c{n}", 1, 1_000_000, LimitLevel("1", Limits()), LimitLevel(f"campaign-{n}", own))
        for n in range(100)
    ]
    result = simulate(queue, SimulationConditions(NOW, 1_000.0))
    assert result.steps < 8_000
    assert all(campaign.finishes_at is not None for campaign in result.campaigns)


def test_repeated_batches_and_waits_are_summarized() -> None:
    pair = [(SECOND, 100, None), (HOUR - SECOND, 0, "rate_per_hour")]
    segments, begins = [], NOW
    for length, sent, reason in [*pair * 5, (SECOND, 20, None), (DAY, 0, "outside_hours")]:
        segments.append(ForecastSegment(begins, begins + length, sent, reason))
        begins += length
    assert summarize_segments(segments) == [
        ForecastSegment(NOW, NOW + 5 * HOUR + SECOND, 520, "rate_per_hour"),
        ForecastSegment(NOW + 5 * HOUR + SECOND, NOW + 5 * HOUR + SECOND + DAY, 0, "outside_hours"),
    ]
    assert summarize_segments(segments[:4]) == segments[:4]
    assert summarize_segments([]) == []
