"""Settle messages of notification queues: record each result in its row.

If the queue is in the same database, the row is updated in the same transaction; otherwise the fan-out does it later.
"""

from collections.abc import Sequence
from typing import Any

from mailwright.domain.clock import Instant
from mailwright.domain.message import Event, Outcome, Settlement, Source
from mailwright.domain.states import EventType, Status
from mailwright.outbox.settle import BegunAttempts, NextAttempt, Settler, append_events, event_row, settle_and_begin
from mailwright.sources.notifications import links
from mailwright.sources.notifications.results import record_results, result_of
from mailwright.sources.notifications.tables import statements_of
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

CONCLUDE = statement(__package__, "conclude")
END_ATTEMPTS = statement(__package__, "end_attempts")
FIND_NOTIFIED_COLUMN = statement(__package__, "find_notified_column")


class NotificationSettling(Settler):
    """Records results of notifications. Every worker needs it, because any worker may send messages of a queue."""

    async def exchange(self, outcomes: Sequence[Outcome], next_up: Sequence[NextAttempt]) -> BegunAttempts:
        ours = [outcome for outcome in outcomes if outcome.claimed.source == Source.NOTIFICATION]
        if not ours:
            return await super().exchange(outcomes, next_up)
        now = self._clock.now()

        async def work(tx: Runner) -> BegunAttempts:
            begun = await settle_and_begin(tx, outcomes, next_up, now, self._consequences)
            await record_outcomes(tx, ours, now)
            return begun

        return await self._database.transact(work)


async def record_outcomes(tx: Runner, outcomes: Sequence[Outcome], now: Instant) -> None:
    """Record results in the queue, in the transaction that settles the messages. Repeating it changes nothing."""
    retries = [row for outcome in outcomes if (row := _retry_row(outcome))]
    if retries:
        concluded = await tx.run(CONCLUDE, concluded=retries)
        if concluded:
            await _end_attempts(tx, [row.outbox_id for row in concluded], now)
    shared = await links.find_results_of(tx, [outcome.claimed.outbox_id for outcome in outcomes])
    for schema in {link.queue_schema for link in shared}:
        results = [(link, result) for link in shared if link.queue_schema == schema and (result := result_of(link))]
        # Shared queues are on PostgreSQL only.
        has_notified_at = bool(await tx.run(FIND_NOTIFIED_COLUMN, schema=schema))
        written = await record_results(tx, statements_of(schema), results, has_notified_at=has_notified_at)
        await links.end_links(tx, [(link, result.state) for link, result in results if link.notification_id in written])


async def _end_attempts(tx: Runner, outbox_ids: Sequence[str], now: Instant) -> None:
    ended = await tx.run(
        END_ATTEMPTS, ended=[{"outbox_id": outbox_id} for outbox_id in outbox_ids], parked=links.PARKED
    )
    failed = [
        event_row(row.message_key, row.tenant_id, _failed_event(row, now))
        for row in ended
        if row.status == Status.FAILED
    ]
    if failed:
        await append_events(tx, failed)


def _retry_row(outcome: Outcome) -> dict[str, Any] | None:
    """Describe a completed attempt that will be retried; None for other outcomes."""
    match outcome:
        case Settlement(status=Status.RETRY_SCHEDULED, completes_attempt=True, defer_reason=None):
            event = outcome.events[-1]
            return {
                "outbox_id": outcome.claimed.outbox_id,
                "attempt": outcome.claimed.attempt,
                "at": event.at,
                "retry_after": event.metadata["backoffDelay"],
            }
        case _:
            return None


def _failed_event(row: Any, now: Instant) -> Event:
    metadata = {
        "attempt": row.attempts,
        "errorCode": "MAX_ATTEMPTS_EXCEEDED",
        "errorMessage": f"The queue allows no further attempts. Last error: {row.error_code}: {row.error_reason}",
        "willRetry": False,
    }
    return Event(EventType.FAILED, now, metadata)
