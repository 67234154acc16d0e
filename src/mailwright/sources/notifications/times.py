"""Parse and format the ISO 8601 times of the queue, which other programs may write in different formats."""

from datetime import UTC, datetime

from mailwright.domain.clock import Instant, isoformat, to_instant


def parse(text: str | None) -> Instant | None:
    """Parse a time; None if the text is not one. A time without a zone is in UTC, as SQLite's functions write it."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(str(text).strip())
    except ValueError:
        return None
    return to_instant(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def format_time(instant: Instant) -> str:
    """Format with milliseconds and a Z, so that sorting as text sorts by time."""
    return isoformat(instant) or ""
