"""Parse working hours: for every day or by weekday, also across midnight."""

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import lru_cache

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext

ALWAYS = "00:00-24:00"
EXAMPLES = "09:00-18:00, 22:00-06:00, or by weekday: Mon-Fri 09:00-18:00, Sat 10:00-14:00"

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY_MINUTES = 24 * 60
_WEEK_MINUTES = 7 * _DAY_MINUTES
_MAX_LENGTH = 400
_DAY = "|".join(_DAYS)
_PART = re.compile(
    rf"(?:(?P<days>(?:{_DAY})(?:-(?:{_DAY}))?)\s+)?"
    r"(?P<opens>(?:[01]\d|2[0-3]):[0-5]\d)-(?P<closes>(?:[01]\d|2[0-3]):[0-5]\d|24:00)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class WorkingHours:
    """The open times of a week, as minutes since Monday 00:00 local time, in order and without overlaps."""

    spans: tuple[tuple[int, int], ...]

    @property
    def is_always(self) -> bool:
        return self.spans == ((0, _WEEK_MINUTES),)

    @property
    def differs_by_weekday(self) -> bool:
        days = [
            {
                (max(opens - midnight, 0), min(closes - midnight, _DAY_MINUTES))
                for opens, closes in self.spans
                if opens < midnight + _DAY_MINUTES and closes > midnight
            }
            for midnight in range(0, _WEEK_MINUTES, _DAY_MINUTES)
        ]
        return any(day != days[0] for day in days)

    def is_open(self, local: datetime) -> bool:
        minute = local.weekday() * _DAY_MINUTES + local.hour * 60 + local.minute
        return any(opens <= minute < closes for opens, closes in self.spans)

    def changes(self, day: date) -> Iterator[datetime]:
        """Yield the local times of a day at which the hours open or close, in no particular order."""
        midnight = day.weekday() * _DAY_MINUTES
        for minute in {minute % _WEEK_MINUTES for span in self.spans for minute in span}:
            if midnight <= minute < midnight + _DAY_MINUTES:
                yield datetime.combine(day, time()) + timedelta(minutes=minute - midnight)


@lru_cache(maxsize=1_024)
def parse_working_hours(text: str) -> WorkingHours:
    """Parse `09:00-18:00`, `22:00-06:00` or `Mon-Fri 09:00-18:00, Sat 10:00-14:00`. Days that are not named are closed.

    Hours that end before they begin end on the next day. Raise a ValueError with the reason if the text is invalid.
    """
    if len(text) > _MAX_LENGTH:
        raise ValueError(lazy_gettext("use at most {max_length} characters", max_length=_MAX_LENGTH))
    spans = [span for part in text.split(",") for span in _spans(part.strip())]
    return WorkingHours(tuple(_joined(spans)))


def _spans(part: str) -> Iterator[tuple[int, int]]:
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(lazy_gettext("use opening and closing times such as {examples}", examples=EXAMPLES))
    opens, closes = _minutes(match["opens"]), _minutes(match["closes"])
    if opens == closes:
        raise ValueError(
            lazy_gettext("opening and closing times must differ; use {always} for no limit", always=ALWAYS)
        )
    length = (closes - opens) % _DAY_MINUTES or _DAY_MINUTES
    for number in _day_numbers(match["days"]):
        begins = number * _DAY_MINUTES + opens
        ends = begins + length
        yield begins, min(ends, _WEEK_MINUTES)
        if ends > _WEEK_MINUTES:
            yield 0, ends - _WEEK_MINUTES


def _day_numbers(days: str | None) -> list[int]:
    if days is None:
        return list(range(7))
    first, _, last = (days.title()).partition("-")
    begin, end = _DAYS.index(first), _DAYS.index(last or first)
    return [number % 7 for number in range(begin, begin + (end - begin) % 7 + 1)]


def _joined(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    current: tuple[int, int] | None = None
    for opens, closes in sorted(spans):
        if current is not None and opens <= current[1]:
            current = current[0], max(current[1], closes)
            continue
        if current is not None:
            yield current
        current = opens, closes
    if current is not None:
        yield current


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
