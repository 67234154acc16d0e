"""Actions of users on a message. Each is one transaction that also writes its event."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, assert_never

from mailwright.domain.campaign import INDEFINITELY
from mailwright.domain.clock import Clock, Instant, isoformat
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.ids import is_uuid
from mailwright.domain.message import Event
from mailwright.domain.states import CLAIMABLE, EventType, Resolution, Status
from mailwright.outbox import audit_log
from mailwright.outbox.settle import append_events, event_row
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import Statement, statement

LOCK_MESSAGE = statement(__package__, "lock_message")
CANCEL = statement(__package__, "cancel")
REQUEUE = statement(__package__, "requeue")
DELETE_DEAD_LETTER = statement(__package__, "delete_dead_letter")
CANCEL_LANE = statement(__package__, "cancel_lane")
DISCARD_PROOFS = statement(__package__, "discard_proofs")
EXPIRE = statement(__package__, "expire")
LOCK_EMAIL = statement(__package__, "lock_email")
RESCHEDULE_DELIVERIES = statement(__package__, "reschedule_deliveries")
RESCHEDULE_MESSAGES = statement(__package__, "reschedule_messages")
RESOLVE = statement(__package__, "resolve")


class Operations:
    """Cancels, reschedules, retries and resolves messages.

    If `tenant_id` is None, which is for operators only, messages of all tenants can be changed. Actions with an `actor`
    are recorded in the audit log.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def cancel(self, outbox_id: str, *, tenant_id: int | None, actor: str | None = None) -> Status:
        """Cancel a message that no worker has begun to send."""
        async with self._database.write() as tx:
            row = await _locked(tx, outbox_id, tenant_id)
            if row.status not in CLAIMABLE:
                raise NotPossibleNow(
                    "The message is {status}. Only a waiting message can be cancelled.", status=row.status
                )
            if not await cancel_waiting(tx, row.message_key, row.tenant_id, row.status, self._clock.now()):
                raise NotPossibleNow
            await self._record(tx, row, actor, "message.cancel")
        return count_final_state(Status.CANCELLED)

    async def cancel_email(self, outbox_id: str, *, tenant_id: int) -> None:
        """Cancel the messages to all recipients of an email, if no worker has begun to send one of them."""
        async with self._database.write() as tx:
            waiting = await _waiting_email(tx, outbox_id, tenant_id, CLAIMABLE)
            for row in waiting:
                if not await cancel_waiting(tx, row.message_key, row.tenant_id, row.status, self._clock.now()):
                    raise NotPossibleNow
        count_final_state(Status.CANCELLED, len(waiting))

    async def reschedule_email(self, outbox_id: str, due_at: Instant, *, tenant_id: int) -> None:
        """Change the send time of the messages to all recipients of an email that no worker has begun to send."""
        async with self._database.write() as tx:
            waiting = await _waiting_email(tx, outbox_id, tenant_id, (Status.PENDING,))
            if any(row.expires_at is not None and row.expires_at <= due_at for row in waiting):
                raise NotPossibleNow("The message expires before that time.")
            keys = [(row.message_key,) for row in waiting]
            due_at = max(due_at, self._clock.now())
            if len(await tx.run(RESCHEDULE_DELIVERIES, waiting=keys, due_at=due_at)) != len(keys):
                raise NotPossibleNow
            await tx.count(RESCHEDULE_MESSAGES, waiting=keys, due_at=due_at)
            event = Event(EventType.REQUEUED, self._clock.now(), {"scheduledAt": isoformat(due_at)})
            await append_events(tx, [event_row(row.message_key, row.tenant_id, event) for row in waiting])

    async def requeue(self, outbox_id: str, *, tenant_id: int | None, actor: str | None = None) -> Status:
        """Retry a failed message from the beginning, and remove it from the dead letters."""
        async with self._database.write() as tx:
            row = await _locked(tx, outbox_id, tenant_id)
            if row.status != Status.FAILED:
                raise NotPossibleNow(
                    "The message is {status}. Only a failed message can be retried.", status=row.status
                )
            if row.is_emptied:
                raise NotPossibleNow("The content of the message was deleted, so it cannot be sent again.")
            before = {"previousAttempts": row.attempts, "previousErrorCode": row.error_code}
            await self._change(tx, row, REQUEUE, EventType.REQUEUED, before)
            await tx.run(DELETE_DEAD_LETTER, message_key=row.message_key)
            await discard_proofs(tx, [row.message_key])
            await self._record(tx, row, actor, "message.retry")
        return Status.PENDING

    async def resolve(
        self, outbox_id: str, resolution: Resolution, *, tenant_id: int | None, actor: str | None = None
    ) -> Status:
        """Resolve a message in doubt according to an operator's decision."""
        now = self._clock.now()
        async with self._database.write() as tx:
            row = await _locked(tx, outbox_id, tenant_id)
            if row.status != Status.IN_DOUBT:
                raise NotPossibleNow(
                    "The message is {status}. Only a message in doubt can be resolved.", status=row.status
                )
            if resolution is Resolution.RESEND and row.expires_at is not None and row.expires_at <= now:
                raise NotPossibleNow(
                    "The message has expired and cannot be sent again. Resolve it as sent or close it."
                )
            status, event = outcome_of(resolution)
            sent_at = (row.attempted_at or now) if status is Status.SENT else None
            metadata = {"resolvedBy": "operator", "as": resolution}
            await self._change(tx, row, RESOLVE, event, metadata, status=status, sent_at=sent_at)
            await self._record(tx, row, actor, "message.resolve", {"as": resolution})
        return count_final_state(status)

    async def _record(
        self, tx: Transaction, row: Any, actor: str | None, action: str, detail: Mapping[str, Any] | None = None
    ) -> None:
        if actor is not None:
            now, subject = self._clock.now(), row.outbox_id
            await audit_log.record(
                tx, now, actor=actor, action=action, subject=subject, tenant_id=row.tenant_id, detail=detail
            )

    async def _change(
        self,
        tx: Transaction,
        row: Any,
        change: Statement,
        event: EventType,
        metadata: Mapping[str, Any],
        **parameters: Any,
    ) -> None:
        now = self._clock.now()
        changed = await tx.run(change, message_key=row.message_key, now=now, **parameters)
        if not changed:
            raise NotPossibleNow
        await append_events(tx, [event_row(row.message_key, row.tenant_id, Event(event, now, metadata))])


