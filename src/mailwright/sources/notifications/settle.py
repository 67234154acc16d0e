"""Settling for queues of others: what a message's attempt came to is told to its row, in the same commit where the
queue is in this very database, and kept for whoever tells it otherwise."""

from collections.abc import Sequence
from typing import Any

from mailwright.domain.clock import Instant
from mailwright.domain.message import Event, Outcome, Settlement, Source
from mailwright.domain.states import EventType, Status
from mailwright.outbox.settle import APPEND_EVENTS, BegunAttempts, NextAttempt, Settler, event_row, settle_and_begin
from mailwright.sources.notifications import links
from mailwright.sources.notifications.results import record_results, result_of
from mailwright.sources.notifications.tables import statements_of
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

CONCLUDE = statement(__package__, "conclude")
END_ATTEMPTS = statement(__package__, "end_attempts")


class NotificationSettling(Settler):
    """Every worker settles like this: whoever runs beside the one that serves a queue may send its mails, too."""

    async def exchange(self, outcomes: Sequence[Outcome], next_up: Sequence[NextAttempt]) -> BegunAttempts:
        ours = [outcome for outcome in outcomes if outcome.claimed.source == Source.NOTIFICATION]
        if not ours:
            return await super().exchange(outcomes, next_up)
        now = self._clock.now()

        async def work(tx: Runner) -> BegunAttempts:
            begun = await settle_and_begin(tx, outcomes, next_up, now, self._consequences)
            await conclude(tx, ours, now)
            return begun

        return await self._database.transact(work)


async def conclude(tx: Runner, outcomes: Sequence[Outcome], now: Instant) -> None:
    """After the results are written, in their transaction. Doing it again changes nothing."""
    retries = [row for outcome in outcomes if (row := _retry(outcome))]
    if retries:
        concluded = await tx.run(CONCLUDE, concluded=retries)
        if concluded:
            await _end_attempts(tx, [row.outbox_id for row in concluded], now)
    here = await links.untold_here(tx, [outcome.claimed.outbox_id for outcome in outcomes])
    for schema in {link.queue_schema for link in here}:
        results = [(link, told) for link in here if link.queue_schema == schema and (told := result_of(link))]
        written = await record_results(tx, statements_of(schema), results)
        await links.end(tx, [(link, told.state) for link, told in results if link.notification_id in written])


async def _end_attempts(tx: Runner, outbox_ids: Sequence[str], now: Instant) -> None:
    ended = await tx.run(END_ATTEMPTS, ended=[{"outbox_id": each} for each in outbox_ids], parked=links.PARKED)
    given_up = [
        event_row(row.message_key, row.tenant_id, _given_up(row, now)) for row in ended if row.status == Status.FAILED
    ]
    if given_up:
        await tx.count(APPEND_EVENTS, events=given_up)


def _retry(outcome: Outcome) -> dict[str, Any] | None:
    """An attempt that was completed and is to be followed by another."""
    match outcome:
        case Settlement(status=Status.RETRY_SCHEDULED, completes_attempt=True, defer_reason=None):
            told = outcome.events[-1]
            return {
                "outbox_id": outcome.claimed.outbox_id,
                "attempt": outcome.claimed.attempt,
                "at": told.at,
                "retry_after": told.metadata["backoffDelay"],
            }
        case _:
            return None


def _given_up(row: Any, now: Instant) -> Event:
    metadata = {
        "attempt": row.attempts,
        "errorCode": "MAX_ATTEMPTS_EXCEEDED",
        "errorMessage": f"Its queue allows no further attempt; the last: {row.error_code}: {row.error_reason}",
        "willRetry": False,
    }
    return Event(EventType.FAILED, now, metadata)
