"""Permits: the right to send so many mails between two moments."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from mailwright.domain.clock import Instant


class DeferReason(StrEnum):
    """Why a single message waits although it was due. The rules that hold whole lanes have names of their own."""

    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_THROTTLED = "provider_throttled"
    PROVIDER_MISSING = "provider_missing"  # only one provider may send it, and the route no longer has that one
    DOMAIN_RATE = "domain_limit:rate"
    DOMAIN_CONCURRENCY = "domain_limit:concurrency"
    TENANT_CONCURRENCY = "max_in_flight"
    ONE_AT_A_TIME = "one_at_a_time"
    RESEND_TURN = "resend_turn"  # mails that were in doubt go one at a time
    RECIPIENT_HOURS = "outside_hours"  # it is night where this reader lives; others of the campaign may go


def split_defer_reason(stored: str | None) -> tuple[str | None, str | None]:
    """The reason's own name, and what it is more exactly: `domain_limit:rate` is a domain's limit, that of its rate."""
    if stored is None:
        return None, None
    name, _, detail = stored.partition(":")
    return name, detail or None


QUOTA_EXHAUSTED = "quota_exhausted"
PROVIDER_RATE = "provider_rate"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a tenant or a campaign may send, and when. None means that there is no such limit."""

    rate_per_second: int | None = None
    rate_per_hour: int | None = None
    daily_limit: int | None = None
    working_hours: str = "00:00-24:00"
    timezone: str = "UTC"
    sliding_hour: bool = False  # any sixty minutes, instead of each hour of the clock
    # A new sender begins small: so many on its first day, so many times more on each next one.
    warmup_since: date | None = None
    warmup_start: int = 50
    warmup_factor: float = 2.0
    in_recipient_zone: bool = False  # the hours are those of each reader's own clock
    interval_ms: int | None = None  # at least so long between the beginnings of two sends, whoever sends them
    one_at_a_time: bool = False  # the next begins when the one before has ended


@dataclass(frozen=True, slots=True)
class SendRate:
    """So many mails begin together, and the next not before the interval is over; `name` is every worker's."""

    name: str
    interval_us: int
    reason: str
    batch_size: int = 1
    # One worker at a time keeps this pace: it alone knows when its last mail really began.
    is_exact: bool = False

    @property
    def per_second(self) -> float:
        return self.batch_size * 1_000_000 / self.interval_us


@dataclass(frozen=True, slots=True)
class PacingRules:
    """What the moment at which a mail begins depends on."""

    rates: tuple[SendRate, ...] = ()
    alone: tuple[str, ...] = ()  # whose mails go one at a time: of each of these, none is under way when it begins


@dataclass(frozen=True, slots=True)
class LimitLevel:
    """Limits, and whose: a tenant and a campaign of it have counters of their own."""

    owner: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class RelatedCounter:
    """Another counter whose permits count in a window as well."""

    name: str
    until: Instant  # when it counts no more


@dataclass(frozen=True, slots=True)
class LimitWindow:
    """So many permits until `ends_at`; `name` is the same for every worker that shares them."""

    name: str
    limit: int
    ends_at: Instant
    reason: str
    deferred_until: Instant  # when mail may go again once the window is used up
    related: tuple[RelatedCounter, ...] = ()
    # Whoever counts several counters together takes this one first, so that nobody counts while another adds.
    lock_name: str | None = None
    # Counted for each mail and never bought ahead: what is bought and not used would be missing elsewhere.
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class QuotaSnapshot:
    """What the providers of a route said they still take, together, and when they said so."""

    providers: tuple[str, ...]
    remaining: int  # as told, without what was already on its way to them
    synced_at: Instant
    sync_every: Instant
    per_day: int | None = None  # what they take in a whole day, where they tell
    previous_sync: Instant | None = None
    counted_before: int = 0  # what the counter of the previous sync stood at when they were asked

    @property
    def lock_name(self) -> str:
        return quota_lock_name(self.providers)


def quota_lock_name(providers: Iterable[str]) -> str:
    """Begins the name of every counter of these providers' quota; the moment of the sync follows."""
    return "mailer:quota:" + "+".join(sorted(providers))


def quota_counter(lock_name: str, synced_at: Instant) -> str:
    return f"{lock_name}:{synced_at}"


@dataclass(frozen=True, slots=True)
class Deferral:
    """Nobody failed, so a hold never counts as an attempt."""

    until: Instant
    reason: str
