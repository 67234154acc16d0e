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