async def cancel_waiting(tx: Runner, message_key: int, tenant_id: int, status: str, now: Instant) -> bool:
    """Cancel a message that waits with this status. Return False if a worker has begun to send it in the meantime."""
    if not await tx.run(CANCEL, message_key=message_key, now=now):
        return False
    event = Event(EventType.CANCELLED, now, {"previousStatus": status})
    await append_events(tx, [event_row(message_key, tenant_id, event)])
    return True


async def cancel_or_expire(tx: Runner, messages: Iterable[Any], now: Instant) -> None:
    """Cancel messages. Those that a worker has begun to send expire, so that they are not sent a second time."""
    sending = []
    for message in messages:
        if not await cancel_waiting(tx, message.message_key, message.tenant_id, message.status, now):
            sending.append((message.message_key,))
    if sending:
        await tx.count(EXPIRE, sending=sending, now=now)


async def cancel_lane(
    tx: Transaction, lane: int, *, by: str, now: Instant, limit: int, due_by: Instant = INDEFINITELY
) -> int:
    """Cancel a batch of the messages that wait in a lane and were due by a time. Return how many there were."""
    rows = await tx.run(CANCEL_LANE, lane=lane, due_by=due_by, limit=limit)
    event = Event(EventType.CANCELLED, now, {"by": by})
    await append_events(tx, [event_row(row.message_key, row.tenant_id, event) for row in rows])
    return len(rows)


async def discard_proofs(tx: Transaction, message_keys: Iterable[int]) -> None:
    """Ignore earlier reports about requeued messages, because they say nothing about the next attempt."""
    await tx.run(DISCARD_PROOFS, requeued=[{"message_key": key} for key in message_keys])


async def _locked(tx: Transaction, outbox_id: str, tenant_id: int | None) -> Any:
    rows = await tx.run(LOCK_MESSAGE, outbox_id=outbox_id, tenant_id=tenant_id) if is_uuid(outbox_id) else ()
    if not rows:
        raise NotFound
    return rows[0]


async def _waiting_email(tx: Transaction, outbox_id: str, tenant_id: int, statuses: Collection[str]) -> list[Any]:
    """Lock the messages of an email and return those that were not cancelled. All of these must wait."""
    rows = await tx.run(LOCK_EMAIL, outbox_id=outbox_id, tenant_id=tenant_id) if is_uuid(outbox_id) else ()
    if not rows:
        raise NotFound
    waiting = [row for row in rows if row.status != Status.CANCELLED]
    other = next((row.status for row in waiting if row.status not in statuses), None if waiting else Status.CANCELLED)
    if other is not None:
        raise NotPossibleNow("The message is {status}. Only a waiting message can be changed.", status=other)
    return waiting


def outcome_of(resolution: Resolution) -> tuple[Status, EventType]:
    """Return the status and the event type that a resolution leads to."""
    match resolution:
        case Resolution.SENT:
            return Status.SENT, EventType.SENT
        case Resolution.RESEND:
            return Status.RETRY_SCHEDULED, EventType.REQUEUED
        case Resolution.CLOSE:
            return Status.CLOSED_UNKNOWN, EventType.CLOSED_UNKNOWN
        case _:
            assert_never(resolution)


def count_final_state(status: Status, messages: int = 1) -> Status:
    if status is not Status.RETRY_SCHEDULED:
        from mailwright.ops import metrics  # noqa: PLC0415 - slow to import, and most commands do not need it

        metrics.FINAL_STATES.labels(status).inc(messages)
    return status
