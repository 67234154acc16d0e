"""Turn the result of an attempt into the message's next state and events."""

from dataclasses import replace
from typing import Any, assert_never

from mailwright.content.dkim import DkimSigner
from mailwright.domain.clock import HOUR, Instant, isoformat, utc_text
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.lifetimes import Lifetimes
from mailwright.domain.message import Admitted, Claimed, Delivered, Event, Outcome, Settlement
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.permits import DeferReason, PacingRules
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult
from mailwright.domain.retry import DEFERRALS, LONGEST_OUTAGE_DELAY, OUTSIDE, POLICIES, STANDARD, RetryPolicy
from mailwright.domain.states import VALIDATIONS, EventType, Status
from mailwright.ops.provider_kinds import KINDS
from mailwright.outbox.claim import MAX_CLAIMS
from mailwright.pipeline.validate import ValidationFailure, ValidationKind
from mailwright.providers.protocol import SendHandle
from mailwright.providers.responses import addresses_in
from mailwright.providers.route import RouteMember

# Error codes for a rejected envelope sender, a rejected From address and missing permissions.
SENDER_REFUSED = "SMTP_SENDER_REFUSED"
FROM_REFUSED = frozenset(code for kind in KINDS.values() for code in kind.from_refused)
NOT_ALLOWED = frozenset(code for kind in KINDS.values() for code in kind.sender_not_allowed)


# The error code of a scheduled message that nobody sent when it was due.
SCHEDULE_OVERDUE = "SCHEDULE_OVERDUE"

# The name of the provider whose message IDs the events also state as `sesMessageId`.
SES = "ses"

DEFAULT_LIFETIMES = Lifetimes()
# After this many deferrals, only the result of each attempt is recorded, because a day's outage has thousands of
# probes.
DETAILED_DEFERRALS = 20


@dataclass(frozen=True, slots=True)
class _DeferralTerms:
    """The conditions that decide when a deferred message is retried and when it expires."""

    probe_at: Instant | None  # When its provider is probed next; None if the circuit breaker is closed.
    lifetime: Instant


@dataclass(slots=True)
class ReadyMessage:
    """A validated and built message, and the progress of its attempt."""

    claimed: Claimed
    admitted: Admitted
    outgoing: OutgoingMessage
    validated_at: Instant
    pacing: PacingRules | None = None
    copies: tuple[str, ...] = ()  # The normalized addresses that receive a copy.
    signer: DkimSigner | None = None  # Signs with the keys of the tenant's domain; None for the installation's key.

    member: RouteMember | None = None  # The provider chosen for the attempt.
    provider: str | None = None  # The name of the chosen provider.
    attempted_at: Instant = 0
    handle: SendHandle | None = None

    def begin(self, attempted_at: Instant, leased_until: Instant) -> None:
        """Start the recorded attempt. The provider must start to transmit before the lease ends."""
        self.attempted_at = attempted_at
        self.outgoing.send_before = leased_until


def conclude(
    ready: ReadyMessage,
    result: SendResult,
    now: Instant,
    *,
    deferred_until: Instant,
    doubt_until: Instant,
    fails_over: bool = False,
    probe_at: Instant | None = None,
    lifetimes: Lifetimes = DEFAULT_LIFETIMES,
    max_attempts: int | None = None,
) -> Outcome:
    """Return the outcome of an attempt.

    `deferred_until` is the retry time of an unavailable provider. At `doubt_until`, a message in doubt is resolved.
    With `fails_over`, another provider may send the message at once if this one certainly did not accept it.
    `probe_at` is the next probe of a provider whose circuit breaker is open. With `max_attempts`, a message of the
    standard retry policy fails after this many completed attempts, whatever their errors.
    """
    match result.kind:
        case ResultKind.SENT:
            return Delivered(
                ready.claimed,
                ready.validated_at,
                ready.attempted_at,
                now,
                result.provider,
                result.provider_message_id,
                result.message,
                result.deferred_recipients,
                ready.outgoing.is_tracked,
                ready.outgoing.own_subject,
                ready.member is not None and ready.member.provider.name == SES,
                result.bounced_copies,
            )
        case ResultKind.IN_DOUBT:
            return _in_doubt(ready, result, now, doubt_until)
        case ResultKind.FAILED if result.pauses_provider:
            return _deferred(ready, result, now, deferred_until, DeferReason.PROVIDER_UNAVAILABLE)
        case ResultKind.FAILED:
            return _failed(ready, result, now)
        case ResultKind.RETRYABLE:
            fails_over = fails_over and result.definitely_not_sent
            terms = _DeferralTerms(probe_at, lifetimes.of(ready.claimed))
            policy = _policy(ready.claimed)
            if max_attempts is not None and policy is STANDARD:
                policy = replace(policy, max_attempts=max_attempts)
                if result.is_completed and policy.is_exhausted(ready.claimed.attempt):
                    return _exhausted(ready, result, now, policy)
            return _retry_or_defer(ready, result, now, policy, terms, fails_over=fails_over)
        case _:
            assert_never(result.kind)


