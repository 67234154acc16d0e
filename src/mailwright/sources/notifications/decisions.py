"""Decisions: what is to be done with a row now. Pure: facts and a moment come in, one of a closed set goes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mailwright.domain import address
from mailwright.domain.clock import SECOND, Instant
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
    """Another row that says the same to the same subscriber."""

    notification_id: int
    status: str
    created_at: str | None
    locked_at: str | None = None


@dataclass(frozen=True, slots=True)
class RowContext:
    """What stands beside a row."""

    surroundings: SectionDetails = SectionDetails()  # noqa: RUF009 - frozen
    sent: int = 0
    under_way: int = 0
    twins: Sequence[DuplicateRow] = ()


@dataclass(frozen=True, slots=True)
class NotificationConfig:
    """What holds for every row of a queue."""

    kinds: EventKinds
    base_url: str
    locale: str
    zone: str


@dataclass(frozen=True, slots=True)
class SendDecision:
    kind: EventKind
    job: Mapping[str, Any]
    section_status: str  # what the timeline of the subscription is told
    room: int | None = None  # how many may be under way, so that the subscriber gets no more than they asked for


@dataclass(frozen=True, slots=True)
class EndDecision:
    """It will never be sent, and why."""

    status: FanoutStatus
    because: RowError


@dataclass(frozen=True, slots=True)
class GiveUpDecision:
    """It has had its attempts; what the last one said stays."""


RowDecision = SendDecision | WaitDecision | EndDecision | GiveUpDecision


def decide(row: NotificationRow, beside: RowContext, house: NotificationConfig, now: Instant) -> RowDecision:
    """The first question that is not answered with yes decides."""
    if row.event is None:
        return _failed("EVENT_NOT_FOUND", "/openEventId: the queue has no such event", "/openEventId")
    if row.subscription is None:
        return _failed(
            "SUBSCRIPTION_NOT_FOUND", "/subscriptionId: the queue has no such subscription", "/subscriptionId"
        )
    payload = jobs.parse_json_column(row.event.get("payload"))
    if isinstance(payload, RowError):
        return _failed(payload.code, "/event/payload: is not JSON", "/event/payload")
    name = jobs.event_kind_name(payload)
    kind = house.kinds.find(name)
    if kind is None:
        path = "/event/payload/eventType"
        return _failed("UNKNOWN_EVENT_TYPE", f"{path}: no kind {str(name)[:50]!r} is declared", path)
    return (
        _spent(row, kind)
        or _expired(row, kind, now)
        or _unreachable(row.subscription)
        or _retry_wait(row, kind, house.kinds.lock_ttl_of(kind), now)
        or _by_preference(row, kind, payload, beside, house=house, now=now)
    )


def expires_at(row: NotificationRow, kind: EventKind) -> Instant | None:
    since = row.age_from
    return None if since is None else since + kind.useful_for


def lock_wait(row: NotificationRow, kinds: EventKinds, now: Instant) -> WaitDecision | None:
    """While somebody holds it. A lock whose time nobody can read has ended."""
    if row.locked_at is None:
        return None
    payload = jobs.parse_json_column((row.event or {}).get("payload"))
    until = (times.parse(row.locked_at) or 0) + kinds.lock_ttl_of(kinds.find(jobs.event_kind_name(payload)))
    return WaitDecision(WaitReason.LOCKED, until, f"{row.locked_by} has it") if now <= until else None


def _spent(row: NotificationRow, kind: EventKind) -> GiveUpDecision | None:
    return GiveUpDecision() if row.attempts >= kind.max_attempts else None


def _expired(row: NotificationRow, kind: EventKind, now: Instant) -> EndDecision | None:
    until = expires_at(row, kind)
    if until is None or now < until:
        return None
    message = f"It was of use for {kind.useful_for_seconds} seconds, until {times.format_time(until)}."
    return EndDecision(FanoutStatus.EXPIRED, RowError("EXPIRED", message))


def _unreachable(subscription: Mapping[str, Any]) -> EndDecision | None:
    if subscription.get("contact_type") != EMAIL:
        path = "/subscription/contactType"
        return _skipped("NON_EMAIL_CONTACT", f"{path}: only email is served here", path)
    if (status := subscription.get("status")) != ACTIVE:
        code = "UNSUBSCRIBED" if status == "unsubscribed" else "SUBSCRIPTION_NOT_ACTIVE"
        return _skipped(code, f"/subscription/status: the subscription is {status}", "/subscription/status")
    return None


def _retry_wait(row: NotificationRow, kind: EventKind, lock_ttl: Instant, now: Instant) -> WaitDecision | None:
    """From the row alone, so that every worker agrees: the longer of the schedule and what the provider asked for."""
    last = times.parse(row.last_attempt_at)
    if not row.attempts or last is None:
        return None
    error = jobs.parse_json_column(row.error)
    asked = error.get("retryAfterSeconds") if isinstance(error, Mapping) else None
    asked_for = round(asked * SECOND) if isinstance(asked, int | float) else 0
    until = last + max(kind.retry_delay(row.attempts, lock_ttl), asked_for)
    detail = f"attempt {row.attempts} of {kind.max_attempts} failed for now"
    return WaitDecision(WaitReason.RETRY, until, detail) if now < until else None


def _by_preference(
    row: NotificationRow, kind: EventKind, payload: Any, beside: RowContext, *, house: NotificationConfig, now: Instant
) -> RowDecision:
    given = _preferences(row.subscription or {})
    wishes = given if isinstance(given, InvalidPreferences) else preferences.parse_preferences(given, house.zone)
    if isinstance(wishes, InvalidPreferences):
        return _failed("INVALID_PREFERENCES", f"{wishes.path}: {wishes.message}", wishes.path)
    match _objection(row, kind, wishes, beside, now):
        case NotWanted() as unwanted:
            return _skipped(unwanted.code, unwanted.message)
        case WaitDecision() as wait:
            return wait
        case None:
            room = None if wishes.most is None else wishes.most - beside.sent
            held_since = now - house.kinds.lock_ttl_of(kind)
            return _repeated(row, kind, beside.twins, held_since) or _job(
                row, kind, payload, given, beside, house=house, room=room
            )


def _objection(
    row: NotificationRow, kind: EventKind, wishes: SubscriberPreferences, beside: RowContext, now: Instant
) -> WaitDecision | NotWanted | None:
    after = str((row.event or {}).get("status_after") or "")
    happened = frozenset({after.lower(), kind.name.lower()})
    return preferences.check_preferences(wishes, PreferenceFacts(now, happened, beside.sent, beside.under_way))


def _preferences(subscription: Mapping[str, Any]) -> Any:
    metadata = jobs.parse_json_column(subscription.get("metadata"))
    if isinstance(metadata, RowError):
        return InvalidPreferences("/subscription/preferences", "is not JSON")
    if isinstance(metadata, Mapping):
        return metadata.get("preferences", metadata)
    return None


def _repeated(
    row: NotificationRow, kind: EventKind, twins: Sequence[DuplicateRow], held_since: Instant
) -> WaitDecision | EndDecision | None:
    """At most one mail says the same to the same subscriber within the window; the others wait until it is sent.

    The first goes first, unless another is being sent already: a row may be seen after one that was numbered later, or
    be requeued. `held_since`: no lock that is older holds.
    """
    near = [twin for twin in twins if _is_near(row, twin, kind.dedupe_window)]
    if sent := [twin for twin in near if twin.status == FanoutStatus.SENT]:
        message = f"Notification {sent[0].notification_id} said the same within {kind.dedupe_window_seconds} seconds."
        return _skipped("DUPLICATE", message)
    waiting = [twin for twin in near if twin.status == FanoutStatus.PENDING]
    earlier = [
        twin
        for twin in waiting
        if twin.notification_id < row.notification_id or (times.parse(twin.locked_at) or 0) >= held_since
    ]
    if earlier:
        return WaitDecision(
            WaitReason.DEDUPE, None, f"notification {earlier[0].notification_id} says the same and goes first"
        )
    return None


def _is_near(row: NotificationRow, twin: DuplicateRow, window: Instant) -> bool:
    ours, theirs = times.parse(row.created_at), times.parse(twin.created_at)
    return ours is None or theirs is None or abs(ours - theirs) < window


def _job(
    row: NotificationRow,
    kind: EventKind,
    payload: Any,
    given: Any,
    beside: RowContext,
    *,
    house: NotificationConfig,
    room: int | None,
) -> SendDecision | EndDecision:
    job = jobs.build_job(row, kind, payload, given, beside.surroundings, base_url=house.base_url, locale=house.locale)
    if found := jobs.validate_job(job, kind):
        return EndDecision(FanoutStatus.FAILED, found)
    try:
        address.parse(job["recipient"]["email"])
    except address.InvalidAddress as error:
        return _failed("INVALID_RECIPIENT", f"/recipient/email: {error}", "/recipient/email")
    status = str(beside.surroundings.section.get("open_status") or job["event"]["statusAfter"])
    return SendDecision(kind, job, status, room)


def _failed(code: str, message: str, path: str | None = None) -> EndDecision:
    return EndDecision(FanoutStatus.FAILED, RowError(code, message, path))


def _skipped(code: str, message: str, path: str | None = None) -> EndDecision:
    return EndDecision(FanoutStatus.SKIPPED, RowError(code, message, path))
