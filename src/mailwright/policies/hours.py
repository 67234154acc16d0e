"""Working hours: bulk messages are deferred until working hours begin; transactional messages never are."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mailwright.domain.clock import DAY, MINUTE, Instant, to_instant
from mailwright.domain.permits import Deferral, LimitLevel, Limits
from mailwright.domain.working_hours import WorkingHours, parse_working_hours

# Without working hours, sending after a used-up daily limit resumes at this time instead of midnight.
DEFAULT_OPENING = time(9)
# If a clock change skips the hours of the only open weekday, the next opening can be two weeks away.
_SEARCHED_DAYS = 16


def outside_hours(limits: Limits, *, is_bulk: bool, now: Instant) -> Deferral | None:
    hours = parse_working_hours(limits.working_hours)
    if not is_bulk or hours.is_always or _is_open(hours, limits, now):
        return None
    until = _next_change(hours, limits, now)
    assert until is not None
    return Deferral(until, "outside_hours")


def is_always_open(limits: Limits) -> bool:
    return parse_working_hours(limits.working_hours).is_always


def lane_outside_hours(levels: Sequence[LimitLevel], *, is_bulk: bool, now: Instant) -> Deferral | None:
    """Return the deferral of a lane until the working hours of tenant and campaign are both open, or None.

    If the hours apply in the recipients' time zones, messages are deferred one by one instead of the lane.
    """
    if any(level.limits.in_recipient_zone for level in levels):
        return None
    return _latest(outside_hours(level.limits, is_bulk=is_bulk, now=now) for level in levels)


def recipient_outside_hours(levels: Sequence[LimitLevel], zone: str | None, now: Instant) -> Deferral | None:
    """Return the deferral of a message until working hours in its recipient's zone, or in the sender's if unknown."""
    if not any(level.limits.in_recipient_zone for level in levels):
        return None
    known = zone if zone is not None and is_zone(zone) else None
    local_limits = [replace(level.limits, timezone=known or level.limits.timezone) for level in levels]
    return _latest(outside_hours(limits, is_bulk=True, now=now) for limits in local_limits)


def closes_at(limits: Limits, now: Instant) -> Instant | None:
    """Return when the current working hours end; None if they never do. The hours must be open."""
    hours = parse_working_hours(limits.working_hours)
    return None if hours.is_always else _next_change(hours, limits, now)


@lru_cache(maxsize=1_024)
def is_zone(name: str) -> bool:
    """Return whether a name is a time zone. Names come from imports and forms; invalid ones are ignored."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def next_opening(limits: Limits, now: Instant) -> Instant:
    """Return when bulk email is sent again after today, in the tenant's zone."""
    hours = parse_working_hours(limits.working_hours)
    if hours.is_always:
        return _instant(datetime.combine(_local(now, limits).date() + timedelta(days=1), DEFAULT_OPENING), limits)
    midnight = local_day(limits, now)[1]
    closed = outside_hours(limits, is_bulk=True, now=midnight)
    return midnight if closed is None else closed.until


def local_day(limits: Limits, now: Instant) -> tuple[str, Instant]:
    """Return the date in the tenant's zone and the end of that day, which has 23 or 25 hours when clocks change."""
    date = _local(now, limits).date()
    return date.isoformat(), _instant(datetime.combine(date + timedelta(days=1), time()), limits)


def _latest(deferrals: Iterable[Deferral | None]) -> Deferral | None:
    active = [deferral for deferral in deferrals if deferral is not None]
    return max(active, key=lambda deferral: deferral.until, default=None)


def _is_open(hours: WorkingHours, limits: Limits, now: Instant) -> bool:
    return hours.is_open(_local(now, limits))


def _next_change(hours: WorkingHours, limits: Limits, now: Instant) -> Instant | None:
    """Return the first time after `now` at which the hours open or close.

    Working hours open or close only at a configured time or at a clock change, which may skip or repeat such a time.
    """
    was_open = _is_open(hours, limits, now)
    for day in range(_SEARCHED_DAYS):
        for instant in sorted(_candidates(hours, limits, now + day * DAY)):
            if _is_open(hours, limits, instant) != was_open:
                return instant
    return None


def _candidates(hours: WorkingHours, limits: Limits, now: Instant) -> set[Instant]:
    """Return the times within a day after `now` at which the hours may change."""
    today = _local(now, limits).date()
    local_times = (local for days in (-1, 0, 1) for local in hours.changes(today + timedelta(days=days)))
    found = {_instant(local.replace(fold=fold), limits) for local in local_times for fold in (0, 1)}
    if (change := _clock_change(limits, now, now + DAY)) is not None:
        found.add(change)
    return {instant for instant in found if now < instant <= now + DAY}


def _clock_change(limits: Limits, begins: Instant, ends: Instant) -> Instant | None:
    """Return when clocks change within a day, to the minute; None if they do not."""
    before = _local(begins, limits).utcoffset()
    if _local(ends, limits).utcoffset() == before:
        return None
    first, last = begins // MINUTE, -(-ends // MINUTE)
    while last - first > 1:
        middle = (first + last) // 2
        if _local(middle * MINUTE, limits).utcoffset() == before:
            first = middle
        else:
            last = middle
    return last * MINUTE


def _local(now: Instant, limits: Limits) -> datetime:
    return datetime.fromtimestamp(now / 1000, UTC).astimezone(ZoneInfo(limits.timezone))


def _instant(local: datetime, limits: Limits) -> Instant:
    """Convert a local time. A time skipped in spring becomes the time after the gap, as with zoneinfo's `fold=0`."""
    return to_instant(local.replace(tzinfo=ZoneInfo(limits.timezone)))
