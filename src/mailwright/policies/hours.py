"""Working hours: bulk messages wait until they open; transactional messages never wait."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mailwright.domain.clock import MINUTE, Instant, to_instant
from mailwright.domain.permits import Deferral, LimitLevel, Limits

ALWAYS = "00:00-24:00"
# Without working hours, an exhausted daily limit still reopens in the morning and not at midnight.
DEFAULT_OPENING = time(9)


def outside_hours(limits: Limits, *, is_bulk: bool, now: Instant) -> Deferral | None:
    if not is_bulk or limits.working_hours == ALWAYS:
        return None
    local = _local(now, limits)
    opens, closes = _hours(limits.working_hours)
    if opens <= local.time() and (closes is None or local.time() < closes):
        return None
    day = local.date() if local.time() < opens else local.date() + timedelta(days=1)
    opening = datetime.combine(day, opens)
    # When clocks go back, the opening time may come twice, and the first one may have passed.
    until = next(instant for fold in (0, 1) if (instant := _instant(opening.replace(fold=fold), limits)) > now)
    return Deferral(until, "outside_hours")


def lane_outside_hours(levels: Sequence[LimitLevel], *, is_bulk: bool, now: Instant) -> Deferral | None:
    """Return the deferral of a lane until the working hours of tenant and campaign are both open, or None.

    If the hours apply in the recipients' time zones, messages are deferred one by one instead of the lane.
    """
    if any(level.limits.in_recipient_zone for level in levels):
        return None
    return _latest(outside_hours(level.limits, is_bulk=is_bulk, now=now) for level in levels)


def recipient_outside_hours(levels: Sequence[LimitLevel], zone: str | None, now: Instant) -> Deferral | None:
    """Return the deferral of one message until working hours in its recipient's zone, or in the sender's if unknown."""
    if not any(level.limits.in_recipient_zone for level in levels):
        return None
    known = zone if zone is not None and is_zone(zone) else None
    local_limits = [replace(level.limits, timezone=known or level.limits.timezone) for level in levels]
    return _latest(outside_hours(limits, is_bulk=True, now=now) for limits in local_limits)


def closes_at(limits: Limits, now: Instant) -> Instant | None:
    """Return when the current working hours end; None if they never do."""
    if limits.working_hours == ALWAYS:
        return None
    local, closes = _local(now, limits), _hours(limits.working_hours)[1]
    day = local.date() if closes is not None else local.date() + timedelta(days=1)
    closing = datetime.combine(day, closes or time())
    instants = [_instant(closing.replace(fold=fold), limits) for fold in (0, 1)]
    end = min((instant for instant in instants if instant > now), default=max(instants) + MINUTE)
    if local.utcoffset() == _local(end, limits).utcoffset():
        return end
    # Clocks change before the closing time and may skip it, so use the first minute outside the hours.
    minutes = range(now // MINUTE + 1, end // MINUTE + 1)
    outside = (minute * MINUTE for minute in minutes if outside_hours(limits, is_bulk=True, now=minute * MINUTE))
    return next(outside, end)


@lru_cache(maxsize=1_024)
def is_zone(name: str) -> bool:
    """Return whether a name is a time zone. Names come from imports and forms; invalid ones are ignored."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def next_opening(limits: Limits, now: Instant) -> Instant:
    """Return tomorrow's opening time in the tenant's zone."""
    opens = DEFAULT_OPENING if limits.working_hours == ALWAYS else _hours(limits.working_hours)[0]
    return _instant(datetime.combine(_local(now, limits).date() + timedelta(days=1), opens), limits)


def local_day(limits: Limits, now: Instant) -> tuple[str, Instant]:
    """Return the date in the tenant's zone and when that day ends. A day has 23 or 25 hours when clocks change."""
    date = _local(now, limits).date()
    return date.isoformat(), _instant(datetime.combine(date + timedelta(days=1), time()), limits)


def _latest(deferrals: Iterable[Deferral | None]) -> Deferral | None:
    active = [deferral for deferral in deferrals if deferral is not None]
    return max(active, key=lambda deferral: deferral.until, default=None)


def _hours(text: str) -> tuple[time, time | None]:
    opens, closes = text.split("-")
    return time.fromisoformat(opens), None if closes == "24:00" else time.fromisoformat(closes)


def _local(now: Instant, limits: Limits) -> datetime:
    return datetime.fromtimestamp(now / 1000, UTC).astimezone(ZoneInfo(limits.timezone))


def _instant(local: datetime, limits: Limits) -> Instant:
    """Convert a local time. A time skipped in spring becomes the time after the gap, as with zoneinfo's `fold=0`."""
    return to_instant(local.replace(tzinfo=ZoneInfo(limits.timezone)))
