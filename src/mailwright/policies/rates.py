"""Rates: how many mails fit between now and the end of the second, the hour and the day."""

from datetime import UTC, datetime

from mailwright.domain.clock import HOUR, SECOND, Instant
from mailwright.domain.permits import Limits, Window
from mailwright.policies.hours import local_day, next_opening


def windows(limits: Limits, tenant_id: int, now: Instant) -> tuple[Window, ...]:
    """The counters that this tenant's next mail must find room in; none where nothing is limited."""
    found = []
    if limits.rate_per_second is not None:
        ends = (now // SECOND + 1) * SECOND
        name = f"mailer:rate:second:{tenant_id}:{now // SECOND}"
        found.append(Window(name, limits.rate_per_second, ends, "rate_per_second", ends))
    if limits.rate_per_hour is not None:
        ends = (now // HOUR + 1) * HOUR
        moment = datetime.fromtimestamp(now / 1000, UTC)
        name = f"mailer:rate:hour:{tenant_id}:{moment:%Y-%m-%d:%H}"
        found.append(Window(name, limits.rate_per_hour, ends, "rate_per_hour", ends))
    if limits.daily_limit is not None:
        day, ends = local_day(limits, now)
        name = f"mailer:rate:day:{tenant_id}:{day}"
        found.append(Window(name, limits.daily_limit, ends, "daily_limit", next_opening(limits, now)))
    return tuple(found)
