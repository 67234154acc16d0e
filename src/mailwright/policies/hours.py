"""Working hours: bulk mail waits for the tenant's own morning; a receipt or a password reset never waits."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from mailwright.domain.clock import Instant, instant_of
from mailwright.domain.permits import Held, Limits

ALWAYS = "00:00-24:00"
# Where mail may go at any hour, a used-up day still reopens in the morning and not at midnight.
DEFAULT_OPENING = time(9)


def outside_hours(limits: Limits, *, is_bulk: bool, now: Instant) -> Held | None:
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
    return Held(until, "outside_hours")


def next_opening(limits: Limits, now: Instant) -> Instant:
    """Tomorrow's opening time, in the tenant's own zone."""
    opens = DEFAULT_OPENING if limits.working_hours == ALWAYS else _hours(limits.working_hours)[0]
    return _instant(datetime.combine(_local(now, limits).date() + timedelta(days=1), opens), limits)


def local_day(limits: Limits, now: Instant) -> tuple[str, Instant]:
    """The tenant's own date, and when it ends: 23 or 25 hours after it began on the days when clocks change."""
    date = _local(now, limits).date()
    return date.isoformat(), _instant(datetime.combine(date + timedelta(days=1), time()), limits)


def _hours(text: str) -> tuple[time, time | None]:
    opens, closes = text.split("-")
    return time.fromisoformat(opens), None if closes == "24:00" else time.fromisoformat(closes)


def _local(now: Instant, limits: Limits) -> datetime:
    return datetime.fromtimestamp(now / 1000, UTC).astimezone(ZoneInfo(limits.timezone))


def _instant(local: datetime, limits: Limits) -> Instant:
    """A time that the clocks skip in spring means the moment after the gap: `fold=0` of zoneinfo does just that."""
    return instant_of(local.replace(tzinfo=ZoneInfo(limits.timezone)))
