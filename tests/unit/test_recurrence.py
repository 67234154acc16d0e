"""Times that repeat, also around clock changes and in short months."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from mailwright.domain.clock import Instant, isoformat, to_instant
from mailwright.domain.recurrence import Recurrence

LISBON = ZoneInfo("Europe/Lisbon")


def at(text: str) -> Instant:
    return to_instant(datetime.fromisoformat(text).replace(tzinfo=LISBON))


@pytest.mark.parametrize(
    ("recurrence", "since", "expected"),
    [
        (Recurrence("09:00", ("mon",)), "2027-01-15T10:00", "2027-01-18T09:00:00.000Z"),
        (Recurrence("09:00", ("mon",)), "2027-01-18T09:00", "2027-01-18T09:00:00.000Z"),
        (Recurrence("09:00", ("mon",)), "2027-03-27T10:00", "2027-03-29T08:00:00.000Z"),
        (Recurrence("01:30", ("sun",)), "2027-03-28T00:00", "2027-03-28T01:30:00.000Z"),
        (Recurrence("09:00", month_days=(31,)), "2027-02-01T00:00", "2027-02-28T09:00:00.000Z"),
        (Recurrence("09:00", month_days=(1, 15)), "2027-01-15T10:00", "2027-02-01T09:00:00.000Z"),
    ],
    ids=["next week", "now", "summer time", "skipped time", "short month", "days of the month"],
)
def test_next_time_is_found(recurrence: Recurrence, since: str, expected: str) -> None:
    found = recurrence.next_from(at(since), LISBON)
    assert isoformat(found) == expected
    assert recurrence.latest_until(found, LISBON) == found
    assert recurrence.latest_until(found - 1, LISBON) < found


@pytest.mark.parametrize(
    ("zone", "time", "since", "expected"),
    [
        ("Europe/Berlin", "02:30", "2027-03-27T12:00", ["2027-03-28T03:30+02:00", "2027-03-29T02:30+02:00"]),
        ("Europe/Berlin", "02:30", "2027-10-30T12:00", ["2027-10-31T02:30+02:00", "2027-11-01T02:30+01:00"]),
        ("America/Sao_Paulo", "00:30", "2018-11-03T12:00", ["2018-11-04T01:30-02:00", "2018-11-05T00:30-02:00"]),
        ("America/Sao_Paulo", "23:30", "2018-02-17T12:00", ["2018-02-17T23:30-02:00", "2018-02-18T23:30-03:00"]),
        ("Asia/Kolkata", "09:00", "2027-03-27T12:00", ["2027-03-28T09:00+05:30", "2027-03-29T09:00+05:30"]),
        ("Australia/Lord_Howe", "02:10", "2027-10-02T12:00", ["2027-10-03T02:40+11:00", "2027-10-04T02:10+11:00"]),
        ("Pacific/Apia", "09:00", "2011-12-29T12:00", ["2011-12-31T09:00+14:00", "2012-01-01T09:00+14:00"]),
    ],
)
def test_each_local_day_has_one_time_around_clock_changes(
    zone: str, time: str, since: str, expected: list[str]
) -> None:
    place = ZoneInfo(zone)
    begin = to_instant(datetime.fromisoformat(since).replace(tzinfo=place))
    found = Recurrence(time).times_from(begin, place, len(expected))
    assert [isoformat(each) for each in found] == [
        isoformat(to_instant(datetime.fromisoformat(each))) for each in expected
    ]
    for each in found:
        assert Recurrence(time).latest_until(each + 1, place) == each
