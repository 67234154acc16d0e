"""Time is passed in: whoever needs it asks a Clock, and a test hands out one that it moves by hand."""

import time
from datetime import UTC, datetime
from typing import Protocol

# Milliseconds since 1970, UTC. One integer compares the same in Python, SQLite and PostgreSQL.
Instant = int

SECOND: Instant = 1_000
MINUTE: Instant = 60 * SECOND
HOUR: Instant = 60 * MINUTE
DAY: Instant = 24 * HOUR


class Clock(Protocol):
    def now(self) -> Instant: ...


class SystemClock:
    """Reads the system's clock at every call, so that a shifted clock shifts everything."""

    def now(self) -> Instant:
        return time.time_ns() // 1_000_000


class SteadyClock:
    """Counts on whatever anybody does to the system's clock: for intervals, its beginning means nothing."""

    def now(self) -> Instant:
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock for tests and forecasts: it stands still until it is moved."""

    def __init__(self, start: Instant = 1_800_000_000_000) -> None:
        self._now = start

    def now(self) -> Instant:
        return self._now

    def advance(self, duration: Instant) -> Instant:
        self._now += duration
        return self._now


def isoformat(instant: Instant | None) -> str | None:
    """`2027-01-15T08:00:00.000Z`: the one way in which people and scripts see a time."""
    if instant is None:
        return None
    moment = datetime.fromtimestamp(instant / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_instant(moment: datetime) -> Instant:
    """A date without a zone is refused by the input models; here it would silently mean local time."""
    return round(moment.timestamp() * 1000)
