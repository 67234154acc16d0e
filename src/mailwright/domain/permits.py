"""Permits: the right to send so many mails between two moments."""

from dataclasses import dataclass

from mailwright.domain.clock import Instant


@dataclass(frozen=True, slots=True)
class Limits:
    """What a tenant may send, and when. None means that there is no such limit."""

    rate_per_second: int | None = None
    rate_per_hour: int | None = None
    daily_limit: int | None = None
    working_hours: str = "00:00-24:00"
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Window:
    """So many permits until `ends_at`; `name` is the same for every worker that shares them."""

    name: str
    limit: int
    ends_at: Instant
    reason: str
    deferred_until: Instant  # when mail may go again once the window is used up


@dataclass(frozen=True, slots=True)
class Held:
    """Nobody failed, so a hold never counts as an attempt."""

    until: Instant
    reason: str
