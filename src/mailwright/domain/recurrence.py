"""Times that repeat: weekdays or days of the month at a local time."""

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from mailwright.domain.clock import Instant, to_instant
from mailwright.domain.lazy_dataclass import dataclass

WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# A month has at most 31 days, and only some months have a 31st.
_DAYS_AHEAD: Final = 64


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Days at a local time such as 09:00. A day that a short month does not have becomes its last day.

    A local time that a clock change skips becomes the time after the change; a repeated time is its first occurrence.
    """

    time: str
    weekdays: tuple[str, ...] = WEEKDAYS
    month_days: tuple[int, ...] = ()  # If there are any, the weekdays do not count.

    def next_from(self, since: Instant, zone: tzinfo) -> Instant:
        """Return the first occurrence at or after a time."""
        first = datetime.fromtimestamp(since / 1000, UTC).astimezone(zone).date()
        return next(
            moment
            for days in range(_DAYS_AHEAD)
            if self._includes(day := first + timedelta(days=days)) and (moment := self._at(day, zone)) >= since
        )

    def times_from(self, since: Instant, zone: tzinfo, number: int) -> tuple[Instant, ...]:
        """Return the first occurrences at or after a time."""
        found: list[Instant] = []
        for _ in range(number):
            found.append(self.next_from(found[-1] + 1 if found else since, zone))
        return tuple(found)

    def latest_until(self, until: Instant, zone: tzinfo) -> Instant:
        """Return the last occurrence at or before a time."""
        last = datetime.fromtimestamp(until / 1000, UTC).astimezone(zone).date()
        return next(
            moment
            for days in range(_DAYS_AHEAD)
            if self._includes(day := last - timedelta(days=days)) and (moment := self._at(day, zone)) <= until
        )

    def _includes(self, day: date) -> bool:
        if not self.month_days:
            return WEEKDAYS[day.weekday()] in self.weekdays
        is_last = (day + timedelta(days=1)).day == 1
        return day.day in self.month_days or (is_last and any(each > day.day for each in self.month_days))

    def _at(self, day: date, zone: tzinfo) -> Instant:
        hour, minute = map(int, self.time.split(":"))
        return to_instant(datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone))
