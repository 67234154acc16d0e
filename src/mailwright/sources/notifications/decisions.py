"""Decide what to do with a queue row now: send, wait, end or give up. Pure functions of the row and the time."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailwright.domain import address
from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.notifications import jobs, preferences, times
from mailwright.sources.notifications.event_kinds import EventKind, EventKinds
from mailwright.sources.notifications.jobs import NotificationRow, RowError, SectionDetails
from mailwright.sources.notifications.preferences import (
    InvalidPreferences,
    NotWanted,
    PreferenceFacts,
    SubscriberPreferences,
    WaitDecision,
)
from mailwright.sources.notifications.statuses import ACTIVE, EMAIL, FanoutStatus, WaitReason


@dataclass(frozen=True, slots=True)
class DuplicateRow:
    """Another row with the same dedupe key and subscriber."""

    notification_id: int
    status: str
    age_from: Instant | None
    locked_at: str | None = None


@dataclass(frozen=True, slots=True)
class RowContext:
    """Facts from other rows and tables that the decision about a row needs."""

    details: SectionDetails = SectionDetails()
    sent: int = 0
    in_progress: int = 0
    duplicates: Sequence[DuplicateRow] = ()


@dataclass(frozen=True, slots=True)
class NotificationConfig:
    """Configuration that applies to every row of a queue."""

    kinds: EventKinds
    base_url: str
    locale: str
    zone: str
    leaves_other_channels: bool = False  # rows of other channels stay pending for their own consumer


@dataclass(frozen=True, slots=True)
class SendDecision:
    kind: EventKind
    job: Mapping[str, Any]
    section_status: str  # recorded in the timeline of the subscription
    room: int | None = None  # how many more messages the subscriber's maximum allows; None: no maximum


@dataclass(frozen=True, slots=True)
class EndDecision:
    """The row will never be sent, for this reason."""

    status: FanoutStatus
    reason: RowError


@dataclass(frozen=True, slots=True)
class GiveUpDecision:
    """All attempts are used up. The row keeps the error of the last attempt."""


RowDecision = SendDecision | WaitDecision | EndDecision | GiveUpDecision


def decide(row: NotificationRow, context: RowContext, config: NotificationConfig, now: Instant) -> RowDecision:
    """Return the decision of the first check that does not pass."""
    if row.event is None:
        return _failed("EVENT_NOT_FOUND", "/openEventId: the event does not exist", "/openEventId")
    if row.subscription is None:
        return _failed("SUBSCRIPTION_NOT_FOUND", "/subscriptionId: the subscription does not exist", "/subscriptionId")
    payload = jobs.parse_json_column(row.event.get("payload"))
    if isinstance(payload, RowError):
        return _failed(payload.code, "/event/payload: is not JSON", "/event/payload")
    name = jobs.event_kind_name(payload)
    kind = config.kinds.find(name)
    if kind is None:
        path = "/event/payload/eventType"
        return _failed("UNKNOWN_EVENT_TYPE", f"{path}: event kind {str(name)[:50]!r} is not declared", path)
    return (
        _attempts_used(row, kind)
        or _expired(row, kind, now)
        or _not_announced(row.event, kind)
        or _unreachable(row.subscription, config)
        or _retry_wait(row, kind, config.kinds.lock_ttl_of(kind), now)
        or _check_preferences(row, kind, payload, context, config=config, now=now)
    )


def expires_at(row: NotificationRow, kind: EventKind) -> Instant | None:
    since = row.age_from
    return None if since is None else since + kind.useful_for


def lock_wait(row: NotificationRow, kinds: EventKinds, now: Instant) -> WaitDecision | None:
    """Wait while a worker holds the lock. A lock with an unreadable time has expired."""
    if row.locked_at is None:
        return None
    payload = jobs.parse_json_column((row.event or {}).get("payload"))
    until = (times.parse(row.locked_at) or 0) + kinds.lock_ttl_of(kinds.find(jobs.event_kind_name(payload)))
    return WaitDecision(WaitReason.LOCKED, until, f"locked by {row.locked_by}") if now <= until else None


def _attempts_used(row: NotificationRow, kind: EventKind) -> GiveUpDecision | None:
    return GiveUpDecision() if row.attempts >= kind.max_attempts else None


def _expired(row: NotificationRow, kind: EventKind, now: Instant) -> EndDecision | None:
    until = expires_at(row, kind)
    if until is None or now < until:
        return None
    message = (
        f"The notification expired at {times.format_time(until)}, {kind.useful_for_seconds} seconds after its creation."
    )
    return EndDecision(FanoutStatus.EXPIRED, RowError("EXPIRED", message))


def _not_announced(event: Mapping[str, Any], kind: EventKind) -> EndDecision | None:
    """Skip a status change that the kind does not announce, for example of a seat that was taken."""
    before, after = jobs.word(event.get("status_before")), jobs.word(event.get("status_after"))
    path = "/event/statusAfter"
    if not after:
        return _failed("INVALID_PAYLOAD", f"{path}: is missing or blank, so nothing is announced", path)
    if kind.matches_row(before, after):
        return None
    message = f"{path}: {kind.name} does not announce a change from {before or 'nothing'} to {after}"
    return _skipped("STATUS_NOT_ANNOUNCED", message, path)


def _unreachable(subscription: Mapping[str, Any], config: NotificationConfig) -> EndDecision | WaitDecision | None:
    if (channel := jobs.word(subscription.get("contact_type"))) != EMAIL:
        if config.leaves_other_channels:
            return WaitDecision(WaitReason.OTHER_CHANNEL, None, f"its channel is {channel or 'not set'}")
        path = "/subscription/contactType"
        return _skipped("NON_EMAIL_CONTACT", f"{path}: only email is supported", path)
    if (status := jobs.word(subscription.get("status"))) != ACTIVE:
        code = "UNSUBSCRIBED" if status == "unsubscribed" else "SUBSCRIPTION_NOT_ACTIVE"
        return _skipped(code, f"/subscription/status: the subscription is {status}", "/subscription/status")
    return None


def _retry_wait(row: NotificationRow, kind: EventKind, lock_ttl: Instant, now: Instant) -> WaitDecision | None:
    """Wait for the retry schedule or the provider's Retry-After, whichever is longer.

    Only the row is used, so that every worker comes to the same result.
    """
    last = times.parse(row.last_attempt_at)
    if not row.attempts or last is None:
        return None
    error = jobs.parse_json_column(row.error)
    retry_after = error.get("retryAfterSeconds") if isinstance(error, Mapping) else None
    provider_delay = round(retry_after * SECOND) if isinstance(retry_after, int | float) else 0
    until = last + max(kind.retry_delay(row.attempts, lock_ttl), provider_delay)
    detail = f"attempt {row.attempts} of {kind.max_attempts} failed temporarily{_reason_of(error)}"
    return WaitDecision(WaitReason.RETRY, until, detail) if now < until else None


def _reason_of(error: Any) -> str:
    """Return the provider's reason in the error of a row."""
    texts = [str(error[name]) for name in ("code", "message") if error.get(name)] if isinstance(error, Mapping) else []
    return "".join(f": {text}" for text in texts)


