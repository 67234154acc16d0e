"""The input and the result of a forecast."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from mailwright.domain.clock import DAY, MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import PROVIDER_RATE, Deferral, DeferReason, LimitLevel
from mailwright.policies.pacing import INTERVAL, ONE_AT_A_TIME, PER_SECOND

MAX_IN_FLIGHT = DeferReason.TENANT_CONCURRENCY.value
DOMAIN_LIMIT = "domain_limit"
IN_LINE = "in_line"  # another campaign or a sequence of the tenant is sent first
YEAR: Instant = 365 * DAY
# The send rate of a forecast if nothing was ever sent: ten connections, at a tenth of a second per message.
ASSUMED_RATE = 100.0
# As long as no rate is known, an end is shown only if it would be nearly the same at this low rate.
LOW_RATE = 5.0
MAX_UNCERTAINTY: Instant = 5 * MINUTE
# Messages that are sent one at a time wait for each response of the provider, which takes an unknown time.
ONE_AT_A_TIME_RATE = 10.0
# A shorter turn of another campaign does not count as waiting for it.
_MIN_TURN: Instant = MINUTE
# More segments than this with the same limit are joined.
_MAX_DETAILED = 6
# The reasons of segments in which messages are sent.
_SENDING_REASONS = (
    None,
    INTERVAL,
    PER_SECOND,
    ONE_AT_A_TIME,
    PROVIDER_RATE,
    DeferReason.PROVIDER_THROTTLED,
    MAX_IN_FLIGHT,
    DOMAIN_LIMIT,
)


class ForecastAssumption(StrEnum):
    NO_OTHER_MESSAGES = "no_other_messages"
    PROVIDER_RECOVERS = "provider_recovers"
    SENDING_HELD = "sending_held"
    NO_WORKER = "no_worker"
    WORKER_LOST = "worker_lost"
    LAST_RATE = "last_rate"
    ASSUMED_RATE = "assumed_rate"
    ONE_AT_A_TIME_RATE = "one_at_a_time_rate"
    LEARNED_RATE = "learned_rate"
    HOURLY_QUOTA = "hourly_quota"
    DAILY_QUOTA = "daily_quota"
    NO_MORE_QUOTA = "no_more_quota"


class ForecastKind(StrEnum):
    """The kinds of simulated emails. Only campaigns are shown; the others use the same limits."""

    CAMPAIGN = "campaign"
    SEQUENCES = "sequences"  # emails of a tenant's sequences that are due at about the same time
    OCCURRENCE = "occurrence"  # a time of a recurring campaign that is yet to come


@dataclass(frozen=True, slots=True)
class QueuedCampaign:
    """A queued campaign, with the limits of its tenant and its own."""

    campaign_id: str
    name: str
    tenant_id: int
    remaining: int
    tenant: LimitLevel
    own: LimitLevel | None = None
    weight: int = 1
    deferral: Deferral | None = None
    pauses: "tuple[ForecastPause, ...]" = ()  # waits for the winner of an A/B test, or for the next wave
    max_in_flight: int | None = None
    follows_zones: bool = False  # working hours apply in each recipient's time zone
    has_begun: bool = False  # some messages are no longer waiting
    in_flight: int = 0  # remaining messages that a worker is sending
    provider: str | None = None  # the tenant's own provider; None: the provider of the installation
    groups: "tuple[ForecastGroup, ...]" = ()  # only if some recipients have their own hours or limits
    shared: LimitLevel | None = None  # the limits of the tenant's own provider
    kind: ForecastKind = ForecastKind.CAMPAIGN

    @property
    def to_send(self) -> int:
        """The messages that still need permits. A message in flight has its permits already."""
        return self.remaining - self.in_flight

    @property
    def levels(self) -> tuple[LimitLevel, ...]:
        return tuple(level for level in (self.tenant, self.shared, self.own) if level is not None)


@dataclass(frozen=True, slots=True)
class ForecastPause:
    """A pause after a test group or a wave. It begins after this number of messages since the previous pause."""

    messages: int
    wait: Instant
    reason: str


@dataclass(frozen=True, slots=True)
class ForecastGroup:
    """Recipients who share a time zone for working hours and a domain with a limit."""

    recipients: int
    levels: tuple[LimitLevel, ...] = ()  # with the group's time zone; empty if the sender's hours apply
    per_second: float | None = None  # the limit of their domain
    deferral: Deferral | None = None  # of their messages, by a frequency cap or a snooze


@dataclass(frozen=True, slots=True)
class ForecastSegment:
    """A period in which a campaign sends freely (no `reason`), waits (`sent` is 0), or is slowed by the reason."""

    begins_at: Instant
    ends_at: Instant
    sent: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class CampaignForecast:
    """The forecast of one campaign. A time of None is outside the horizon."""

    campaign_id: str
    name: str
    tenant_id: int
    remaining: int
    starts_at: Instant | None
    finishes_at: Instant | None
    segments: tuple[ForecastSegment, ...]
    has_begun: bool = False  # if true, `starts_at` is when it resumes
    is_rate_unknown: bool = False  # if true, the end depends on a send rate that nobody has measured yet
    kind: ForecastKind = ForecastKind.CAMPAIGN

    @property
    def sent(self) -> int:
        """How many of its messages are sent until the forecast ends."""
        return sum(segment.sent for segment in self.segments)

    @property
    def blocker(self) -> str | None:
        """The limit that still defers the campaign at the end of the forecast."""
        is_blocked = self.finishes_at is None and not self.is_rate_unknown
        return self.segments[-1].reason if is_blocked and self.segments else None


def in_sender_zone(level: LimitLevel) -> LimitLevel:
    """Return the level without recipients' time zones, which the groups of recipients simulate."""
    return LimitLevel(level.owner, replace(level.limits, in_recipient_zone=False))


def summarize_segments(segments: Sequence[ForecastSegment]) -> list[ForecastSegment]:
    """Join more than three pairs of a batch and a wait for the same limit into one segment."""
    found: list[ForecastSegment] = []
    index = 0
    while index < len(segments):
        end = _end_of_pairs(segments, index)
        if end - index > _MAX_DETAILED:
            reason = next(
                segment.reason for segment in segments[index:end] if segment.reason not in (*_SENDING_REASONS, IN_LINE)
            )
            sent = sum(segment.sent for segment in segments[index:end])
            found.append(ForecastSegment(segments[index].begins_at, segments[end - 1].ends_at, sent, reason))
            index = end
        else:
            found.append(segments[index])
            index += 1
    return found


def _end_of_pairs(segments: Sequence[ForecastSegment], start: int) -> int:
    """Return the end of the batches and waits for one limit that begin at `start`."""
    reason: str | None = None
    for index in range(start, len(segments)):
        its, length = segments[index].reason, segments[index].ends_at - segments[index].begins_at
        if its == IN_LINE and index > start and length < _MIN_TURN:
            continue
        if its == IN_LINE or (its not in _SENDING_REASONS and reason is not None and its != reason):
            return index
        reason = its if its not in _SENDING_REASONS else reason
    return len(segments) if reason is not None else start
