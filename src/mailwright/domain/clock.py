"""Clocks and instants. Functions receive their clock as an argument, so that tests can control time."""

import time
from datetime import UTC, datetime
from typing import Protocol

# Milliseconds since 1970-01-01 UTC. An integer compares the same way in Python, SQLite and PostgreSQL.
Instant = int

SECOND: Instant = 1_000
MINUTE: Instant = 60 * SECOND
HOUR: Instant = 60 * MINUTE
DAY: Instant = 24 * HOUR


class Clock(Protocol):
    def now(self) -> Instant: ...


class SystemClock:
    """The system clock, read at every call so that a clock change takes effect at once."""

    def now(self) -> Instant:
        return time.time_ns() // 1_000_000


class SteadyClock:
    """The monotonic clock, for durations. Changes of the system clock do not affect it; its origin is arbitrary."""

    def now(self) -> Instant:
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock for tests and forecasts that moves only when it is advanced."""

    def __init__(self, start: Instant = 1_800_000_000_000) -> None:
        self._now = start

    def now(self) -> Instant:
        return self._now

    def advance(self, duration: Instant) -> Instant:
        self._now += duration
        return self._now


def isoformat(instant: Instant | None) -> str | None:
    """Format an instant as `2027-01-15T08:00:00.000Z`, the format that every program reads."""
    if instant is None:
        return None
    time_utc = datetime.fromtimestamp(instant / 1000, UTC)
    return time_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_text(instant: Instant) -> str:
    """Format an instant as `15 Jan 2027, 08:00 UTC`, for sentences that are stored or have no tenant's time zone."""
    then = datetime.fromtimestamp(instant / 1000, UTC)
    return f"{then.day} {then:%b %Y, %H:%M} UTC"


def utc_day_text(instant: Instant) -> str:
    return f"{datetime.fromtimestamp(instant / 1000, UTC):%Y-%m-%d}"


def to_instant(value: datetime) -> Instant:
    """Convert an aware datetime. Input models reject naive ones, which would silently be taken as local time."""
    return round(value.timestamp() * 1000)