def _check_preferences(
    row: NotificationRow,
    kind: EventKind,
    payload: Any,
    context: RowContext,
    *,
    config: NotificationConfig,
    now: Instant,
) -> RowDecision:
    given = _raw_preferences(row.subscription or {})
    wanted = given if isinstance(given, InvalidPreferences) else preferences.parse_preferences(given, config.zone)
    if isinstance(wanted, InvalidPreferences):
        return _failed("INVALID_PREFERENCES", f"{wanted.path}: {wanted.message}", wanted.path)
    match _preference_conflict(row, kind, wanted, context, now):
        case NotWanted() as unwanted:
            return _skipped(unwanted.code, unwanted.message)
        case WaitDecision() as wait:
            return wait
        case None:
            room = None if wanted.max_notifications is None else wanted.max_notifications - context.sent
            held_since = now - config.kinds.lock_ttl_of(kind)
            return _duplicate_decision(row, kind, context.duplicates, held_since) or _send_decision(
                row, kind, payload, given, context, config=config, room=room
            )


def _preference_conflict(
    row: NotificationRow, kind: EventKind, wanted: SubscriberPreferences, context: RowContext, now: Instant
) -> WaitDecision | NotWanted | None:
    event_names = frozenset({jobs.word((row.event or {}).get("status_after")), kind.name.lower()})
    return preferences.check_preferences(wanted, PreferenceFacts(now, event_names, context.sent, context.in_progress))


