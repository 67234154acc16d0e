"""Translate the status of a message into the result recorded in its queue row."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.results import ErrorCategory
from mailwright.domain.states import Status
from mailwright.sources.notifications import times
from mailwright.sources.notifications.jobs import NotificationRow, RowError, parse_json_column
from mailwright.sources.notifications.links import MessageLink
from mailwright.sources.notifications.statuses import FanoutStatus, MessageLinkState
from mailwright.sources.notifications.tables import QueueStatements
from mailwright.storage.hot import Runner

# Error codes that need no action, because the recipient has unsubscribed.
SKIPPED = frozenset({"RECIPIENT_SUPPRESSED", "FREQUENCY_CAP", "RECIPIENT_SNOOZED"})
EXPIRED = "EXPIRED"
_OTHER_END_ERRORS = {
    Status.CANCELLED: ("CANCELLED", "The message was cancelled."),
    Status.CLOSED_UNKNOWN: ("CLOSED_UNKNOWN", "It is unknown whether the message was sent. It will not be sent again."),
}
# The status in the error of a row whose message has no result yet.
IN_DOUBT, DEFERRED = "in_doubt", "deferred"
MAX_ERROR_LENGTH = 500


@dataclass(frozen=True, slots=True)
class NotificationResult:
    """The result recorded in a row. `completed` is the number of attempts since the row was locked."""

    status: FanoutStatus
    error: Mapping[str, Any] | None  # None keeps the present value
    at: Instant | None  # when the attempt ended; None without an attempt
    completed: int = 1

    @property
    def state(self) -> MessageLinkState:
        return MessageLinkState.WAITING if self.status is FanoutStatus.PENDING else MessageLinkState.CLOSED


def result_of(link: MessageLink) -> NotificationResult | None:
    """Return the result of a message; None while it is unfinished."""
    match Status(link.status):
        case Status.SENT:
            error = {"provider": link.provider, "providerMessageId": link.provider_message_id, "status": "sent"}
            return NotificationResult(FanoutStatus.SENT, error, link.sent_at, _completed(link))
        case Status.RETRY_SCHEDULED if link.is_parked:
            error = _attempt_error(link, "retryable")
            return NotificationResult(FanoutStatus.PENDING, error, link.result_at, _completed(link))
        case Status.FAILED:
            return _failed_result(link)
        case (Status.CANCELLED | Status.CLOSED_UNKNOWN) as status:
            code, message = _OTHER_END_ERRORS[status]
            error, at = {"code": code, "message": message}, link.in_doubt_since or link.result_at
            return NotificationResult(FanoutStatus.FAILED, error, at, _completed(link))
        case _:
            return None


def result_of_error(row_error: RowError, status: FanoutStatus, now: Instant) -> NotificationResult:
    """Return the result of a row that cannot become a message. It counts as an attempt unless it expired."""
    error = {"code": row_error.code, "message": row_error.message}
    if row_error.path is not None:
        error["path"] = row_error.path
    has_expired = status is FanoutStatus.EXPIRED
    return NotificationResult(status, error, None if has_expired else now, 0 if has_expired else 1)


def result_without_attempts(row: NotificationRow) -> NotificationResult:
    """Return the result of a row whose attempts are used up. It keeps the error of the last one, if there is any."""
    message = f"All {row.attempts} attempts of the row are used up. Requeue it to send it."
    error = None if row.error else {"code": "MAX_ATTEMPTS_EXCEEDED", "message": message}
    return NotificationResult(FanoutStatus.FAILED, error, None, 0)


def is_recorded(result: NotificationResult, row: NotificationRow) -> bool:
    """Return whether the row already has this result.

    The time of the last attempt decides: it is written with the result and survives an operator's reset. A row that
    states a doubt has its time too, but not the result.
    """
    if states_progress(row):
        return False
    recorded_at = times.parse(row.last_attempt_at)
    return result.at is not None and recorded_at is not None and recorded_at >= result.at


def states_progress(row: NotificationRow) -> bool:
    """Return whether the error of the row is about a message without a result: in doubt, or deferred by an outage."""
    error = parse_json_column(row.error)
    return isinstance(error, Mapping) and error.get("status") in (IN_DOUBT, DEFERRED)


async def record_results(
    tx: Runner,
    statements: QueueStatements,
    results: Sequence[tuple[MessageLink, NotificationResult]],
    *,
    has_notified_at: bool,
) -> set[int]:
    """Record results, add sent ones to the subscriptions and their timelines, and return the ids of the updated rows.

    `has_notified_at`: the subscriptions have the column `last_notified_at`.
    """
    written = await write_results(
        tx,
        statements,
        [
            (link.notification_id, link.locked_by, link.locked_at, link.attempts_before, result)
            for link, result in results
        ],
    )
    sent = [
        _timeline_row(link, result)
        for link, result in results
        if result.status is FanoutStatus.SENT and link.notification_id in written
    ]
    if sent:
        await tx.count(statements.append_sent, sent=sent)
        if has_notified_at:
            await tx.count(statements.set_notified, sent=_latest(sent))
    return written


def _latest(sent: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the latest time of each subscription, because one statement must not update a row twice."""
    latest: dict[int, str] = {}
    for row in sent:
        subscription_id = row["subscription_id"]
        latest[subscription_id] = max(latest.get(subscription_id, ""), row["created_at"])
    return [{"subscription_id": key, "notified_at": at} for key, at in latest.items()]


