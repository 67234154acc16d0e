"""Rates: how many mails fit between now and the end of the hour and the day. What is paced is in `pacing.py`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

from mailwright.domain.clock import HOUR, MINUTE, Instant
from mailwright.domain.permits import LimitLevel, Limits, LimitWindow, QuotaSnapshot, RelatedCounter
from mailwright.policies import quota as provider_quota
from mailwright.policies import warmup
from mailwright.policies.hours import local_day, next_opening

# What a provider's usual tariff allows a tenant in an hour, where nobody has set another limit.
TARIFFS = {"smtpbz": 100}

_MINUTES_OF_AN_HOUR = HOUR // MINUTE


def windows(
    limits: Limits, owner: int | str, now: Instant, quota: QuotaSnapshot | None = None
) -> tuple[LimitWindow, ...]:
    """The counters that the owner's next mail must find room in; none where nothing is limited.

    Each owner, a tenant or a campaign, has counters of its own; `quota` is everybody's.
    """
    found = []
    if limits.rate_per_hour is not None:
        hour = _sliding_hour if limits.sliding_hour else _clock_hour
        found.append(hour(limits.rate_per_hour, owner, now))
    if limits.daily_limit is not None:
        day, ends = local_day(limits, now)
        name = f"mailer:rate:day:{owner}:{day}"
        found.append(LimitWindow(name, limits.daily_limit, ends, "daily_limit", next_opening(limits, now)))
    return (*found, *warmup.windows(limits, owner, now), *provider_quota.windows(quota, now))


def windows_of_levels(
    levels: Sequence[LimitLevel], now: Instant, quota: QuotaSnapshot | None = None
) -> tuple[LimitWindow, ...]:
    """All that a lane's next mail must find room in: its tenant's, its campaign's and everybody's."""
    own = [window for level in levels for window in windows(level.limits, level.owner, now)]
    return (*own, *provider_quota.windows(quota, now))


def _clock_hour(limit: int, owner: int | str, now: Instant) -> LimitWindow:
    ends = (now // HOUR + 1) * HOUR
    moment = datetime.fromtimestamp(now / 1000, UTC)
    return LimitWindow(f"mailer:rate:hour:{owner}:{moment:%Y-%m-%d:%H}", limit, ends, "rate_per_hour", ends)


def _sliding_hour(limit: int, owner: int | str, now: Instant) -> LimitWindow:
    """Mail is counted by the minute, and this minute may use what the sixty before it have left.

    Sixty and not fifty-nine: a mail at the end of the oldest and one at the beginning of this are not an hour apart.
    Minutes that are still to come count too. Who has mail there has a clock that is ahead, or had one.
    """
    minute = now // MINUTE
    lock_name = f"mailer:rate:sliding:{owner}"
    ends = (minute + 1) * MINUTE
    related = _related_minutes(lock_name, minute)
    return LimitWindow(f"{lock_name}:{minute}", limit, ends, "rate_per_hour", ends + HOUR, related, lock_name)


@lru_cache(maxsize=1_024)
def _related_minutes(lock_name: str, minute: int) -> tuple[RelatedCounter, ...]:
    around = range(minute - _MINUTES_OF_AN_HOUR, minute + _MINUTES_OF_AN_HOUR + 1)
    return tuple(
        RelatedCounter(f"{lock_name}:{other}", (other + 1) * MINUTE + HOUR) for other in around if other != minute
    )
