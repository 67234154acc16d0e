"""Working hours and limits in the tenant's time zone, including clock changes."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant, to_instant
from mailwright.domain.permits import Limits
from mailwright.policies.hours import local_day, next_opening, outside_hours
from mailwright.policies.rates import windows

LISBON, NEW_YORK = "Europe/Lisbon", "America/New_York"
ZONES = [
    "UTC",
    LISBON,
    NEW_YORK,
    "Asia/Kolkata",
    "Pacific/Chatham",
    "Australia/Lord_Howe",
    "America/Havana",
    "Africa/Cairo",
]

moments = st.integers(to_instant(datetime(2024, 1, 1, tzinfo=UTC)), to_instant(datetime(2032, 1, 1, tzinfo=UTC)))
# Times around clock changes are the most error-prone.
changes = st.builds(
    lambda base, minutes: base + minutes * MINUTE,
    st.sampled_from(
        [
            to_instant(datetime.fromisoformat(text))
            for text in (
                "2027-03-28T01:00:00+00:00",
                "2027-10-31T01:00:00+00:00",
                "2027-03-14T07:00:00+00:00",
                "2027-11-07T06:00:00+00:00",
                "2027-04-30T00:00:00+02:00",
                "2027-10-29T00:00:00+03:00",
            )
        ]
    ),
    st.integers(-26 * 60, 26 * 60),
)
hours = st.builds(
    lambda opens, length: f"{opens // 60:02}:{opens % 60:02}-{_time(opens + length)}",
    st.integers(0, 1439),
    st.integers(1, 1439),
)


def _time(minutes: int) -> str:
    return "24:00" if minutes >= 1440 else f"{minutes // 60:02}:{minutes % 60:02}"


def at(text: str, zone: str = "UTC", fold: int = 0) -> Instant:
    return to_instant(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold))


def bulk_held(limits: Limits, now: Instant) -> Instant | None:
    held = outside_hours(limits, is_bulk=True, now=now)
    return held.until if held else None


@pytest.mark.promise("hours-zone")
@pytest.mark.parametrize("zone", ZONES)
def test_bulk_message_waits_for_working_hours(zone: str) -> None:
    limits = Limits(working_hours="09:00-18:00", timezone=zone)
    opening = at("2027-01-12T09:00", zone)
    assert bulk_held(limits, opening - 1) == opening
    assert bulk_held(limits, opening) is None
    assert bulk_held(limits, at("2027-01-12T18:00", zone) - 1) is None
    assert bulk_held(limits, at("2027-01-12T18:00", zone)) == at("2027-01-13T09:00", zone)


@pytest.mark.promise("hours-zone")
@given(now=moments, zone=st.sampled_from(ZONES), hours=hours)
def test_transactional_message_never_waits(now: Instant, zone: str, hours: str) -> None:
    assert outside_hours(Limits(working_hours=hours, timezone=zone), is_bulk=False, now=now) is None


@pytest.mark.promise("hours-zone")
@given(now=moments | changes, zone=st.sampled_from(ZONES), hours=hours)
def test_deferral_ends_within_two_days_inside_working_hours(now: Instant, zone: str, hours: str) -> None:
    limits = Limits(working_hours=hours, timezone=zone)
    until = bulk_held(limits, now)
    if until is not None:
        assert now < until <= now + 2 * DAY
        assert bulk_held(limits, until) is None


@pytest.mark.promise("hours-zone")
@pytest.mark.parametrize(
    ("zone", "eve", "morning", "night_is"),
    [
        (LISBON, "2027-03-27T18:00", "2027-03-28T09:00", 14),
        (LISBON, "2027-10-30T18:00", "2027-10-31T09:00", 16),
        (NEW_YORK, "2027-03-13T18:00", "2027-03-14T09:00", 14),
        (NEW_YORK, "2027-11-06T18:00", "2027-11-07T09:00", 16),
    ],
)
def test_opening_time_is_local_after_a_clock_change(zone: str, eve: str, morning: str, night_is: int) -> None:
    evening = at(eve, zone)
    opening = bulk_held(Limits(working_hours="09:00-18:00", timezone=zone), evening)
    assert opening == at(morning, zone)
    assert opening - evening == night_is * HOUR


@pytest.mark.promise("hours-zone")
def test_skipped_opening_time_is_not_early() -> None:
    limits = Limits(working_hours="02:30-18:00", timezone=NEW_YORK)
    until = bulk_held(limits, at("2027-03-14T01:00", NEW_YORK))
    assert until is not None
    assert until >= at("2027-03-14T03:00", NEW_YORK)


@pytest.mark.promise("hours-zone")
def test_repeated_opening_time_is_handled() -> None:
    limits = Limits(working_hours="01:30-18:00", timezone=NEW_YORK)
    first, again = at("2027-11-07T01:30", NEW_YORK), at("2027-11-07T01:30", NEW_YORK, fold=1)
    assert bulk_held(limits, first - MINUTE) == first
    assert bulk_held(limits, again - MINUTE) == again  # It is 1:15 for the second time.


@pytest.mark.parametrize(
    ("zone", "day", "length"),
    [
        (LISBON, "2027-03-28", 23),
        (LISBON, "2027-10-31", 25),
        (NEW_YORK, "2027-03-14", 23),
        (NEW_YORK, "2027-11-07", 25),
        (NEW_YORK, "2027-06-01", 24),
    ],
)
def test_local_day_has_its_local_length(zone: str, day: str, length: int) -> None:
    limits = Limits(timezone=zone)
    begins = at(f"{day}T00:00", zone)
    assert local_day(limits, begins) == (day, begins + length * HOUR)
    assert local_day(limits, begins + length * HOUR - 1)[0] == day
    assert local_day(limits, begins + length * HOUR)[0] != day


@given(now=moments | changes, zone=st.sampled_from(ZONES))
def test_local_days_have_no_gap_or_overlap(now: Instant, zone: str) -> None:
    limits = Limits(timezone=zone)
    day, ends = local_day(limits, now)
    assert now < ends <= now + 26 * HOUR
    assert local_day(limits, ends - 1)[0] == day
    assert local_day(limits, ends)[0] > day


@given(now=moments | changes, zone=st.sampled_from(ZONES), later=st.integers(0, 2 * DAY))
def test_windows_with_one_name_end_together(now: Instant, zone: str, later: int) -> None:
    """Workers at different times share a window if it is the same, and only then."""
    limits = Limits(rate_per_second=1, rate_per_hour=2, daily_limit=3, timezone=zone)
    for early, late in zip(windows(limits, 7, now), windows(limits, 7, now + later), strict=True):
        assert early.ends_at > now
        assert early.deferred_until >= early.ends_at
        assert (early.name == late.name) == (early.ends_at == late.ends_at) == (now + later < early.ends_at)


def test_each_limit_defers_to_its_own_reopening() -> None:
    now = at("2027-01-12T10:20:30.400")
    limits = Limits(rate_per_second=1, rate_per_hour=2, daily_limit=3, timezone="UTC")
    found = {window.reason: (window.limit, window.ends_at, window.deferred_until) for window in windows(limits, 7, now)}
    hour, midnight = at("2027-01-12T11:00"), at("2027-01-13T00:00")
    assert found == {
        "rate_per_hour": (2, hour, hour),
        "daily_limit": (3, midnight, at("2027-01-13T09:00")),
    }
    assert windows(Limits(), 7, now) == ()


def test_exhausted_day_reopens_with_working_hours() -> None:
    now = at("2027-03-27T10:00", LISBON)
    assert next_opening(Limits(timezone=LISBON), now) == at("2027-03-28T09:00", LISBON)
    assert next_opening(Limits(timezone=LISBON, working_hours="07:30-12:00"), now) == at("2027-03-28T07:30", LISBON)


def test_repeated_hour_has_two_windows() -> None:
    limits = Limits(rate_per_hour=1, timezone=NEW_YORK)
    first = at("2027-11-07T01:30", NEW_YORK)
    again = at("2027-11-07T01:30", NEW_YORK, fold=1)
    assert again - first == timedelta(hours=1) // timedelta(milliseconds=1)
    assert windows(limits, 1, first)[0].name != windows(limits, 1, again)[0].name
    assert windows(limits, 1, first)[0].ends_at == first + HOUR // 2
    assert (first // SECOND) * SECOND == first
