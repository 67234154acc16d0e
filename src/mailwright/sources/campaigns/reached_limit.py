"""Find whose limit defers a campaign, and how much of it is used."""

from collections.abc import Sequence
from typing import Any

from mailwright.domain.clock import Instant
from mailwright.domain.explanation import LimitScope, ReachedLimit
from mailwright.domain.permits import LimitLevel, LimitWindow
from mailwright.outbox.explain import LIMIT_COLUMNS
from mailwright.outbox.ledger import read_counters
from mailwright.policies.hours import ALWAYS, outside_hours
from mailwright.policies.pacing import ONE_AT_A_TIME, send_rates
from mailwright.policies.rates import windows
from mailwright.storage.database import Transaction

OUTSIDE_HOURS = "outside_hours"


async def find_reached_limit(
    tx: Transaction, campaign: Any, levels: Sequence[LimitLevel], now: Instant
) -> ReachedLimit | None:
    """Return the limit that defers the campaign, its own before its tenant's. None: the limit no longer exists."""
    reason: str = campaign.defer_reason
    for level in reversed(levels):
        if _is_closed_or_paced(level, reason, now):
            return _reached(campaign, level, reason)
        for window in _windows(level, reason, now):
            used = await _used(tx, window)
            if used >= window.limit:
                return _reached(campaign, level, reason, used=used, window=window)
    configured = next((level for level in levels if _has_limit(level, reason, now)), None)
    return None if configured is None else _reached(campaign, configured, reason)


def _is_closed_or_paced(level: LimitLevel, reason: str, now: Instant) -> bool:
    if reason == OUTSIDE_HOURS and outside_hours(level.limits, is_bulk=True, now=now) is not None:
        return True
    if reason == ONE_AT_A_TIME and level.limits.one_at_a_time:
        return True
    return any(pace.reason == reason for pace in send_rates(level.limits, level.owner))


def _has_limit(level: LimitLevel, reason: str, now: Instant) -> bool:
    if reason == OUTSIDE_HOURS:
        return level.limits.working_hours != ALWAYS
    return bool(_windows(level, reason, now))


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
    if level.owner.startswith("campaign-"):
        return ReachedLimit(reason, LimitScope.CAMPAIGN, campaign.name, used, allowed, reserved)
    column = LIMIT_COLUMNS.get(reason)
    is_own = column is not None and getattr(campaign, f"tenant_{column}") is not None
    scope = LimitScope.TENANT if is_own else LimitScope.INSTALLATION
    return ReachedLimit(reason, scope, campaign.tenant, used, allowed, reserved)
