"""Send times: parse local times, and decide whether a send time is in the past or overdue."""

from datetime import datetime, tzinfo

from mailwright.domain.clock import DAY, MINUTE, Instant, to_instant

# A send time that is at most this old counts as now, because clocks differ and forms use whole minutes.
PAST_TOLERANCE: Instant = 5 * MINUTE
# A campaign that no worker started within this time after its send time is held until a user resumes it.
OVERDUE_AFTER: Instant = DAY


def is_past(scheduled_at: Instant, now: Instant) -> bool:
    return scheduled_at < now - PAST_TOLERANCE


def parse_time(text: str, zone: tzinfo) -> Instant:
    """Parse an ISO 8601 time; without a time zone it is in `zone`. Raise ValueError or OverflowError if it is invalid.

    A local time that a clock change skips becomes the time after the change; a repeated time is its first occurrence.
    """
    time = datetime.fromisoformat(text)
    return to_instant(time if time.tzinfo is not None else time.replace(tzinfo=zone))


def has_zone(text: str) -> bool:
    """Return whether a time has a time zone. Also return True for an invalid text, because no zone could fix it."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return True
