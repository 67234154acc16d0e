"""Times and durations as text, for every interface."""

from datetime import UTC, datetime, tzinfo

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant

_UNITS = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"))


def time_text(instant: Instant, now: Instant, zone: tzinfo = UTC) -> str:
    """Return `15:00 Europe/Lisbon (in 12 minutes)`, with the date if it is not today."""
    then, today = (datetime.fromtimestamp(each / 1000, zone) for each in (instant, now))
    date = "" if then.date() == today.date() else f"{then:%Y-%m-%d} "
    time = f"{then:%H:%M:%S}" if then.second else f"{then:%H:%M}"
    return f"{date}{time} {zone} ({distance(instant, now)})"


def distance(instant: Instant, now: Instant) -> str:
    """Return `in 12 minutes`, `3 days ago` or `now`."""
    if instant == now:
        return "now"
    return f"in {duration(instant - now)}" if instant > now else f"{duration(now - instant)} ago"


def duration(length: Instant) -> str:
    """Return the duration in the largest unit that gives at least two: `90 minutes`, `2 hours`."""
    for unit, name in _UNITS:
        if length >= 2 * unit or (length >= unit and unit == SECOND):
            return count_text(round(length / unit), name)
    return "less than a second"


def count_text(number: int, word: str) -> str:
    """Return `1 message` or `1,200 messages`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