def _raw_preferences(subscription: Mapping[str, Any]) -> Any:
    metadata = jobs.parse_json_column(subscription.get("metadata"))
    if isinstance(metadata, RowError):
        return InvalidPreferences("/subscription/preferences", "is not JSON")
    if isinstance(metadata, Mapping):
        return preferences.normalise(metadata.get("preferences", metadata))
    return None


def _duplicate_decision(
    row: NotificationRow, kind: EventKind, duplicates: Sequence[DuplicateRow], held_since: Instant
) -> WaitDecision | EndDecision | None:
    """Send at most one of several duplicates within the dedupe window; the others wait until it is sent.

    The lowest id goes first, unless another duplicate is being sent already: rows may become visible out of order or
    be requeued. Locks older than `held_since` have expired.
    """
    nearby = [duplicate for duplicate in duplicates if _is_in_window(row, duplicate, kind.dedupe_window)]
    if sent := [duplicate for duplicate in nearby if duplicate.status == FanoutStatus.SENT]:
        message = (
            f"Duplicate of notification {sent[0].notification_id}, sent within {kind.dedupe_window_seconds} seconds."
        )
        return _skipped("DUPLICATE", message)
    waiting = [duplicate for duplicate in nearby if duplicate.status == FanoutStatus.PENDING]
    earlier = [
        duplicate
        for duplicate in waiting
        if duplicate.notification_id < row.notification_id or (times.parse(duplicate.locked_at) or 0) >= held_since
    ]
    if earlier:
        return WaitDecision(
            WaitReason.DEDUPE, None, f"duplicate of notification {earlier[0].notification_id}, which is sent first"
        )
    return None


def _is_in_window(row: NotificationRow, duplicate: DuplicateRow, window: Instant) -> bool:
    ours, theirs = row.age_from, duplicate.age_from
    return ours is None or theirs is None or abs(ours - theirs) < window


def _send_decision(
    row: NotificationRow,
    kind: EventKind,
    payload: Any,
    given: Any,
    context: RowContext,
    *,
    config: NotificationConfig,
    room: int | None,
) -> SendDecision | EndDecision:
    job = jobs.build_job(row, kind, payload, given, context.details, base_url=config.base_url, locale=config.locale)
    if violation := jobs.validate_job(job, kind):
        return EndDecision(FanoutStatus.FAILED, violation)
    try:
        address.parse(job["recipient"]["email"])
    except address.InvalidAddress as error:
        return _failed("INVALID_RECIPIENT", f"/recipient/email: {error}", "/recipient/email")
    status = str(context.details.section.get("open_status") or job["event"]["statusAfter"])
    return SendDecision(kind, job, status, room)


def _failed(code: str, message: str, path: str | None = None) -> EndDecision:
    return EndDecision(FanoutStatus.FAILED, RowError(code, message, path))


def _skipped(code: str, message: str, path: str | None = None) -> EndDecision:
    return EndDecision(FanoutStatus.SKIPPED, RowError(code, message, path))
