"""Cache whether the working hours of claimed messages are over, computed once per minute."""

from mailwright.domain.clock import MINUTE, Instant
from mailwright.domain.message import Claimed
from mailwright.outbox.limits import LimitRules
from mailwright.policies.hours import lane_outside_hours, recipient_outside_hours


class WorkingHoursCache:
    """Caches results for a minute, because working hours end at whole minutes. `clear` empties the cache."""

    def __init__(self) -> None:
        self._minute: Instant = 0
        self._is_over: dict[tuple[int, str | None], bool] = {}  # by lane and recipient's zone

    def is_over(self, claimed: Claimed, rules: LimitRules, now: Instant) -> bool:
        if now // MINUTE != self._minute:
            self._minute, self._is_over = now // MINUTE, {}
        group = (claimed.lane, claimed.recipient_zone)
        if group not in self._is_over:
            levels = rules.levels(claimed.tenant_id, claimed.lane)
            is_lane_closed = lane_outside_hours(levels, is_bulk=True, now=now) is not None
            is_night = recipient_outside_hours(levels, claimed.recipient_zone, now) is not None
            self._is_over[group] = is_lane_closed or is_night
        return self._is_over[group]

    def clear(self) -> None:
        self._is_over.clear()