async def write_results(
    tx: Runner, statements: QueueStatements, results: Iterable[tuple[int, str, str, int, NotificationResult]]
) -> set[int]:
    """Write results, each with the id, the lock and the earlier attempts of its row."""
    rows = [
        {
            "notification_id": notification_id,
            "locked_by": locked_by,
            "locked_at": locked_at,
            "fanout_status": result.status.value,
            "attempts": attempts_before + result.completed,
            "attempted_at": None if result.at is None else times.format_time(result.at),
            "error": None if result.error is None else orjson.dumps(result.error).decode(),
        }
        for notification_id, locked_by, locked_at, attempts_before, result in results
    ]
    if not rows:
        return set()
    return {row.notification_id for row in await tx.run(statements.record_results, results=rows)}


def _failed_result(link: MessageLink) -> NotificationResult:
    if link.error_code == EXPIRED:
        error: dict[str, Any] = {"code": EXPIRED, "message": link.error_reason}
        return NotificationResult(FanoutStatus.EXPIRED, error, None, link.calls)
    status = FanoutStatus.SKIPPED if link.error_code in SKIPPED else FanoutStatus.FAILED
    is_attempt = link.error_category not in (ErrorCategory.VALIDATION, None) and link.provider is not None
    is_final = link.error_category == ErrorCategory.PERMANENT
    error = _attempt_error(link, "failed" if is_final else "retryable") if is_attempt else _error(link)
    return NotificationResult(status, error, link.failed_at, _completed(link))


def _completed(link: MessageLink) -> int:
    """Return the attempts of the row: each call of the provider, or one result without any."""
    return max(link.calls, 1)


def _attempt_error(link: MessageLink, status: str) -> dict[str, Any]:
    error = {"provider": link.provider, "status": status, **_error(link)}
    if status == "retryable" and link.retry_after:
        error["retryAfterSeconds"] = math.ceil(link.retry_after / SECOND)
    return error


def _error(link: MessageLink) -> dict[str, Any]:
    return {"code": link.error_code, "message": (link.error_reason or "")[:MAX_ERROR_LENGTH]}


def _timeline_row(link: MessageLink, result: NotificationResult) -> dict[str, Any]:
    entry = orjson.loads(link.sent_event)
    payload = {**entry["payload"], **(result.error or {})}
    return {
        "subscription_id": link.subscription_id,
        "section_status": entry["sectionStatus"],
        "payload": orjson.dumps(payload).decode(),
        "created_at": times.format_time(result.at or 0),
    }
