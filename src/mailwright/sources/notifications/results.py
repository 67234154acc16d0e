"""Results: what became of a message, in the words that its row of the queue is told."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.results import ErrorCategory
from mailwright.domain.states import Status
from mailwright.sources.notifications import times
from mailwright.sources.notifications.jobs import RowError
from mailwright.sources.notifications.links import MessageLink
from mailwright.sources.notifications.statuses import FanoutStatus, MessageLinkState
from mailwright.sources.notifications.tables import QueueStatements
from mailwright.storage.hot import Runner

# Nobody can act on these: the reader has left.
SKIPPED = frozenset({"RECIPIENT_SUPPRESSED"})
EXPIRED = "EXPIRED"
_ENDED_OTHERWISE = {
    Status.CANCELLED: ("CANCELLED", "The message was cancelled."),
    Status.CLOSED_UNKNOWN: ("CLOSED_UNKNOWN", "It is unknown whether the mail was sent, and it is not sent again."),
}
_LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class NotificationResult:
    """What a row is told. An attempt that was completed counts one, never more."""

    status: FanoutStatus
    error: Mapping[str, Any] | None  # None leaves what is there
    at: Instant | None  # when the attempt ended; None where there was none
    completed: int = 1

    @property
    def state(self) -> MessageLinkState:
        return MessageLinkState.WAITING if self.status is FanoutStatus.PENDING else MessageLinkState.CLOSED


def result_of(link: MessageLink) -> NotificationResult | None:
    """None while the message has no result."""
    match Status(link.status):
        case Status.SENT:
            error = {"provider": link.provider, "providerMessageId": link.provider_message_id, "status": "sent"}
            return NotificationResult(FanoutStatus.SENT, error, link.sent_at)
        case Status.RETRY_SCHEDULED if link.is_parked:
            return NotificationResult(FanoutStatus.PENDING, _attempt(link, "retryable"), link.result_at)
        case Status.FAILED:
            return _failed(link)
        case (Status.CANCELLED | Status.CLOSED_UNKNOWN) as status:
            code, message = _ENDED_OTHERWISE[status]
            return NotificationResult(
                FanoutStatus.FAILED, {"code": code, "message": message}, link.in_doubt_since or link.result_at, 1
            )
        case _:
            return None


def result_of_error(found: RowError, status: FanoutStatus, now: Instant) -> NotificationResult:
    """A row that cannot become a mail: that counts as an attempt, as the contract has it; being too late does not."""
    error = {"code": found.code, "message": found.message}
    if found.path is not None:
        error["path"] = found.path
    is_late = status is FanoutStatus.EXPIRED
    return NotificationResult(status, error, None if is_late else now, 0 if is_late else 1)


def is_recorded(told: NotificationResult, last_attempt_at: str | None) -> bool:
    """Whether the row has this result already. Its own time of the last attempt is the evidence: it is written with the
    result, and stays when an operator resets the rest."""
    there = times.parse(last_attempt_at)
    return told.at is not None and there is not None and there >= told.at


async def record_results(
    tx: Runner, statements: QueueStatements, results: Sequence[tuple[MessageLink, NotificationResult]]
) -> set[int]:
    """Writes results and the timelines of those that were sent; answers which rows took theirs."""
    written = await write_results(
        tx, statements, [(link.notification_id, link.locked_by, link.locked_at, t) for link, t in results]
    )
    sent = [
        _timeline(link, told)
        for link, told in results
        if told.status is FanoutStatus.SENT and link.notification_id in written
    ]
    if sent:
        await tx.count(statements.append_sent, sent=sent)
    return written


async def write_results(
    tx: Runner, statements: QueueStatements, results: Iterable[tuple[int, str, str, NotificationResult]]
) -> set[int]:
    rows = [
        {
            "notification_id": notification_id,
            "locked_by": locked_by,
            "locked_at": locked_at,
            "fanout_status": told.status.value,
            "completed": told.completed,
            "attempted_at": None if told.at is None else times.format_time(told.at),
            "error": None if told.error is None else orjson.dumps(told.error).decode(),
        }
        for notification_id, locked_by, locked_at, told in results
    ]
    if not rows:
        return set()
    return {row.notification_id for row in await tx.run(statements.record_results, results=rows)}


def _failed(link: MessageLink) -> NotificationResult:
    if link.error_code == EXPIRED:
        return NotificationResult(FanoutStatus.EXPIRED, {"code": EXPIRED, "message": link.error_reason}, None, 0)
    status = FanoutStatus.SKIPPED if link.error_code in SKIPPED else FanoutStatus.FAILED
    is_attempt = link.error_category not in (ErrorCategory.VALIDATION, None) and link.provider is not None
    is_final = link.error_category == ErrorCategory.PERMANENT
    error = _attempt(link, "failed" if is_final else "retryable") if is_attempt else _plain(link)
    return NotificationResult(status, error, link.failed_at)


def _attempt(link: MessageLink, status: str) -> dict[str, Any]:
    error = {"provider": link.provider, "status": status, **_plain(link)}
    if status == "retryable" and link.retry_after:
        error["retryAfterSeconds"] = math.ceil(link.retry_after / SECOND)
    return error


def _plain(link: MessageLink) -> dict[str, Any]:
    return {"code": link.error_code, "message": (link.error_reason or "")[:_LONGEST_MESSAGE]}


def _timeline(link: MessageLink, told: NotificationResult) -> dict[str, Any]:
    known = orjson.loads(link.sent_event)
    payload = {**known["payload"], **(told.error or {})}
    return {
        "subscription_id": link.subscription_id,
        "section_status": known["sectionStatus"],
        "payload": orjson.dumps(payload).decode(),
        "created_at": times.format_time(told.at or 0),
    }
