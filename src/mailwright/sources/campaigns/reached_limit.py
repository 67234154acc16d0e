"""Find the limit that defers a lane, its owner, and how much of it is used."""

from collections.abc import Sequence
from typing import Any

import orjson

from mailwright.domain.clock import Instant
from mailwright.domain.explanation import DAILY_LIMITS, LimitScope, ReachedLimit
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import LimitLevel, Limits, LimitWindow, split_defer_reason
from mailwright.domain.working_hours import ALWAYS
from mailwright.outbox.explain import LIMIT_COLUMNS
from mailwright.outbox.ledger import count_unused, read_counters
from mailwright.outbox.provider_limits import OWNER_PREFIX
from mailwright.policies.hours import is_always_open, outside_hours
from mailwright.policies.pacing import ONE_AT_A_TIME, send_rates, slowest_rate
from mailwright.policies.rates import windows
from mailwright.storage.database import Transaction

OUTSIDE_HOURS = "outside_hours"
# The limits of the installation that are a ceiling for those of its tenants.
_CAPPED = ("rate_per_second", "rate_per_hour", "daily_limit", "interval_ms")


@dataclass(frozen=True, slots=True)
class LimitedLane:
    """A lane that a limit defers. A campaign's lane has its name and its own limits as stored."""

    tenant: str
    tenant_columns: frozenset[str]  # of the limits that the tenant sets itself
    campaign: str | None = None
    campaign_limits: str | None = None


def own_columns(row: Any, tenant: Limits, prefix: str = "") -> frozenset[str]:
    """Return the columns of the limits that a tenant sets itself, without those above the installation's limit."""
    values = {column: getattr(row, f"{prefix}{column}") for column in LIMIT_COLUMNS.values()}
    capped = {column for column in _CAPPED if values[column] != getattr(tenant, column)}
    return frozenset(column for column, value in values.items() if value is not None and column not in capped)


async def find_reached_limit(
    tx: Transaction, lane: LimitedLane, reason: str, levels: Sequence[LimitLevel], now: Instant
) -> ReachedLimit | None:
    """Return the limit that defers the lane, a campaign's before its tenant's; None if that limit no longer exists."""
    if reason == OUTSIDE_HOURS:
        return find_hours(lane, levels, now)
    for level in reversed(levels):
        for window in _windows(level, reason, now):
            used = await _used(tx, window)
            if used >= window.limit:
                sent = used - await count_unused(tx, window.name)
                return _reached(lane, level, reason, used=sent, window=window)
    configured = next((level for level in levels if _windows(level, reason, now)), None)
    return None if configured is None else _reached(lane, configured, reason)


def find_hours(lane: LimitedLane, levels: Sequence[LimitLevel], now: Instant) -> ReachedLimit | None:
    """Return the working hours that defer the lane: those that open last, the tenant's before its own."""
    tenant, *own = levels
    # A campaign without its own hours inherits the tenant's, so only the tenant's can be changed.
    candidates = [tenant, *(own if lane.campaign_limits and sets_hours(lane.campaign_limits) else ())]
    limited = [level for level in candidates if not is_always_open(level.limits)]
    if not limited:
        return None
    latest = max(limited, key=lambda level: _opens_at(level, now))
    # If hours apply in the recipients' time zones, all may be open in the sender's time zone.
    return _reached(lane, latest if _opens_at(latest, now) else limited[-1], OUTSIDE_HOURS)


def find_pace(lane: LimitedLane, levels: Sequence[LimitLevel]) -> ReachedLimit | None:
    """Return the limit that decides how fast the lane is sent, or None if no limit does."""
    if (slowest := slowest_rate(levels)) is not None:
        paced = next(level for level in levels if slowest in send_rates(level.limits, level.owner))
        return _reached(lane, paced, slowest.reason)
    alone = next((level for level in reversed(levels) if level.limits.one_at_a_time), None)
    return None if alone is None else _reached(lane, alone, ONE_AT_A_TIME)


def sets_hours(limits: str) -> bool:
    """Return whether the campaign's own limits, as stored, change its working hours."""
    own = orjson.loads(limits)
    return own.get("working_hours") not in (None, ALWAYS) or own.get("timezone") is not None


def _opens_at(level: LimitLevel, now: Instant) -> Instant:
    deferral = outside_hours(level.limits, is_bulk=True, now=now)
    return 0 if deferral is None else deferral.until


def _windows(level: LimitLevel, reason: str, now: Instant) -> list[LimitWindow]:
    return [window for window in windows(level.limits, level.owner, now) if window.reason == reason]


async def _used(tx: Transaction, window: LimitWindow) -> int:
    names = [window.name, *(related.name for related in window.related)]
    return sum((await read_counters(tx, names)).values())


def _reached(
    lane: LimitedLane, level: LimitLevel, reason: str, *, used: int | None = None, window: LimitWindow | None = None
) -> ReachedLimit:
    allowed = None if window is None else window.limit + window.reserved
    reserved = 0 if window is None else window.reserved
    is_daily = (split_defer_reason(reason)[1] or reason) in DAILY_LIMITS
    usage = (used, allowed, reserved, level.limits.timezone if is_daily else None)
    if level.owner.startswith(OWNER_PREFIX):
        name, provider = split_defer_reason(reason)[1] or reason, level.owner.removeprefix(OWNER_PREFIX)
        return ReachedLimit(name, LimitScope.PROVIDER, provider, *usage)
    if level.owner.startswith("campaign-"):
        return ReachedLimit(reason, LimitScope.CAMPAIGN, lane.campaign, *usage)
    is_own = LIMIT_COLUMNS.get(reason) in lane.tenant_columns
    return ReachedLimit(reason, LimitScope.TENANT if is_own else LimitScope.INSTALLATION, lane.tenant, *usage)
