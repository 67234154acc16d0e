"""Data that explains why something is not sent yet. `texts/explanations.py` turns it into English."""

from enum import StrEnum

from mailwright.domain.actions import Action
from mailwright.domain.clock import Instant
from mailwright.domain.guard_rails import GuardState
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sending_readiness import Destination

# Limits that count calendar days.
DAILY_LIMITS = ("daily_limit", "warmup")
# The position of a message in its lane is counted up to this number.
MAX_POSITION = 1_000


class ExplanationState(StrEnum):
    """The states of a message in an explanation. If several apply, the first one in this order is used."""

    SENT = "sent"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CLOSED_UNKNOWN = "closed_unknown"
    IN_DOUBT = "in_doubt"
    SENDING = "sending"
    WORKER_LOST = "worker_lost"
    CLAIMED = "claimed"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_MISSING = "provider_missing"
    THROTTLED = "throttled"
    DOMAIN_LIMIT = "domain_limit"
    TENANT_BUSY = "tenant_busy"
    HELD = "held"
    EXPIRED = "expired"
    NO_WORKER = "no_worker"
    SUSPECT = "suspect"
    IN_LINE = "in_line"


class CampaignState(StrEnum):
    """The states of a campaign in an explanation."""

    DRAFT = "draft"
    SCHEDULED = "scheduled"
    OVERDUE = "overdue"
    PAUSED = "paused"
    HELD = "held"
    NO_WORKER = "no_worker"
    IN_LINE = "in_line"
    SENDING = "sending"
    FAILURES = "failures"
    IN_DOUBT = "in_doubt"
    SENT = "sent"
    CANCELLED = "cancelled"


class Remedy(StrEnum):
    """The step that would change the state of a message or campaign."""

    NOT_NEEDED = "not_needed"  # nothing to do: a running worker continues
    WAIT = "wait"  # nothing to do but wait
    START_WORKER = "start_worker"
    ADD_WORKERS = "add_workers"
    NEW_MESSAGE = "new_message"
    CORRECTED_MESSAGE = "corrected_message"
    ASK_RECIPIENT = "ask_recipient"
    OTHER_ADDRESS = "other_address"
    ACTIVATE_ADDRESS = "activate_address"
    ACTIVATE_AND_RETRY = "activate_and_retry"
    RETRY = "retry"
    RETRY_AFTER_PAUSE = "retry_after_pause"
    RETRY_BELOW_CAP = "retry_below_cap"
    RESOLVE = "resolve"
    CANCEL = "cancel"  # it can only be cancelled, not sent earlier
    PROVIDER_RESPONSE = "provider_response"
    PROVIDER_RECOVERY = "provider_recovery"
    RESTORE_PROVIDER = "restore_provider"
    ROUTE_TO_PROVIDER = "route_to_provider"  # the tenant has another provider now: restore its route
    FORMER_SERVER = "former_server"  # the server that may have it is no longer used: only a cancellation ends the wait
    MORE_QUOTA = "more_quota"
    CHANGE_LIMIT = "change_limit"
    CHANGE_FREQUENCY_CAP = "change_frequency_cap"
    CHANGE_DOMAIN_LIMITS = "change_domain_limits"
    START_CAMPAIGN = "start_campaign"
    RESUME_CAMPAIGN = "resume_campaign"
    RESUME_SEQUENCE = "resume_sequence"
    CANCEL_CAMPAIGN = "cancel_campaign"
    RESCHEDULE_CAMPAIGN = "reschedule_campaign"
    SEND_OR_RESCHEDULE = "send_or_reschedule"
    PAUSE_CAMPAIGN_AHEAD = "pause_campaign_ahead"
    PAUSE_AND_RESUME = "pause_and_resume"
    CHOOSE_WINNER = "choose_winner"
    CHOOSE_VARIANT = "choose_variant"
    RETRY_OR_ACCEPT_FAILURES = "retry_or_accept_failures"
    RESOLVE_MESSAGES = "resolve_messages"
    MEET_SENDER_RULES = "meet_sender_rules"
    CHECK_INCIDENTS = "check_incidents"  # find the cause of the bounces or complaints, then resume or cancel
    ACCEPT_INCIDENTS = "accept_incidents"
    OPEN_WAVE = "open_wave"
    CHECK_AND_OPEN_WAVE = "check_and_open_wave"
    REQUEST_APPROVAL = "request_approval"
    APPROVE_CAMPAIGN = "approve_campaign"  # a second person approves or rejects it
    RELEASE_SENDING = "release_sending"  # an operator decides about the due messages, and sending resumes