def excuse_provider(ready: ReadyMessage, result: SendResult) -> SendResult:
    """Attribute a rejected sender to the message instead of the configuration if the request chose the sender."""
    if result.code is None:
        return result
    is_chosen = not ready.outgoing.uses_default_from
    if result.code == SENDER_REFUSED and not ready.outgoing.uses_default_sender:
        return replace(result, category=ErrorCategory.PERMANENT, blames_provider=False)
    if result.code == "SMTP_SENDER_NOT_VERIFIED" and _names_only_recipients(ready, result):
        return replace(result, code="SMTP_MESSAGE_REJECTED", category=ErrorCategory.PERMANENT, blames_provider=False)
    if result.code in FROM_REFUSED and is_chosen:
        return replace(result, category=ErrorCategory.PERMANENT, blames_provider=False)
    if result.code in NOT_ALLOWED and is_chosen:
        # The account may lack the permission to send at all. Retries leave time to correct it.
        return replace(result, kind=ResultKind.RETRYABLE, category=ErrorCategory.TRANSIENT, blames_provider=False)
    return result


def _names_only_recipients(ready: ReadyMessage, result: SendResult) -> bool:
    """Return whether the error names addresses and all of them are recipients, as in an account's sandbox."""
    named = addresses_in(result.message or "")
    return bool(named) and named <= {recipient.lower() for recipient in ready.outgoing.recipients}


def fail_validation(claimed: Claimed, failure: ValidationFailure, now: Instant) -> Settlement:
    """Fail a message that did not pass validation. No provider was called, so no attempt is counted."""
    metadata = {"attempt": claimed.attempt, "validation": failure.kind, "errorCode": failure.code}
    return Settlement(
        claimed,
        Status.FAILED,
        (
            Event(EventType.RECEIVED, claimed.received_at, {"attempt": claimed.attempt}),
            Event(EventType.VALIDATION_FAILED, now, {**metadata, "errorMessage": failure.reason}),
            _failed_event(claimed, now, code=failure.code, category=ErrorCategory.VALIDATION, reason=failure.reason),
        ),
        completes_attempt=False,
        error_code=failure.code,
        error_category=ErrorCategory.VALIDATION,
        error_reason=failure.reason,
        duration_ms=now - claimed.received_at,
    )


def fail_poisoned(claimed: Claimed, now: Instant) -> Settlement:
    """Fail a message that was claimed repeatedly without a result; an operator must examine it."""
    reason = f"Claimed {claimed.claims - 1} times without a result: each time its worker crashed."
    return Settlement(
        claimed,
        Status.FAILED,
        (_failed_event(claimed, now, code="POISON_MESSAGE", category=ErrorCategory.PERMANENT, reason=reason),),
        completes_attempt=False,
        error_code="POISON_MESSAGE",
        error_category=ErrorCategory.PERMANENT,
        error_reason=reason,
        duration_ms=now - claimed.received_at,
        is_dead_letter=True,
    )


def repeats_failure(claimed: Claimed, result: SendResult) -> bool:
    """Return whether the message failed before and its attempts count, so that its failure proves no outage."""
    return claimed.counted_attempt > 1 and result.provider in _policy(claimed).counts_outages_of


def is_poison(claimed: Claimed) -> bool:
    return claimed.claims > MAX_CLAIMS


def fail_expired(claimed: Claimed, now: Instant) -> Settlement:
    reason = "The message expired before it could be sent (see expiresAt)."
    return Settlement(
        claimed,
        Status.FAILED,
        (
            Event(EventType.RECEIVED, claimed.received_at, {"attempt": claimed.attempt}),
            _failed_event(claimed, now, code="EXPIRED", category=ErrorCategory.PERMANENT, reason=reason),
        ),
        completes_attempt=False,
        error_code="EXPIRED",
        error_category=ErrorCategory.PERMANENT,
        error_reason=reason,
        duration_ms=now - claimed.received_at,
    )


