"""Times and durations as text, for every interface."""

from datetime import UTC, datetime, tzinfo

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant
from mailwright.domain.recurrence import WEEKDAYS
from mailwright.domain.translation import gettext, lazy_gettext, marked_plural, ngettext

# In every language the short form that follows the day of the month.
MONTHS = (
    lazy_gettext("Jan"),
    lazy_gettext("Feb"),
    lazy_gettext("Mar"),
    lazy_gettext("Apr"),
    lazy_gettext("May"),
    lazy_gettext("Jun"),
    lazy_gettext("Jul"),
    lazy_gettext("Aug"),
    lazy_gettext("Sep"),
    lazy_gettext("Oct"),
    lazy_gettext("Nov"),
    lazy_gettext("Dec"),
)
_WEEKDAY_NAMES = (
    lazy_gettext("Mon"),
    lazy_gettext("Tue"),
    lazy_gettext("Wed"),
    lazy_gettext("Thu"),
    lazy_gettext("Fri"),
    lazy_gettext("Sat"),
    lazy_gettext("Sun"),
)
# Each unit with the shortest duration that is shown in it.
_UNITS = (
    (365 * DAY, 730 * DAY, marked_plural("{count} year", "{count} years")),
    (DAY, 2 * DAY, marked_plural("{count} day", "{count} days")),
    (HOUR, 2 * HOUR, marked_plural("{count} hour", "{count} hours")),
    (MINUTE, 90 * SECOND, marked_plural("{count} minute", "{count} minutes")),
    (SECOND, SECOND, marked_plural("{count} second", "{count} seconds")),
)


def time_text(instant: Instant, now: Instant, zone: tzinfo = UTC) -> str:
    """Return `15:00 Europe/Lisbon (in 12 minutes)` or, on another day, `15:00 Europe/Lisbon on 3 Mar 2027 (…)`."""
    then, today = (datetime.fromtimestamp(each / 1000, zone) for each in (instant, now))
    time = f"{then:%H:%M:%S}" if then.second else f"{then:%H:%M}"
    if then.date() == today.date():
        return f"{time} {zone} ({distance(instant, now)})"
    named = {"time": time, "zone": zone, "date": day_text(then), "distance": distance(instant, now)}
    return gettext("{time} {zone} on {date} ({distance})", **named)


def day_text(day: datetime) -> str:
    """Return `3 Mar 2027`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def weekday_text(day: str) -> str:
    """Return `Mon` for `mon`."""
    return str(_WEEKDAY_NAMES[WEEKDAYS.index(day)])


def distance(instant: Instant, now: Instant) -> str:
    """Return `in 12 minutes`, `3 days ago` or `now`."""
    if instant == now:
        return gettext("now")
    if instant > now:
        return gettext("in {duration}", duration=duration(instant - now))
    return gettext("{duration} ago", duration=duration(now - instant))


def duration(length: Instant) -> str:
    """Return the duration in the largest unit that gives at least two: `90 minutes`, `2 hours`."""
    for unit, shortest, (one, many) in _UNITS:
        if length >= shortest:
            return ngettext(one, many, round(length / unit))
    return gettext("less than a second")


def count_text(number: int, word: str, words: str | None = None) -> str:
    """Return `1 message` or `1,200 messages`. `words` is the plural if it does not end in s."""
    return ngettext(f"{{count}} {word}", f"{{count}} {words or f'{word}s'}", number)