class LimitScope(StrEnum):
    INSTALLATION = "installation"  # the default limit for tenants without their own
    TENANT = "tenant"
    CAMPAIGN = "campaign"
    PROVIDER = "provider"
    DOMAIN = "domain"


@dataclass(frozen=True, slots=True)
class ReachedLimit:
    """The limit that defers sending, with its owner and, if known, the used part."""

    name: str
    scope: LimitScope
    owner: str | None = None  # the name of the tenant, campaign, provider or domain
    used: int | None = None
    allowed: int | None = None
    reserved: int = 0  # the part of the limit that only transactional messages may use
    timezone: str | None = None  # of the days that a daily limit counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The common fields of message and campaign explanations."""

    computed_at: Instant
    reason: str | None = None  # the code of the rule or the error
    detail: str | None = None  # the kind of the reason, if the reason has several kinds
    until: Instant | None = None
    held_since: Instant | None = None  # when all sending was put on hold, if that is the reason
    limit: ReachedLimit | None = None
    remedy: Remedy | None = None
    actions: tuple[Action, ...] = ()  # only actions that are possible now


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageExplanation(Explanation):
    outbox_id: str
    state: ExplanationState
    tenant: str
    recipient: str
    contact_name: str | None = None
    contact_status: str | None = None  # None if the address is not a contact
    is_suppressed: bool = False  # the recipient gets no messages at all
    bounce: str | None = None  # the report after the send: hard_bounce, soft_bounce, bounce or complaint
    occurred_at: Instant | None = None  # when it was sent, failed, expired or handed to the provider
    provider: str | None = None  # which has it or sent it, or will send it
    destination: Destination = Destination.RECIPIENTS  # where that provider delivers email to
    route_to: str | None = None  # the provider that the tenant's route must name again
    provider_error: str | None = None
    worker: str | None = None
    error_code: str | None = None
    error_reason: str | None = None
    attempts: int = 0
    max_attempts: int = 0
    claims: int = 0
    deferrals: int = 0  # how often the receiving server or an outage deferred it
    deferred_since: Instant | None = None
    retry_until: Instant | None = None  # when it fails if it is still deferred then
    ahead: int = 0  # messages of the lane that are due earlier, counted up to MAX_POSITION + 1
    will_resend: bool = False  # an unconfirmed message is sent again instead of closed
    campaign: str | None = None
    sequence: str | None = None
    campaign_ahead: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignExplanation(Explanation):
    campaign_id: str
    state: CampaignState
    tenant: str
    recipients: int = 0  # messages created so far
    unsent: int = 0
    sending: int = 0  # unsent messages that a worker has claimed
    failed: int = 0
    in_doubt: int = 0
    is_message_deferral: bool = False  # the campaign may send, but each of its messages is deferred
    finished_at: Instant | None = None
    # Why nobody received a finished campaign: the error codes of its messages and their numbers.
    failure_codes: tuple[tuple[str, int], ...] = ()
    scheduled_at: Instant | None = None
    campaign_ahead: str | None = None
    # The forecast of a queued campaign. A time is None if it is beyond the forecast's horizon.
    forecast_start: Instant | None = None
    forecast_end: Instant | None = None
    forecast_messages: int = 0
    forecast_blocker: str | None = None  # the limit that still defers it at the horizon
    is_rate_unknown: bool = False  # the end depends on a send rate that was not measured yet
    has_worker: bool = True
    guard: GuardState | None = None  # the finding of the guard rails, if there is one
    wave: int | None = None  # the open wave, while later waves follow
    waves: int = 0
    approval: str | None = None  # who must do what until a second person has approved the campaign
    changes: tuple[str, ...] = ()  # what was changed since the approval was requested
    # Messages that a worker claimed before it stopped, and when the last of its leases ends.
    lost_messages: int = 0
    lost_until: Instant | None = None
    # For a recurring draft, or a campaign that it created: the next send time, and why nothing was sent.
    repeats_at: Instant | None = None
    repeat_failure: str | None = None