def fail_overdue(claimed: Claimed, now: Instant) -> Settlement:
    """Fail a message whose send time passed long ago while no worker ran. A person retries it, or leaves it."""
    assert claimed.scheduled_at is not None
    reason = (
        f"The message was scheduled for {utc_text(claimed.scheduled_at)}, more than a day ago, and no worker ran then. "
        "Retry it to send it now."
    )
    return replace(
        fail_validation(claimed, ValidationFailure(ValidationKind.INTEGRITY, SCHEDULE_OVERDUE, reason), now),
        events=(
            Event(EventType.RECEIVED, claimed.received_at, {"attempt": claimed.attempt}),
            _failed_event(claimed, now, code=SCHEDULE_OVERDUE, category=ErrorCategory.PERMANENT, reason=reason),
        ),
        error_category=ErrorCategory.PERMANENT,
        is_dead_letter=True,
    )


def _failed(ready: ReadyMessage, result: SendResult, now: Instant) -> Settlement:
    return _with_error(
        ready,
        result,
        now,
        Status.FAILED,
        _failed_event(
            ready.claimed,
            now,
            code=result.code,
            category=result.category,
            reason=result.message,
            original_code=result.original_code,
        ),
        bounce=result.bounce,
        is_dead_letter=_policy(ready.claimed).keeps_rejections,
    )


def _retry_or_defer(
    ready: ReadyMessage,
    result: SendResult,
    now: Instant,
    policy: RetryPolicy,
    terms: _DeferralTerms,
    *,
    fails_over: bool,
) -> Settlement:
    is_throttled = result.category is ErrorCategory.QUOTA
    if fails_over and (is_throttled or result.blames_provider):
        reason = DeferReason.PROVIDER_THROTTLED if is_throttled else DeferReason.PROVIDER_UNAVAILABLE
        return _deferred(ready, result, now, now, reason)
    if policy.counts_every_response and result.is_completed:
        return _retry(ready, result, now, policy)
    if is_throttled or (result.is_deferral and result.provider not in policy.counts_outages_of):
        return _postpone(ready, result, now, policy, terms)
    return _retry(ready, result, now, policy)


def _postpone(
    ready: ReadyMessage, result: SendResult, now: Instant, policy: RetryPolicy, terms: _DeferralTerms
) -> Settlement:
    """Retry a deferred or throttled message until its lifetime ends. The maximum number of attempts does not apply."""
    claimed = ready.claimed
    since = now if claimed.deferred_since is None else claimed.deferred_since
    retry_until = since + terms.lifetime if claimed.retry_until is None else claimed.retry_until
    if now >= retry_until:
        reason = (
            f"Deferred for {(now - since) // HOUR} hours, until the lifetime of the message ended. "
            f"Last error: {result.code}: {result.message}"
        )
        return _dead_letter(ready, result, now, "LIFETIME_EXCEEDED", reason)
    due_at = min(now + _postponement(claimed, result, now, policy, terms), retry_until)
    defer_reason = _defer_reason(result)
    event = _retry_event(claimed, result, now, due_at - now, reason=defer_reason, retries_until=retry_until)
    settlement = _with_error(
        ready,
        result,
        now,
        Status.RETRY_SCHEDULED,
        event,
        due_at=due_at,
        defer_reason=defer_reason,
        is_excused=True,
        deferred_at=now,
        retry_until=retry_until,
    )
    return settlement if claimed.deferrals < DETAILED_DEFERRALS else replace(settlement, events=(event,))


def _defer_reason(result: SendResult) -> DeferReason | None:
    """Return the reason if the provider causes the deferral; None if the receiving server does."""
    if result.category is ErrorCategory.QUOTA:
        return DeferReason.PROVIDER_THROTTLED
    return DeferReason.PROVIDER_UNAVAILABLE if result.blames_provider else None


def _postponement(
    claimed: Claimed, result: SendResult, now: Instant, policy: RetryPolicy, terms: _DeferralTerms
) -> Instant:
    """Return the delay of a deferred message. The first delays depend only on the number of its attempts.

    Later, and if the provider could not be reached, an outage defers the message until the provider's next probe.
    """
    if result.category is ErrorCategory.QUOTA:
        return _throttle_delay(claimed, result, now, policy)
    if not result.blames_provider or (result.is_completed and claimed.attempt <= len(STANDARD.delays)):
        return DEFERRALS.delay(claimed.outbox_id, claimed.attempt, result.retry_after)
    delay = min(DEFERRALS.delay(claimed.outbox_id, claimed.deferrals + 1), LONGEST_OUTAGE_DELAY)
    return max(delay if terms.probe_at is None else terms.probe_at - now, result.retry_after or 0)


