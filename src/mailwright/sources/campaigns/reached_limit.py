"""Find the limit that defers a campaign, its owner, and how much of it is used."""

from collections.abc import Sequence
from typing import Any

import orjson

from mailwright.domain.clock import Instant
from mailwright.domain.explanation import LimitScope, ReachedLimit
from mailwright.domain.permits import LimitLevel, LimitWindow, split_defer_reason
from mailwright.domain.working_hours import ALWAYS
from mailwright.outbox.explain import LIMIT_COLUMNS
from mailwright.outbox.ledger import read_counters
from mailwright.outbox.provider_limits import OWNER_PREFIX
from mailwright.policies.hours import is_always_open, outside_hours
from mailwright.policies.pacing import ONE_AT_A_TIME, send_rates
from mailwright.policies.rates import windows
from mailwright.storage.database import Transaction

OUTSIDE_HOURS = "outside_hours"


async def find_reached_limit(
    tx: Transaction, campaign: Any, levels: Sequence[LimitLevel], now: Instant
) -> ReachedLimit | None:
    """Return the limit that defers the campaign, its own before its tenant's; None if that limit no longer exists."""
    reason: str = campaign.defer_reason
    if reason == OUTSIDE_HOURS:
        return find_hours(campaign, levels, now)
    for level in reversed(levels):
        if _is_paced(level, reason):
            return _reached(campaign, level, reason)
        for window in _windows(level, reason, now):
            used = await _used(tx, window)
            if used >= window.limit:
                return _reached(campaign, level, reason, used=used, window=window)
    configured = next((level for level in levels if _windows(level, reason, now)), None)
    return None if configured is None else _reached(campaign, configured, reason)


def find_hours(campaign: Any, levels: Sequence[LimitLevel], now: Instant) -> ReachedLimit | None:
    """Return the working hours that defer the campaign: those that open last, the tenant's before its own."""
    tenant, *own = levels
    # A campaign without its own hours inherits the tenant's, so only the tenant's can be changed.
    candidates = [tenant, *(own if sets_hours(campaign.limits) else ())]
    limited = [level for level in candidates if not is_always_open(level.limits)]
    if not limited:
        return None
    latest = max(limited, key=lambda level: _opens_at(level, now))
    # If hours apply in the recipients' time zones, all may be open in the sender's time zone.
    return _reached(campaign, latest if _opens_at(latest, now) else limited[-1], OUTSIDE_HOURS)


def sets_hours(limits: str) -> bool:
    """Return whether the campaign's own limits, as stored, change its working hours."""
    own = orjson.loads(limits)
    return own.get("working_hours") not in (None, ALWAYS) or own.get("timezone") is not None


def _opens_at(level: LimitLevel, now: Instant) -> Instant:
    deferral = outside_hours(level.limits, is_bulk=True, now=now)
    return 0 if deferral is None else deferral.until


def _is_paced(level: LimitLevel, reason: str) -> bool:
    if reason == ONE_AT_A_TIME and level.limits.one_at_a_time:
        return True
    return any(pace.reason == reason for pace in send_rates(level.limits, level.owner))


def _windows(level: LimitLevel, reason: str, now: Instant) -> list[LimitWindow]:
    return [window for window in windows(level.limits, level.owner, now) if window.reason == reason]


async def _used(tx: Transaction, window: LimitWindow) -> int:
    names = [window.name, *(related.name for related in window.related)]
    return sum((await read_counters(tx, names)).values())


def _reached(
    campaign: Any, level: LimitLevel, reason: str, *, used: int | None = None, window: LimitWindow | None = None
) -> ReachedLimit:
    allowed = None if window is None else window.limit + window.reserved
    reserved = 0 if window is None else window.reserved
    if level.owner.startswith(OWNER_PREFIX):
        name, provider = split_defer_reason(reason)[1] or reason, level.owner.removeprefix(OWNER_PREFIX)
        return ReachedLimit(name, LimitScope.PROVIDER, provider, used, allowed, reserved)
    if level.owner.startswith("campaign-"):
        return ReachedLimit(reason, LimitScope.CAMPAIGN, campaign.name, used, allowed, reserved)
    column = LIMIT_COLUMNS.get(reason)
    is_own = column is not None and getattr(campaign, f"tenant_{column}") is not None
    scope = LimitScope.TENANT if is_own else LimitScope.INSTALLATION
    return ReachedLimit(reason, scope, campaign.tenant, used, allowed, reserved)
