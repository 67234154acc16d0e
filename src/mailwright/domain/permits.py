"""Limits on sending, the counters and rates that enforce them, and the deferrals that result."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import date
from enum import StrEnum

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.frequency import FREQUENCY_CAP
from mailwright.domain.lazy_dataclass import dataclass


class DeferReason(StrEnum):
    """Why a single message is deferred. The rules that defer whole lanes have their own reason codes."""

    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_THROTTLED = "provider_throttled"
    PROVIDER_MISSING = "provider_missing"  # The only provider that may send the message is no longer in the route.
    DOMAIN_RATE = "domain_limit:rate"
    DOMAIN_CONCURRENCY = "domain_limit:concurrency"
    TENANT_CONCURRENCY = "max_in_flight"
    ONE_AT_A_TIME = "one_at_a_time"
    RESEND_TURN = "resend_turn"  # Messages that were in doubt are resent one at a time.
    RECIPIENT_HOURS = "outside_hours"  # Outside working hours in the recipient's time zone.
    # The recipient has received as many bulk emails as the tenant allows. The detail is the cap.
    FREQUENCY_CAP = FREQUENCY_CAP
    SNOOZED = "snoozed"  # The recipient has paused bulk email.
    SPREAD = "spread"  # The overdue emails of a sequence are spread over some hours.


def split_defer_reason(stored: str | None) -> tuple[str | None, str | None]:
    """Split a stored reason into its name and detail: `domain_limit:rate` becomes `domain_limit` and `rate`."""
    if stored is None:
        return None, None
    name, _, detail = stored.partition(":")
    return name, detail or None


# A shorter wait is part of the pace: no deferral is recorded, and the campaign keeps its state and its turn.
MIN_DEFERRAL: Instant = 5 * SECOND
QUOTA_EXHAUSTED = "quota_exhausted"
# The names of a provider's quota beside its reserve.
QUOTA_PER_HOUR = "quota_per_hour"
QUOTA_PER_DAY = "quota_per_day"
PROVIDER_RATE = "provider_rate"
THROTTLED_RATE = f"{DeferReason.PROVIDER_THROTTLED}:rate"  # Sent at the rate that a throttling provider accepts.
PROVIDER_LIMIT = "provider_limit"  # A limit that was set for a named provider. The detail is the limit.
# Reasons that concern one provider, so that messages of the same lane may go out through another one.
PROVIDER_REASONS = frozenset(
    {
        QUOTA_EXHAUSTED,
        *(f"{PROVIDER_LIMIT}:{name}" for name in ("rate_per_hour", "daily_limit", "warmup")),
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The sending limits and working hours of a tenant or a campaign. None means no limit."""

    rate_per_second: int | None = None
    rate_per_hour: int | None = None
    daily_limit: int | None = None
    working_hours: str = "00:00-24:00"
    timezone: str = "UTC"
    sliding_hour: bool = False  # Limit any sixty minutes instead of each clock hour.
    # Warm-up: `warmup_start` messages on the first day, multiplied by `warmup_factor` on each following day.
    warmup_since: date | None = None
    warmup_start: int = 50
    warmup_factor: float = 2.0
    in_recipient_zone: bool = False  # Working hours apply in each recipient's time zone.
    interval_ms: int | None = None  # The minimum time between the starts of two sends, across all workers.
    one_at_a_time: bool = False  # The next send starts only after the previous one has ended.
    # The source whose campaigns share the interval and the turn: they apply to all of them together.
    paced_source: str | None = None
    # The part of the hourly and daily limits that bulk messages leave for transactional messages.
    reserve_percent: int = 0
    frequency_cap: str | None = None  # Bulk emails to one contact: `3 per 7 days`.
    is_usual_plan: bool = (
        False  # The hourly limit is that of the provider's usual plan. A tenant can have a larger one.
    )
    is_of_provider: bool = False  # Whether these are the limits of a named provider, for all its tenants together.

    def reason(self, name: str) -> str:
        """Return the reason of a deferral by the limit of this name."""
        return f"{PROVIDER_LIMIT}:{name}" if self.is_of_provider else name


