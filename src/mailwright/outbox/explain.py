"""Explain why a message has not been sent yet: its state, the reason, the end of the wait, and the possible actions.

The result is data without any English text. It contains only actions that would be accepted now.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, Final

from mailwright.domain.actions import Action, ActionKind, campaign_actions
from mailwright.domain.address import domain_of
from mailwright.domain.campaign import (
    AWAITING_WINNER,
    AWAITS_APPROVAL,
    CANCELLED,
    GUARD_RAILS,
    NEXT_WAVE,
    PAUSED,
    SCHEDULED,
    SENDER_RULES,
    UNDECIDED,
    CampaignStatus,
)
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound
from mailwright.domain.explanation import (
    MAX_POSITION,
    ExplanationState,
    LimitScope,
    MessageExplanation,
    ReachedLimit,
    Remedy,
)
from mailwright.domain.frequency import cap_of_detail
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import (
    PROVIDER_LIMIT,
    QUOTA_EXHAUSTED,
    Deferral,
    DeferReason,
    split_defer_reason,
)
from mailwright.domain.provider_routes import INSTALLATION, NO_ROUTES, ProviderRoutes
from mailwright.domain.retry import POLICIES, STANDARD
from mailwright.domain.sending_readiness import Destination
from mailwright.domain.states import CLAIMABLE, REPORTED_UNSENT, OnDoubt, Resolution, Status
from mailwright.ops.provider_kinds import KINDS
from mailwright.outbox.frequency import RECENT_BULK_SENDS
from mailwright.outbox.in_doubt import RESOLUTION_PERIOD
from mailwright.outbox.provider_configurations import FORMER_SUFFIX, load_names, load_routes
from mailwright.outbox.sending_hold import ERROR_CODE as DATABASE_RESTORED
from mailwright.outbox.sending_hold import SendingHold, load_hold
from mailwright.outbox.workers import WorkerPresence, list_present, outage_of, present_for
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement

EXPLAIN_MESSAGE = statement(__package__, "explain_message")
EXPLAIN_POSITION = statement(__package__, "explain_position")

# The scope of a suppression that blocks every message to its address.
ALL_MESSAGES = "*"
CONTACT_BOUNCED = "bounced"
# The column of a tenant or campaign that sets each limit.
LIMIT_COLUMNS: Mapping[str, str] = {
    "rate_per_second": "rate_per_second",
    "rate_per_hour": "rate_per_hour",
    "daily_limit": "daily_limit",
    "outside_hours": "working_hours",
    "warmup": "warmup_since",
    "interval": "interval_ms",
    "one_at_a_time": "one_at_a_time",
}
# Errors that the message itself causes, so that a retry would fail in the same way.
PERMANENT_ERRORS = frozenset(
    {"INVALID_PAYLOAD", "INVALID_EMAIL", "INVALID_TEMPLATE", "OUTBOX_NOT_FOUND", "RECIPIENT_NOT_FOUND", "EXPIRED"}
)

# Errors whose cause ends after some time.
_LATER: Mapping[str, Remedy] = {
    "RECIPIENT_SNOOZED": Remedy.RETRY_AFTER_PAUSE,
    "FREQUENCY_CAP": Remedy.RETRY_BELOW_CAP,
}

# The providers that never send email to recipients, by the name that is stored with a message.
LOCAL_PROVIDERS: Final[dict[str, Destination]] = {
    kind.name: Destination.LOCAL_MAILBOX for kind in KINDS.values() if kind.is_local
}


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """Everything that an explanation is derived from."""

    message: Any
    now: Instant
    workers: list[WorkerPresence]
    ahead: int
    hold: SendingHold | None = None
    routes: ProviderRoutes = NO_ROUTES
    recent_sends: tuple[Instant, ...] = ()  # the bulk messages that a frequency cap counts
    named: frozenset[str] = frozenset()  # the names of all named providers
    limit: ReachedLimit | None = None  # the limit that defers its lane, if it still exists
    attempt_limit: int | None = None  # the maximum that every attempt counts towards, if there is one
    # Where providers deliver to, if not to recipients.
    destinations: Mapping[str, Destination] = field(default_factory=lambda: LOCAL_PROVIDERS)

    @property
    def is_expired(self) -> bool:
        return self.message.expires_at is not None and self.message.expires_at <= self.now

    @property
    def routed_to(self) -> str | None:
        """The named provider that the tenant's route chooses; None for the provider of the installation."""
        return self.routes.provider_of(self.message.tenant_id, self.message.source)

    @property
    def only_provider(self) -> str | None:
        """The only provider that may send the message, because it may already have it."""
        is_bound = self.message.resends > 0 or self.message.in_doubt_since is not None
        return self.message.provider if is_bound else None

    @property
    def is_still_wanted(self) -> bool:
        return not self.is_expired and self.message.campaign_status != CampaignStatus.CANCELLED


