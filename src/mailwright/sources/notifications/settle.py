"""Settle messages of notification queues: record each result in its row.

If the queue is in the same database, the row is updated in the same transaction. Otherwise, or if a trigger refuses the
update, the fan-out records the result later.
"""

from collections.abc import Sequence
from typing import Any

from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import Outcome, Settlement, Source
from mailwright.domain.states import Status
from mailwright.ops.logs import logger
from mailwright.outbox.parking import end_parked_attempts
from mailwright.outbox.settle import BegunAttempts, NextAttempt, Settler, settle_and_begin
from mailwright.sources.notifications import links
from mailwright.sources.notifications.results import record_results, result_of
from mailwright.sources.notifications.statuses import MessageLinkState
from mailwright.sources.notifications.tables import statements_of
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

log = logger(__name__)

CONCLUDE = statement(__package__, "conclude")
FIND_NOTIFIED_COLUMN = statement(__package__, "find_notified_column")


class NotificationSettling(Settler):
    """Records results of notifications. Every worker needs it, because any worker may send messages of a queue."""

    async def exchange(self, outcomes: Sequence[Outcome], next_up: Sequence[NextAttempt]) -> BegunAttempts:
        ours = [outcome for outcome in outcomes if outcome.claimed.source == Source.NOTIFICATION]
        if not ours:
            return await super().exchange(outcomes, next_up)
        now = self._clock.now()

        async def settle(tx: Runner) -> BegunAttempts:
            account = self._account
            begun = await settle_and_begin(tx, outcomes, next_up, now, self._consequences, account=account)
            await _record_retries(tx, ours, now)
            return begun

        async def settle_and_record(tx: Runner) -> BegunAttempts:
            begun = await settle(tx)
            await _record_in_rows(tx, ours)
            return begun

        try:
            return await self._database.transact(settle_and_record)
        except NotDurable:
            raise
        except Exception as error:
            # A trigger of the queue refuses a row. The fan-out records the results later, row by row.
            log.warning("notification_results_refused", messages=len(ours), error=repr(error))
            return await self._database.transact(settle)


async def _record_retries(tx: Runner, outcomes: Sequence[Outcome], now: Instant) -> None:
    retries = [row for outcome in outcomes if (row := _retry_row(outcome))]
    if retries:
        counted = {outcome.claimed.outbox_id: outcome.claimed.counted_attempt for outcome in outcomes}
        concluded = await tx.run(CONCLUDE, concluded=retries)
        ended = [(row.outbox_id, row.result_at if _is_last(row, counted[row.outbox_id]) else None) for row in concluded]
        if ended:
            await end_parked_attempts(tx, ended, now)


def _is_last(link: Any, counted: int) -> bool:
    """Return whether the row allows no further attempt. A requeued row has another message."""
    attempts = link.attempts_before + counted - link.counted_before
    return bool(link.state == MessageLinkState.CLOSED or attempts >= link.max_attempts)


async def _record_in_rows(tx: Runner, outcomes: Sequence[Outcome]) -> None:
    """Record results in queues of this database. Repeating it changes nothing."""
    shared = await links.find_results_of(tx, [outcome.claimed.outbox_id for outcome in outcomes])
    for schema in {link.queue_schema for link in shared}:
        results = [(link, result) for link in shared if link.queue_schema == schema and (result := result_of(link))]
        # Shared queues are on PostgreSQL only.
        has_notified_at = bool(await tx.run(FIND_NOTIFIED_COLUMN, schema=schema))
        written = await record_results(tx, statements_of(schema), results, has_notified_at=has_notified_at)
        await links.end_links(tx, [(link, result.state) for link, result in results if link.notification_id in written])


def _retry_row(outcome: Outcome) -> dict[str, Any] | None:
    """Describe a completed attempt that will be retried; None for other outcomes."""
    match outcome:
        case Settlement(status=Status.RETRY_SCHEDULED, completes_attempt=True, is_excused=False, defer_reason=None):
            event = outcome.events[-1]
            return {
                "outbox_id": outcome.claimed.outbox_id,
                "attempt": outcome.claimed.attempt,
                "at": event.at,
                "retry_after": event.metadata["backoffDelay"],
            }
        case _:
            return None
