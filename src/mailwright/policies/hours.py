"""Working hours: bulk mail waits for the tenant's own morning; a receipt or a password reset never waits."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mailwright.domain.clock import MINUTE, Instant, to_instant
from mailwright.domain.permits import Deferral, LimitLevel, Limits

ALWAYS = "00:00-24:00"
# Where mail may go at any hour, a used-up day still reopens in the morning and not at midnight.
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
    # In the night when clocks go back the opening may come twice, and its first time be over.
    until = next(found for fold in (0, 1) if (found := _instant(opening.replace(fold=fold), limits)) > now)
    return Deferral(until, "outside_hours")


def lane_outside_hours(levels: Sequence[LimitLevel], *, is_bulk: bool, now: Instant) -> Deferral | None:
    """A tenant's hours and its campaign's: both must be open. Where each reader's own clock counts, no lane waits."""
    if any(level.limits.in_recipient_zone for level in levels):
        return None
    return _latest(outside_hours(level.limits, is_bulk=is_bulk, now=now) for level in levels)


def recipient_outside_hours(levels: Sequence[LimitLevel], zone: str | None, now: Instant) -> Deferral | None:
    """One mail waits for its reader's own morning; a reader whose zone is not known has the sender's."""
    if not any(level.limits.in_recipient_zone for level in levels):
        return None
    known = zone if zone is not None and is_zone(zone) else None
    theirs = [replace(level.limits, timezone=known or level.limits.timezone) for level in levels]
    return _latest(outside_hours(limits, is_bulk=True, now=now) for limits in theirs)


def closes_at(limits: Limits, now: Instant) -> Instant | None:
    """When the hours that are open now end; None where they never do."""
    if limits.working_hours == ALWAYS:
        return None
    local, closes = _local(now, limits), _hours(limits.working_hours)[1]
    day = local.date() if closes is not None else local.date() + timedelta(days=1)
    closing = datetime.combine(day, closes or time())
    moments = [_instant(closing.replace(fold=fold), limits) for fold in (0, 1)]
    found = min((moment for moment in moments if moment > now), default=max(moments) + MINUTE)
    if local.utcoffset() == _local(found, limits).utcoffset():
        return found
    # The clocks change before that, and may skip the closing time: the first minute outside the hours is the end.
    minutes = range(now // MINUTE + 1, found // MINUTE + 1)
    outside = (minute * MINUTE for minute in minutes if outside_hours(limits, is_bulk=True, now=minute * MINUTE))
    return next(outside, found)


@lru_cache(maxsize=1_024)
def is_zone(name: str) -> bool:
    """Zones come from imports and web forms: what is none is treated as not given."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def next_opening(limits: Limits, now: Instant) -> Instant:
    """Tomorrow's opening time, in the tenant's own zone."""
    opens = DEFAULT_OPENING if limits.working_hours == ALWAYS else _hours(limits.working_hours)[0]
    return _instant(datetime.combine(_local(now, limits).date() + timedelta(days=1), opens), limits)


def local_day(limits: Limits, now: Instant) -> tuple[str, Instant]:
    """The tenant's own date, and when it ends: 23 or 25 hours after it began on the days when clocks change."""
    date = _local(now, limits).date()
    return date.isoformat(), _instant(datetime.combine(date + timedelta(days=1), time()), limits)


def _latest(holds: Iterable[Deferral | None]) -> Deferral | None:
    return max((held for held in holds if held is not None), key=lambda held: held.until, default=None)


def _hours(text: str) -> tuple[time, time | None]:
    opens, closes = text.split("-")
    return time.fromisoformat(opens), None if closes == "24:00" else time.fromisoformat(closes)


def _local(now: Instant, limits: Limits) -> datetime:
    return datetime.fromtimestamp(now / 1000, UTC).astimezone(ZoneInfo(limits.timezone))


def _instant(local: datetime, limits: Limits) -> Instant:
    """A time that the clocks skip in spring means the moment after the gap: `fold=0` of zoneinfo does just that."""
    return to_instant(local.replace(tzinfo=ZoneInfo(limits.timezone)))