def _throttle_delay(claimed: Claimed, result: SendResult, now: Instant, policy: RetryPolicy) -> Instant:
    """Return how long a throttled message waits. For an external queue, which sets no delays, its age decides."""
    by_age = min((now - claimed.created_at) // 2, policy.delays[-1]) if policy is OUTSIDE else 0
    return policy.delay(claimed.outbox_id, claimed.attempt, max(by_age, result.retry_after or 0))


def _retry(ready: ReadyMessage, result: SendResult, now: Instant, policy: RetryPolicy) -> Settlement:
    claimed = ready.claimed
    if result.is_completed and policy.is_exhausted(claimed.counted_attempt):
        return _exhausted(ready, result, now, policy)
    delay = policy.delay(claimed.outbox_id, claimed.attempt, result.retry_after)
    event = _retry_event(claimed, result, now, delay)
    return _with_error(ready, result, now, Status.RETRY_SCHEDULED, event, due_at=now + delay)


def _exhausted(ready: ReadyMessage, result: SendResult, now: Instant, policy: RetryPolicy) -> Settlement:
    reason = f"All {policy.max_attempts} attempts failed. Last error: {result.code}: {result.message}"
    return _dead_letter(ready, result, now, "MAX_ATTEMPTS_EXCEEDED", reason)


def _dead_letter(ready: ReadyMessage, result: SendResult, now: Instant, code: str, reason: str) -> Settlement:
    event = _failed_event(
        ready.claimed,
        now,
        code=code,
        category=result.category,
        reason=reason,
        original_code=result.original_code or result.code,
    )
    return _with_error(
        ready, result, now, Status.FAILED, event, error_code=code, error_reason=reason, is_dead_letter=True
    )


def _deferred(ready: ReadyMessage, result: SendResult, now: Instant, until: Instant, reason: DeferReason) -> Settlement:
    """Defer a message because of its provider; the attempt does not count towards the maximum."""
    event = _retry_event(ready.claimed, result, now, until - now, reason=reason)
    return _with_error(
        ready, result, now, Status.RETRY_SCHEDULED, event, due_at=until, defer_reason=reason, is_excused=True
    )


def _in_doubt(ready: ReadyMessage, result: SendResult, now: Instant, doubt_until: Instant) -> Settlement:
    event = Event(
        EventType.IN_DOUBT,
        now,
        {"attempt": ready.claimed.attempt, "errorCode": result.code, "errorMessage": result.message},
    )
    return _with_error(ready, result, now, Status.IN_DOUBT, event, due_at=doubt_until)


def _with_error(
    ready: ReadyMessage, result: SendResult, now: Instant, status: Status, event: Event, **changes: Any
) -> Settlement:
    fields: dict[str, Any] = {
        "completes_attempt": result.is_completed,
        "provider": result.provider,
        "error_code": result.code,
        "error_category": result.category,
        "error_reason": result.message,
        "duration_ms": now - ready.claimed.received_at,
        "may_have_been_sent": not result.definitely_not_sent,
        "subject": ready.outgoing.own_subject,
        "bounced_copies": result.bounced_copies,
    }
    return Settlement(ready.claimed, status, (*_steps(ready, result.provider), event), **{**fields, **changes})


def _steps(ready: ReadyMessage, provider: str) -> tuple[Event, ...]:
    attempt = {"attempt": ready.claimed.attempt}
    return (
        Event(EventType.RECEIVED, ready.claimed.received_at, attempt),
        Event(EventType.VALIDATED, ready.validated_at, {**attempt, "validations": VALIDATIONS}),
        Event(EventType.SENT_ATTEMPT, ready.attempted_at, {**attempt, "provider": provider}),
    )


def _failed_event(
    claimed: Claimed,
    now: Instant,
    *,
    code: str | None,
    category: ErrorCategory | None,
    reason: str | None,
    original_code: str | None = None,
) -> Event:
    return Event(
        EventType.FAILED,
        now,
        {
            "attempt": claimed.attempt,
            "errorCode": code,
            "errorCategory": category,
            "errorMessage": reason,
            "originalCode": original_code,
            "willRetry": False,
        },
    )


def _retry_event(
    claimed: Claimed,
    result: SendResult,
    now: Instant,
    delay: Instant,
    *,
    reason: str | None = None,
    retries_until: Instant | None = None,
) -> Event:
    metadata: dict[str, Any] = {
        "attempt": claimed.attempt,
        "provider": result.provider,
        "errorCode": result.code,
        "errorCategory": result.category,
        "errorMessage": result.message,
        "originalCode": result.original_code,
        "willRetry": True,
        "nextAttemptNumber": claimed.attempt + result.is_completed,
        "backoffDelay": delay,
    }
    if reason is not None:
        metadata["deferReason"] = reason
    if retries_until is not None:
        metadata["retriesUntil"] = isoformat(retries_until)
    return Event(EventType.RETRY_SCHEDULED, now, metadata)


def _policy(claimed: Claimed) -> RetryPolicy:
    return POLICIES.get(claimed.retry_policy, STANDARD)