# Finds the limit that defers the lane of a message, from the message's row.
FindLimit = Callable[[Any, Instant], Awaitable[ReachedLimit | None]]


async def explain(
    database: Database,
    clock: Clock,
    outbox_id: str,
    *,
    tenant_id: int | None,
    find_limit: FindLimit | None = None,
    max_attempts: int | None = None,
    destinations: Mapping[str, Destination] = LOCAL_PROVIDERS,
) -> MessageExplanation:
    """Explain a message of the tenant. A `tenant_id` of None, for operators, includes all tenants.

    Limits belong to a higher layer: without `find_limit`, the explanation does not state how much of a limit is used,
    or whether it is the campaign's. `sources/message_limits.py` adds it. `max_attempts` is the setting of that name.
    `destinations` names where providers deliver to, for example those that only collect test email.
    """
    if not is_uuid(outbox_id):
        raise NotFound
    now = clock.now()
    async with database.read() as tx:
        rows = await tx.run(EXPLAIN_MESSAGE, outbox_id=outbox_id, tenant_id=tenant_id, now=now)
        if not rows:
            raise NotFound
        ahead, hold = await _ahead(tx, rows[0], now), await load_hold(tx)
        sends, routes = await _recent_sends(tx, rows[0], now), await load_routes(tx)
        named = await load_names(tx)
    limit = await find_limit(rows[0], now) if find_limit is not None and rows[0].held_until is not None else None
    present = await list_present(database, now)
    return explanation(
        MessageFacts(rows[0], now, present, ahead, hold, routes, sends, named, limit, max_attempts, destinations)
    )


async def _recent_sends(tx: Transaction, message: Any, now: Instant) -> tuple[Instant, ...]:
    cap = cap_of_detail(split_defer_reason(message.defer_reason)[1])
    if cap is None:
        return ()
    recipients = [(message.tenant_id, message.to_email)]
    rows = await tx.run(RECENT_BULK_SENDS, recipients=recipients, since=now - cap.window)
    return tuple(row.sent_at for row in rows if row.message_key != message.id)


async def _ahead(tx: Transaction, message: Any, now: Instant) -> int:
    if message.claimable_at > now or Status(message.status) not in (Status.PENDING, Status.RETRY_SCHEDULED):
        return 0
    rows = await tx.run(
        EXPLAIN_POSITION,
        lane=message.lane,
        claimable_at=message.claimable_at,
        message_key=message.id,
        limit=MAX_POSITION + 1,
    )
    return int(rows[0].ahead)


def explanation(facts: MessageFacts) -> MessageExplanation:
    """Return the explanation that the first applicable rule gives."""
    match Status(facts.message.status):
        case Status.PENDING | Status.RETRY_SCHEDULED:
            return _waiting(facts)
        case Status.SENT_ATTEMPT:
            return _sending(facts)
        case Status.IN_DOUBT:
            return _in_doubt(facts)
        case Status.SENT:
            return _sent(facts)
        case Status.FAILED:
            return _failed(facts)
        case Status.CANCELLED | Status.CLOSED_UNKNOWN as closed:
            return _closed(facts, closed)


