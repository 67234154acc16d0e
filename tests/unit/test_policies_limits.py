"""Sliding hours, warm-ups, quotas and recipient hours are pure functions of limits and time."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailwright.app.limits import default_limits
from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant
from mailwright.domain.permits import LimitLevel, Limits, QuotaSnapshot
from mailwright.domain.working_hours import parse_working_hours
from mailwright.ops.settings import load
from mailwright.outbox.limits import parse_campaign_limits
from mailwright.policies import quota, warmup
from mailwright.policies.hours import (
    closes_at,
    is_always_open,
    lane_outside_hours,
    next_opening,
    outside_hours,
    recipient_outside_hours,
)
from mailwright.policies.rates import windows, windows_of_levels
from tests.unit.test_policies import ZONES, at, changes, hours, moments

NOW = at("2027-01-12T10:20:30.400")
overnight = hours.map(lambda text: text if text.endswith("24:00") else f"{text[6:]}-{text[:5]}")
_weekdays = st.sampled_from(["Mon", "Fri-Mon", "Sun", "Tue-Thu"])
weekly = st.lists(st.builds("{} {}".format, _weekdays, hours | overnight), min_size=1, max_size=3).map(", ".join)


# The sliding hour.


@pytest.mark.promise("limits-never-exceeded")
@given(now=moments, earlier=st.integers(0, HOUR))
def test_sliding_hour_counts_the_last_sixty_minutes(now: Instant, earlier: int) -> None:
    [then] = windows(Limits(rate_per_hour=1, sliding_hour=True), 7, now - earlier)
    [window] = windows(Limits(rate_per_hour=1, sliding_hour=True), 7, now)
    assert then.name in {window.name, *(related.name for related in window.related)}


@pytest.mark.promise("limits-never-exceeded")
@given(now=moments, ahead=st.integers(0, HOUR))
def test_sliding_hour_counts_after_the_clock_is_set_back(now: Instant, ahead: int) -> None:
    [then] = windows(Limits(rate_per_hour=1, sliding_hour=True), 7, now + ahead)
    [window] = windows(Limits(rate_per_hour=1, sliding_hour=True), 7, now)
    assert then.name in {window.name, *(related.name for related in window.related)}


@pytest.mark.promise("limits-never-exceeded")
@settings(deadline=None, max_examples=15)
@given(now=moments)
def test_minute_frees_permits_after_one_hour(now: Instant) -> None:
    [window] = windows(Limits(rate_per_hour=1, sliding_hour=True), 7, now)
    assert window.deferred_until == window.ends_at + HOUR
    for related in window.related:
        [then] = windows(Limits(rate_per_hour=1, sliding_hour=True), 7, related.until - 1)
        assert related.name in {other.name for other in then.related}
        [after] = windows(Limits(rate_per_hour=1, sliding_hour=True), 7, related.until)
        assert related.name not in {other.name for other in after.related}


# The warm-up.


@pytest.mark.parametrize(
    ("day", "limit"), [(-3, 50), (0, 50), (1, 100), (2, 200), (5, 1_600), (17, 6_553_600), (18, None), (9_999, None)]
)
def test_warm_up_doubles_every_day(day: int, limit: int | None) -> None:
    assert warmup.limit_after(Limits(), day) == limit


@given(
    start=st.integers(1, 10_000),
    factor=st.floats(1, 100),
    days=st.integers(0, 4_000),
)
def test_growing_warm_up_never_shrinks_and_ends(start: int, factor: float, days: int) -> None:
    limits = Limits(warmup_start=start, warmup_factor=factor)
    today, tomorrow = warmup.limit_after(limits, days), warmup.limit_after(limits, days + 1)
    if today is None:
        assert tomorrow is None
    else:
        assert tomorrow is None or tomorrow >= today >= start


@given(now=moments | changes, zone=st.sampled_from(ZONES))
def test_warm_up_counts_local_days(now: Instant, zone: str) -> None:
    local = datetime.fromtimestamp(now / 1000, UTC).astimezone(ZoneInfo(zone)).date()
    limits = Limits(timezone=zone, warmup_since=local - timedelta(days=2))
    [window] = windows(limits, 7, now)
    assert (window.limit, window.reason) == (200, "warmup")
    assert now < window.ends_at <= window.deferred_until
    [later] = windows(limits, 7, window.ends_at)
    assert later.limit == 400
    assert later.name != window.name


# The quota.


def told(remaining: int = 500, **changes: object) -> QuotaSnapshot:
    values: dict[str, object] = {
        "providers": ("ses",),
        "remaining": remaining,
        "synced_at": NOW,
        "sync_every": 5 * MINUTE,
        **changes,
    }
    return QuotaSnapshot(**values)  # type: ignore[arg-type]


@pytest.mark.promise("quota-limits")
def test_reported_quota_limits_sending_until_the_next_sync() -> None:
    [window] = windows(Limits(), 7, NOW + 1, told())
    assert (window.limit, window.reason, window.deferred_until) == (500, "quota_exhausted", NOW + 5 * MINUTE)
    assert windows(Limits(), 8, NOW + 99, told())[0].name == window.name  # All tenants share it.
    assert windows(Limits(), 7, NOW, told(synced_at=NOW - 1))[0].name != window.name


@pytest.mark.promise("quota-limits")
def test_day_old_quota_is_ignored() -> None:
    assert quota.windows(told(), NOW + DAY - 1)
    assert quota.windows(told(), NOW + DAY) == ()
    assert quota.windows(None, NOW) == ()


@pytest.mark.promise("quota-limits")
@given(moved=st.integers(-2 * HOUR, DAY - 1))
def test_next_sync_is_always_in_the_future(moved: int) -> None:
    upcoming = quota.next_sync(told(), NOW + moved)
    assert NOW + moved < upcoming <= NOW + moved + 5 * MINUTE


@pytest.mark.promise("quota-limits")
def test_late_counts_of_the_previous_sync_are_subtracted() -> None:
    [before] = quota.windows(told(synced_at=NOW - HOUR), NOW)
    [window] = quota.windows(told(remaining=100, previous_sync=NOW - HOUR, counted_before=40), NOW)
    assert window.limit == 140
    assert [related.name for related in window.related] == [before.name]
    assert window.lock_name == before.lock_name


# Levels.


@pytest.mark.promise("limits-never-exceeded")
def test_campaign_and_tenant_have_separate_counters() -> None:
    levels = (
        LimitLevel("7", Limits(rate_per_hour=100)),
        LimitLevel("campaign-3", Limits(rate_per_hour=20, daily_limit=50)),
    )
    found = windows_of_levels(levels, NOW, told())
    assert [(window.limit, window.reason) for window in found] == [
        (100, "rate_per_hour"),
        (20, "rate_per_hour"),
        (50, "daily_limit"),
        (500, "quota_exhausted"),
    ]
    assert len({window.name for window in found}) == 4


@pytest.mark.promise("limits-never-exceeded")
def test_campaign_limits_use_the_tenants_days() -> None:
    tenant = Limits(rate_per_hour=100, working_hours="08:00-17:00", timezone="Europe/Lisbon", sliding_hour=True)
    own = parse_campaign_limits('{"rate_per_hour": 5, "warmup": true, "working_hours": null}', tenant, NOW)
    assert (own.rate_per_hour, own.daily_limit, own.working_hours) == (5, None, "08:00-17:00")
    assert (own.timezone, own.sliding_hour, own.warmup_since) == ("Europe/Lisbon", True, date(2027, 1, 12))
    plain = parse_campaign_limits("{}", tenant, NOW)
    assert windows(plain, "campaign-1", NOW) == ()


def test_smtpbz_has_its_plans_hourly_limit_by_default() -> None:
    assert default_limits(load(provider="smtpbz")).rate_per_hour == 100
    assert default_limits(load(provider="smtpbz", rate_per_hour=400)).rate_per_hour == 400
    assert default_limits(load(provider="mailbox")).rate_per_hour is None
    assert default_limits(load(route="smtpbz, smtp")).rate_per_hour is None


# Hours.


@pytest.mark.promise("hours-zone")
@given(now=moments | changes, zone=st.sampled_from(ZONES), open_hours=hours | overnight | weekly)
def test_hours_do_not_change_before_they_open_or_close(now: Instant, zone: str, open_hours: str) -> None:
    limits = Limits(working_hours=open_hours, timezone=zone)
    deferral = outside_hours(limits, is_bulk=True, now=now)
    change = closes_at(limits, now) if deferral is None else deferral.until
    if change is None:
        assert is_always_open(limits)
        return
    assert now < change <= now + 15 * DAY
    assert (outside_hours(limits, is_bulk=True, now=change) is None) == (deferral is not None)
    for moment in (*range(now, change, max(MINUTE, (change - now) // 50)), change - 1):
        assert (outside_hours(limits, is_bulk=True, now=moment) is None) == (deferral is None)


@pytest.mark.promise("hours-zone")
def test_hours_stay_open_when_clocks_skip_midnight() -> None:
    limits = Limits(working_hours="00:05-24:00", timezone="America/Havana")
    assert closes_at(limits, at("2027-03-13T12:00", "America/Havana")) == at("2027-03-15T00:00", "America/Havana")


@pytest.mark.promise("hours-zone")
def test_hours_cross_midnight() -> None:
    limits = Limits(working_hours="22:00-06:00", timezone="Europe/Lisbon")
    for moment in ("2027-01-12T22:00", "2027-01-13T00:00", "2027-01-13T05:59"):
        assert outside_hours(limits, is_bulk=True, now=at(moment, "Europe/Lisbon")) is None
    held = outside_hours(limits, is_bulk=True, now=at("2027-01-13T06:00", "Europe/Lisbon"))
    assert held is not None
    assert held.until == at("2027-01-13T22:00", "Europe/Lisbon")
    assert closes_at(limits, at("2027-01-12T23:00", "Europe/Lisbon")) == at("2027-01-13T06:00", "Europe/Lisbon")
    # A new day's limit applies at once, because the hours are open at midnight.
    assert next_opening(limits, at("2027-01-12T23:00", "Europe/Lisbon")) == at("2027-01-13T00:00", "Europe/Lisbon")


@pytest.mark.promise("hours-zone")
def test_hours_differ_by_weekday() -> None:
    limits = Limits(working_hours="Mon-Thu 09:00-18:00, fri 09:00-13:00, Sun 23:00-01:00", timezone="UTC")
    friday = at("2027-01-15T12:59")
    assert closes_at(limits, friday) == at("2027-01-15T13:00")
    held = outside_hours(limits, is_bulk=True, now=at("2027-01-15T13:00"))
    assert held is not None
    assert held.until == at("2027-01-17T23:00")
    assert closes_at(limits, held.until) == at("2027-01-18T01:00")
    assert next_opening(limits, friday) == at("2027-01-17T23:00")


@pytest.mark.parametrize("text", ["09:00-18:00", "Mon-Sun 09:00-18:00", "Sat-Fri 09:00-18:00"])
def test_same_hours_every_day_do_not_differ_by_weekday(text: str) -> None:
    assert parse_working_hours(text) == parse_working_hours("09:00-18:00")
    assert not parse_working_hours(text).differs_by_weekday


@pytest.mark.parametrize("text", ["", "9-18", "09:00-09:00", "24:00-06:00", "Xyz 09:00-18:00", "09:00-18:00,", "Mon"])
def test_invalid_working_hours_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"use|must"):
        parse_working_hours(text)


def test_recipient_zone_defers_messages_but_not_the_lane() -> None:
    levels = (
        LimitLevel("7", Limits(working_hours="09:00-18:00", timezone="Europe/Lisbon")),
        LimitLevel("campaign-1", Limits(working_hours="09:00-18:00", timezone="Europe/Lisbon", in_recipient_zone=True)),
    )
    now = at("2027-01-12T10:00")
    assert lane_outside_hours(levels, is_bulk=True, now=now) is None
    assert recipient_outside_hours(levels, "Europe/Lisbon", now) is None
    held = recipient_outside_hours(levels, "America/New_York", now)
    assert held is not None
    assert (held.until, held.reason) == (at("2027-01-12T09:00", "America/New_York"), "outside_hours")
    for unknown in (None, "", "Mars/Olympus", "../etc/passwd", "a" * 300):
        assert recipient_outside_hours(levels, unknown, now) is None
    assert (
        recipient_outside_hours(levels[:1], "America/New_York", now) is None
    )  # The limits do not use recipients' zones.


@given(now=moments | changes, zone=st.sampled_from(ZONES), theirs=st.sampled_from(ZONES), open_hours=hours)
def test_recipient_hours_are_respected_in_every_zone(now: Instant, zone: str, theirs: str, open_hours: str) -> None:
    limits = Limits(working_hours=open_hours, timezone=zone, in_recipient_zone=True)
    held = recipient_outside_hours((LimitLevel("7", limits),), theirs, now)
    own = Limits(working_hours=open_hours, timezone=theirs)
    if held is None:
        assert outside_hours(own, is_bulk=True, now=now) is None
    else:
        assert held.until > now
        assert outside_hours(own, is_bulk=True, now=held.until) is None


@pytest.mark.promise("limits-never-exceeded")
def test_hours_of_tenant_and_campaign_must_both_be_open() -> None:
    levels = (
        LimitLevel("7", Limits(working_hours="09:00-18:00")),
        LimitLevel("campaign-1", Limits(working_hours="14:00-24:00")),
    )
    held = lane_outside_hours(levels, is_bulk=True, now=at("2027-01-12T07:00"))
    assert held is not None
    assert held.until == at("2027-01-12T14:00")
    assert lane_outside_hours(levels, is_bulk=True, now=at("2027-01-12T15:00")) is None
    assert lane_outside_hours(levels, is_bulk=True, now=at("2027-01-12T19:00")) is not None
    assert lane_outside_hours(levels, is_bulk=False, now=at("2027-01-12T19:00")) is None


# A clock that changes.


@given(now=moments | changes, zone=st.sampled_from(ZONES), moved=st.sampled_from([-HOUR, HOUR, 365 * DAY, -1, 1]))
def test_windows_depend_only_on_the_time(now: Instant, zone: str, moved: int) -> None:
    """Nothing is remembered between calls: a clock set back and forth finds the same counters."""
    limits = Limits(rate_per_second=1, rate_per_hour=2, daily_limit=3, timezone=zone, warmup_since=date(2027, 1, 1))
    before = windows(limits, 7, now)
    windows(limits, 7, now + moved)
    assert windows(limits, 7, now) == before
    for window in before:
        assert window.ends_at > now
        assert window.deferred_until > now
