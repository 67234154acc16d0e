"""Times and durations as text, for every interface."""

from datetime import UTC, datetime, tzinfo

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant
from mailwright.domain.translation import ngettext

# Each unit with the shortest duration that is shown in it.
_UNITS = (
    (365 * DAY, 730 * DAY, "year"),
    (DAY, 2 * DAY, "day"),
    (HOUR, 2 * HOUR, "hour"),
    (MINUTE, 90 * SECOND, "minute"),
    (SECOND, SECOND, "second"),
)


def time_text(instant: Instant, now: Instant, zone: tzinfo = UTC) -> str:
    """Return `15:00 Europe/Lisbon (in 12 minutes)`, with the date if it is not today."""
    then, today = (datetime.fromtimestamp(each / 1000, zone) for each in (instant, now))
    date = "" if then.date() == today.date() else f"{then.day} {then:%b %Y}, "
    time = f"{then:%H:%M:%S}" if then.second else f"{then:%H:%M}"
    return f"{date}{time} {zone} ({distance(instant, now)})"


def distance(instant: Instant, now: Instant) -> str:
    """Return `in 12 minutes`, `3 days ago` or `now`."""
    if instant == now:
        return "now"
    return f"in {duration(instant - now)}" if instant > now else f"{duration(now - instant)} ago"


def duration(length: Instant) -> str:
    """Return the duration in the largest unit that gives at least two: `90 minutes`, `2 hours`."""
    for unit, shortest, name in _UNITS:
        if length >= shortest:
            return count_text(round(length / unit), name)
    return "less than a second"


def count_text(number: int, word: str, words: str | None = None) -> str:
    """Return `1 message` or `1,200 messages`. `words` is the plural if it does not end in s."""
    return ngettext(f"{{count}} {word}", f"{{count}} {words or f'{word}s'}", number)