def _waiting(facts: MessageFacts) -> MessageExplanation:
    if facts.message.claimable_at > facts.now:
        return _not_due(facts)
    if facts.hold is None:
        return _due(facts)
    reason, since = facts.hold.reason, facts.hold.since
    return _explain(facts, ExplanationState.HELD, reason=reason, held_since=since, remedy=Remedy.RELEASE_SENDING)


# Final states.


def _sent(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    is_blocked = message.reported_as is not None and _is_suppressed(message)
    return _explain(
        facts,
        ExplanationState.SENT,
        reason=message.reported_as,
        remedy=Remedy.ACTIVATE_ADDRESS if is_blocked else None,
        actions=_lift_suppression(message) if is_blocked else (),
        occurred_at=message.sent_at,
    )


def _failed(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    return _explain(
        facts,
        ExplanationState.FAILED,
        reason=message.error_code,
        remedy=_remedy_of_failure(message),
        actions=_actions_of_failure(facts),
        occurred_at=message.failed_at,
    )


def _closed(facts: MessageFacts, status: Status) -> MessageExplanation:
    if status is Status.CANCELLED:
        return _explain(facts, ExplanationState.CANCELLED, remedy=Remedy.NEW_MESSAGE)
    reason = facts.message.error_code
    return _explain(facts, ExplanationState.CLOSED_UNKNOWN, reason=reason, remedy=Remedy.ASK_RECIPIENT)


def _remedy_of_failure(message: Any) -> Remedy:
    if message.error_code in PERMANENT_ERRORS:
        return Remedy.CORRECTED_MESSAGE
    if (later := _LATER.get(message.error_code)) is not None:
        return later
    if not _is_suppressed(message) and message.error_code != "RECIPIENT_SUPPRESSED":
        return Remedy.RETRY
    return Remedy.OTHER_ADDRESS if message.reported_as == "hard_bounce" else Remedy.ACTIVATE_AND_RETRY


def _actions_of_failure(facts: MessageFacts) -> tuple[Action, ...]:
    """Return the actions.

    Lifting a suppression comes before a retry, because the retry would otherwise fail in the same way.
    """
    message = facts.message
    if message.error_code in PERMANENT_ERRORS or not facts.is_still_wanted:
        return ()
    return _lift_suppression(message) if message.stopped_by is not None else (_retry(message),)


def _retry(message: Any) -> Action:
    return Action(ActionKind.RETRY, message.outbox_id)


def _lift_suppression(message: Any) -> tuple[Action, ...]:
    """Return the action that lifts the suppression, but not for an unsubscribe, which only the recipient may undo."""
    if not _is_suppressed(message):
        return ()
    is_bounced = message.contact_status == CONTACT_BOUNCED
    return (Action(ActionKind.ACTIVATE if is_bounced else ActionKind.LIFT_SUPPRESSION, message.to_email),)


def _is_suppressed(message: Any) -> bool:
    return bool(message.stopped_by == ALL_MESSAGES)


# States in which a provider has, or may have, the message.


def _sending(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    if message.claimable_at <= facts.now:
        remedy = _remedy(facts, Remedy.NOT_NEEDED)
        return _explain(facts, ExplanationState.WORKER_LOST, reason="WORKER_LOST", remedy=remedy)
    return _explain(
        facts,
        ExplanationState.SENDING,
        until=message.claimable_at,
        remedy=Remedy.PROVIDER_RESPONSE,
        occurred_at=message.attempted_at,
    )


def _in_doubt(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    is_held = message.error_code in (DATABASE_RESTORED, REPORTED_UNSENT)
    will_resend = message.on_doubt == OnDoubt.RESEND and message.resends == 0 and not (is_held or facts.is_expired)
    resolutions = [each for each in Resolution if facts.is_still_wanted or each is not Resolution.RESEND]
    return _explain(
        facts,
        ExplanationState.IN_DOUBT,
        reason=message.error_code,
        until=message.claimable_at if will_resend else message.in_doubt_since + RESOLUTION_PERIOD,
        remedy=Remedy.RESOLVE,
        actions=tuple(Action(ActionKind.RESOLVE, message.outbox_id, {"as": each}) for each in resolutions),
        will_resend=will_resend,
    )


# Messages that are not due yet.


def _not_due(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    if message.locked_by is not None:
        until, reason = message.claimable_at, message.locked_by
        return _explain(facts, ExplanationState.CLAIMED, reason=reason, until=until, remedy=Remedy.CANCEL)
    if message.defer_reason in _DEFERRED:
        return _DEFERRED[message.defer_reason](facts)
    if split_defer_reason(message.defer_reason)[0] == DeferReason.FREQUENCY_CAP:
        return _frequency_cap(facts)
    if message.scheduled_at is not None and message.scheduled_at > facts.now:
        until = message.scheduled_at
        return _explain(facts, ExplanationState.SCHEDULED, reason="scheduled_at", until=until, remedy=Remedy.CANCEL)
    if message.next_attempt_at is not None and message.next_attempt_at > facts.now:
        return _retrying(facts)
    return _deferred(
        facts,
        ExplanationState.TENANT_BUSY,
        reason="max_in_flight",
        remedy=Remedy.CHANGE_LIMIT,
        limit=ReachedLimit("max_in_flight", LimitScope.TENANT, message.tenant, allowed=message.max_in_flight),
    )


def _deferred(
    facts: MessageFacts, state: ExplanationState, *, reason: str | None = None, **details: Any
) -> MessageExplanation:
    """Explain a message that is deferred itself, not through its lane."""
    reason = facts.message.defer_reason if reason is None else reason
    return _explain(facts, state, reason=reason, until=facts.message.claimable_at, **details)


def _provider_deferred(state: ExplanationState) -> Callable[[MessageFacts], MessageExplanation]:
    return lambda facts: _explain(
        facts,
        state,
        reason=facts.message.error_code,
        until=facts.message.claimable_at,
        remedy=Remedy.PROVIDER_RECOVERY,
        provider=facts.message.provider,
    )


def _provider_missing(facts: MessageFacts) -> MessageExplanation:
    """Explain a message that only one provider may send, which is no longer in the tenant's route."""
    provider = facts.only_provider or ""
    details: dict[str, Any] = {"remedy": Remedy.RESTORE_PROVIDER}
    if provider.endswith(FORMER_SUFFIX):
        details = {"remedy": Remedy.FORMER_SERVER, "provider": provider.removesuffix(FORMER_SUFFIX)}
    elif provider in facts.named:
        details = {"remedy": Remedy.ROUTE_TO_PROVIDER, "route_to": provider}
    elif facts.routed_to is not None:
        details = {"remedy": Remedy.ROUTE_TO_PROVIDER, "route_to": INSTALLATION}
    return _deferred(facts, ExplanationState.PROVIDER_MISSING, **details)


def _domain_limit(facts: MessageFacts) -> MessageExplanation:
    reason = facts.message.defer_reason
    limit = ReachedLimit(reason, LimitScope.DOMAIN, domain_of(facts.message.to_email))
    remedy = _remedy(facts, Remedy.CHANGE_DOMAIN_LIMITS)
    return _deferred(facts, ExplanationState.DOMAIN_LIMIT, remedy=remedy, limit=limit)


def _frequency_cap(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    cap = cap_of_detail(split_defer_reason(message.defer_reason)[1])
    used = len(facts.recent_sends)
    limit = ReachedLimit(
        DeferReason.FREQUENCY_CAP, LimitScope.TENANT, message.tenant, used, cap.limit if cap is not None else used
    )
    return _deferred(
        facts,
        ExplanationState.HELD,
        remedy=_remedy(facts, Remedy.CHANGE_FREQUENCY_CAP),
        limit=limit,
        contact_name=message.contact_name,
        occurred_at=min(facts.recent_sends, default=None),
    )


def _retrying(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    return _explain(
        facts,
        ExplanationState.RETRYING,
        reason=message.error_code,
        until=message.next_attempt_at,
        remedy=Remedy.CANCEL,
        max_attempts=_max_attempts(facts),
    )


def _max_attempts(facts: MessageFacts) -> int:
    """Return after how many attempts the message fails if the provider keeps failing."""
    policy = POLICIES.get(facts.message.retry_policy, STANDARD)
    if facts.attempt_limit is not None and policy is STANDARD:
        return facts.attempt_limit
    excused: int = facts.message.excused_attempts
    return policy.max_attempts + excused


_DEFERRED: Mapping[str, Callable[[MessageFacts], MessageExplanation]] = {
    DeferReason.PROVIDER_UNAVAILABLE: _provider_deferred(ExplanationState.PROVIDER_UNAVAILABLE),
    DeferReason.PROVIDER_THROTTLED: _provider_deferred(ExplanationState.THROTTLED),
    DeferReason.PROVIDER_MISSING: _provider_missing,
    DeferReason.DOMAIN_RATE: _domain_limit,
    DeferReason.DOMAIN_CONCURRENCY: _domain_limit,
    DeferReason.ONE_AT_A_TIME: lambda facts: _deferred(facts, ExplanationState.IN_LINE, remedy=Remedy.WAIT),
    DeferReason.RESEND_TURN: lambda facts: _deferred(facts, ExplanationState.IN_LINE, remedy=Remedy.CANCEL),
    DeferReason.SNOOZED: lambda facts: _deferred(
        facts,
        ExplanationState.HELD,
        remedy=_remedy(facts, Remedy.CANCEL),
        contact_name=facts.message.contact_name,
    ),
    DeferReason.SPREAD: lambda facts: _deferred(facts, ExplanationState.HELD, remedy=_remedy(facts, Remedy.CANCEL)),
    DeferReason.RECIPIENT_HOURS: lambda facts: _deferred(
        facts, ExplanationState.HELD, remedy=_remedy(facts, Remedy.CANCEL)
    ),
}


# Messages that are due.


def _due(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    if facts.is_expired:
        return _explain(
            facts,
            ExplanationState.EXPIRED,
            reason="EXPIRED",
            remedy=_remedy(facts, Remedy.NEW_MESSAGE),
            actions=(),
            occurred_at=message.expires_at,
        )
    if message.held_until is not None:
        name, _ = split_defer_reason(message.hold_reason)
        default = _provider_limit if name == PROVIDER_LIMIT else _limited
        return _LANE_DEFERRED.get(message.hold_reason, default)(facts)
    providers = _possible_providers(facts)
    if not facts.workers or (not providers and facts.only_provider is None):
        return _explain(facts, ExplanationState.NO_WORKER, reason="no_worker", remedy=Remedy.START_WORKER)
    if (outage := outage_of(providers, facts.now)) is not None:
        return _provider_unavailable(facts, providers, outage)
    if message.locked_by is not None:
        return _explain(facts, ExplanationState.SUSPECT, reason="claimed_without_result", remedy=Remedy.NOT_NEEDED)
    return _explain(facts, ExplanationState.IN_LINE, reason="in_line", remedy=Remedy.ADD_WORKERS, ahead=facts.ahead)


def _lane_deferred(
    facts: MessageFacts, state: ExplanationState = ExplanationState.HELD, **details: Any
) -> MessageExplanation:
    """Explain a message whose lane is deferred."""
    message = facts.message
    until = None if message.hold_reason in (PAUSED, CANCELLED, GUARD_RAILS) else message.held_until
    return _explain(facts, state, reason=message.hold_reason, until=until, **details)


def _limited(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    remedy = _remedy(facts, Remedy.CHANGE_LIMIT)
    if message.campaign is not None:
        if facts.limit is None:  # It was removed, and the deferral that it caused is still in force.
            remedy = _remedy(facts, Remedy.PAUSE_AND_RESUME)
        return _lane_deferred(facts, remedy=remedy, limit=facts.limit, actions=_explain_campaign(message))
    if facts.limit is not None:
        return _lane_deferred(facts, remedy=remedy, limit=facts.limit)
    column = LIMIT_COLUMNS.get(message.hold_reason)
    own = getattr(message, column) if column else None
    scope = LimitScope.INSTALLATION if own is None else LimitScope.TENANT
    allowed = own if message.hold_reason in ("rate_per_hour", "daily_limit") else None
    limit = ReachedLimit(message.hold_reason, scope, message.tenant, allowed=allowed)
    return _lane_deferred(facts, remedy=remedy, limit=limit)


def _quota_exhausted(facts: MessageFacts) -> MessageExplanation:
    limit = ReachedLimit(QUOTA_EXHAUSTED, LimitScope.PROVIDER)
    return _lane_deferred(facts, remedy=Remedy.MORE_QUOTA, limit=limit)


def _provider_limit(facts: MessageFacts) -> MessageExplanation:
    _, name = split_defer_reason(facts.message.hold_reason)
    limit = facts.limit or ReachedLimit(name or PROVIDER_LIMIT, LimitScope.PROVIDER, facts.routed_to or "")
    return _lane_deferred(facts, remedy=_remedy(facts, Remedy.CHANGE_LIMIT), limit=limit)


def _paused(facts: MessageFacts) -> MessageExplanation:
    if facts.message.sequence_id is not None:
        resume = Action(ActionKind.RESUME_SEQUENCE, facts.message.sequence_id, {"overdue": "send"})
        return _lane_deferred(facts, remedy=Remedy.RESUME_SEQUENCE, actions=(resume, *_cancel(facts.message)))
    actions = _on_campaign(facts.message, ActionKind.RESUME_CAMPAIGN)
    return _lane_deferred(facts, remedy=Remedy.RESUME_CAMPAIGN, actions=actions)


def _stopped_by_guard(facts: MessageFacts) -> MessageExplanation:
    actions = _explain_campaign(facts.message)
    return _lane_deferred(facts, remedy=Remedy.CHECK_INCIDENTS, actions=actions)


def _campaign_cancelled(facts: MessageFacts) -> MessageExplanation:
    return _lane_deferred(facts, remedy=_remedy(facts, Remedy.NOT_NEEDED), actions=())


def _campaign_scheduled(facts: MessageFacts) -> MessageExplanation:
    actions = _on_campaign(facts.message, ActionKind.CANCEL_CAMPAIGN)
    return _lane_deferred(facts, ExplanationState.SCHEDULED, remedy=Remedy.CANCEL_CAMPAIGN, actions=actions)


def _awaiting_winner(facts: MessageFacts) -> MessageExplanation:
    return _lane_deferred(facts, remedy=Remedy.CHOOSE_WINNER, actions=_explain_campaign(facts.message))


def _sender_rules(facts: MessageFacts) -> MessageExplanation:
    return _lane_deferred(facts, remedy=Remedy.MEET_SENDER_RULES, actions=_explain_campaign(facts.message))


_LANE_DEFERRED: Mapping[str, Callable[[MessageFacts], MessageExplanation]] = {
    QUOTA_EXHAUSTED: _quota_exhausted,
    PAUSED: _paused,
    GUARD_RAILS: _stopped_by_guard,
    NEXT_WAVE: lambda facts: _lane_deferred(facts, remedy=Remedy.WAIT, actions=_explain_campaign(facts.message)),
    CANCELLED: _campaign_cancelled,
    SCHEDULED: _campaign_scheduled,
    AWAITING_WINNER: _awaiting_winner,
    UNDECIDED: lambda facts: _lane_deferred(
        facts, remedy=Remedy.CHOOSE_VARIANT, actions=_explain_campaign(facts.message)
    ),
    SENDER_RULES: _sender_rules,
    AWAITS_APPROVAL: lambda facts: _lane_deferred(
        facts, remedy=Remedy.APPROVE_CAMPAIGN, actions=_explain_campaign(facts.message)
    ),
}


def _possible_providers(facts: MessageFacts) -> list[WorkerPresence]:
    """Return the providers of the message's route. If one may already have the message, return only that one."""
    message = facts.message
    if facts.only_provider is None:
        return present_for(facts.workers, facts.routes, message.tenant_id, message.source)
    return [presence for presence in facts.workers if presence.provider == facts.only_provider]


def _provider(facts: MessageFacts) -> str | None:
    """Return the provider that has the message, sent it or will send it; None if the route has not chosen one yet."""
    tried: str | None = facts.message.provider
    if facts.message.status not in CLAIMABLE or facts.only_provider is not None:
        return tried
    # After a change of the route, the provider of the last attempt is not the one of the next attempt.
    return facts.routed_to or (None if tried in facts.named else tried)


def _provider_unavailable(facts: MessageFacts, providers: list[WorkerPresence], outage: Deferral) -> MessageExplanation:
    first = min(providers, key=lambda presence: presence.unavailable_until or 0)
    is_throttled = outage.reason == DeferReason.PROVIDER_THROTTLED
    return _explain(
        facts,
        ExplanationState.THROTTLED if is_throttled else ExplanationState.PROVIDER_UNAVAILABLE,
        reason=outage.reason,
        until=outage.until,
        remedy=Remedy.PROVIDER_RECOVERY,
        provider=first.provider,
        provider_error=first.unavailable_reason,
    )


# Functions that several rules use.


def _explain(
    facts: MessageFacts,
    state: ExplanationState,
    *,
    reason: str | None = None,
    actions: tuple[Action, ...] | None = None,
    **details: Any,
) -> MessageExplanation:
    """Build the explanation. If no actions are given, a waiting message gets the action to cancel it."""
    message = facts.message
    code, detail = split_defer_reason(reason)
    values: dict[str, Any] = {
        "provider": (provider := _provider(facts)),
        "destination": facts.destinations.get(provider or "", Destination.RECIPIENTS),
        "worker": message.locked_by,
        "error_code": message.error_code,
        "error_reason": message.error_reason,
        "attempts": message.attempts,
        "claims": message.claims,
        "deferrals": message.deferrals,
        "deferred_since": message.deferred_since,
        "retry_until": message.retry_until,
        "bounce": message.reported_as,
        "contact_status": message.contact_status,
        "is_suppressed": _is_suppressed(message),
        "campaign": message.campaign,
        "sequence": message.sequence,
        "campaign_ahead": message.goes_after,
    }
    return MessageExplanation(
        computed_at=facts.now,
        outbox_id=message.outbox_id,
        state=state,
        reason=code,
        detail=detail,
        tenant=message.tenant,
        recipient=message.to_email,
        actions=_cancel(message) if actions is None else actions,
        **(values | details),
    )


def _cancel(message: Any) -> tuple[Action, ...]:
    return (Action(ActionKind.CANCEL, message.outbox_id),) if message.status in CLAIMABLE else ()


def _explain_campaign(message: Any) -> tuple[Action, ...]:
    """Point to the campaign's own explanation, which has its forecast and variants."""
    return (Action(ActionKind.EXPLAIN_CAMPAIGN, message.campaign_id), *_cancel(message))


def _on_campaign(message: Any, kind: ActionKind) -> tuple[Action, ...]:
    return (*campaign_actions(message.campaign_id, message.campaign_status, kind), *_cancel(message))


def _remedy(facts: MessageFacts, remedy: Remedy) -> Remedy:
    """Return the remedy. If no worker is running, return "start a worker", because nothing else would help."""
    return remedy if facts.workers else Remedy.START_WORKER
