"""Times of the queue are ISO 8601 text, in UTC, in whatever spelling the program has that writes them."""

from datetime import UTC, datetime

from mailwright.domain.clock import Instant, isoformat, to_instant


def parse(text: str | None) -> Instant | None:
    """None for what is no time. One without a zone is in UTC, as SQLite's own functions write it."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(str(text).strip())
    except ValueError:
        return None
    return to_instant(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def format_time(instant: Instant) -> str:
    """In milliseconds and with a Z: sorted as text, these are sorted by time."""
    return isoformat(instant) or ""