@dataclass(frozen=True, slots=True)
class DomainLimit:
    """The limits of one domain; None means no limit."""

    rate_per_second: int | None = None
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class DomainLimits:
    named: Mapping[str, DomainLimit] = field(default_factory=dict)
    others: DomainLimit | None = None  # The limit of each domain that is not listed.

    def __bool__(self) -> bool:
        return bool(self.named) or self.others is not None

    def of(self, domain: str) -> DomainLimit | None:
        return self.named.get(domain, self.others) if domain else None


@dataclass(frozen=True, slots=True)
class SendRate:
    """A rate at which sends start: `batch_size` messages in each interval. All workers share it by its name."""

    name: str
    interval_us: int
    reason: str
    batch_size: int = 1
    # Only one worker at a time uses an exact rate, because no other worker knows when its last send really started.
    is_exact: bool = False

    @property
    def per_second(self) -> float:
        return self.batch_size * 1_000_000 / self.interval_us


@dataclass(frozen=True, slots=True)
class PacingRules:
    """The rules that decide when a send may start."""

    rates: tuple[SendRate, ...] = ()
    alone: tuple[
        str, ...
    ] = ()  # Owners that send one message at a time. A send may start only if none of their messages is in flight.


@dataclass(frozen=True, slots=True)
class LimitLevel:
    """The limits of one owner, a tenant or a campaign; each owner has its own counters."""

    owner: str
    limits: Limits
    place: int | None = None  # Set for a campaign that was moved in the queue.


@dataclass(frozen=True, slots=True)
class RelatedCounter:
    """Another counter that is added to a window until a given time."""

    name: str
    until: Instant


@dataclass(frozen=True, slots=True)
class LimitWindow:
    """A counter of at most `limit` permits until `ends_at`. All workers share it by its name."""

    name: str
    limit: int
    ends_at: Instant
    reason: str
    deferred_until: Instant  # When sending resumes once the window is used up.
    related: tuple[RelatedCounter, ...] = ()
    # A transaction that sums several counters locks this name first, so that no counter changes until it ends.
    lock_name: str | None = None
    # Reserve each permit only when its message is sent, because other workers could not use a permit reserved early.
    is_exact: bool = False
    reserved: int = 0  # Permits beyond `limit` that only transactional messages may use.


@dataclass(frozen=True, slots=True)
class BulkLimit:
    """A limit of a tenant, and the part of it that only transactional messages may use."""

    name: str
    limit: int
    reserved: int
    domain: str | None = None  # the recipients' domain that it limits; `*` for each domain without its own limit

    @property
    def for_bulk(self) -> int:
        return self.limit - self.reserved


@dataclass(frozen=True, slots=True)
class QuotaPeriod:
    """The remaining quota of a route for an hour or a day, and its size after renewal. A plan (None) is not renewed."""

    length: Instant | None
    left: int
    limit: int = 0


@dataclass(frozen=True, slots=True)
class QuotaSnapshot:
    """The total remaining quota that the providers of a route reported, and the time of the report."""

    providers: tuple[str, ...]
    remaining: int  # The reported remainder minus the messages that were in flight at that time.
    synced_at: Instant
    sync_every: Instant
    per_day: int | None = None  # The daily quota, if the providers report one.
    previous_sync: Instant | None = None
    counted_before: int = 0  # The value of the previous sync's counter at the time of this sync.
    periods: tuple[QuotaPeriod, ...] = ()  # The parts of `remaining`, for forecasts.

    @property
    def lock_name(self) -> str:
        return quota_lock_name(self.providers)


def quota_lock_name(providers: Iterable[str]) -> str:
    """Return the prefix of these providers' quota counters; the time of the sync follows it."""
    return "mailwright:quota:" + "+".join(sorted(providers))


def quota_counter(lock_name: str, synced_at: Instant) -> str:
    return f"{lock_name}:{synced_at}"


@dataclass(frozen=True, slots=True)
class Deferral:
    """A message or lane may not be sent before a given time. A deferral never counts as an attempt."""

    until: Instant
    reason: str
    give_up_at: Instant | None = None  # When the message fails if it is still deferred then; None: not decided here.
