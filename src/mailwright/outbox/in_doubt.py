"""Handle messages in doubt. The provider may or may not have them, so none is silently resent or dropped."""

from collections.abc import Iterable
from typing import Any

from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event
from mailwright.domain.states import VALIDATIONS, EventType, OnDoubt, Status
from mailwright.outbox.sending_hold import COMMITS_LOST, is_held
from mailwright.outbox.settle import SentProof, append_events, event_row, record_proofs
from mailwright.storage.database import Database
from mailwright.storage.statements import statement

PUT_IN_DOUBT = statement(__package__, "put_in_doubt")
FIND_IN_DOUBT = statement(__package__, "find_in_doubt")
DECIDE_IN_DOUBT = statement(__package__, "decide_in_doubt")

# How long a message stays in doubt, waiting for a provider report or an operator, before it is closed as unknown.
RESOLUTION_PERIOD: Instant = DAY

BATCH = 500
# Attempts whose worker was lost. They count when it is decided to send their messages again, unless there was none.
_UNCOUNTED = ("WORKER_LOST", COMMITS_LOST)


@dataclass(frozen=True, slots=True)
class InDoubtDecision:
    status: Status
    due_at: Instant
    event: Event | None = None

    @property
    def is_resend(self) -> bool:
        return self.status is Status.RETRY_SCHEDULED


class InDoubtHandler:
    def __init__(self, database: Database, clock: Clock, grace: Instant, silent: Iterable[str] = ()) -> None:
        """Create the handler. `grace` is the time to wait for a report. The `silent` providers send no reports."""
        self._database = database
        self._clock = clock
        self._grace = grace
        self._silent = [{"provider": name} for name in silent]

    async def mark_lost_attempts(self) -> int:
        """Put attempts of crashed workers in doubt, and write the events that those workers could not write."""
        now = self._clock.now()
        async with self._database.write() as tx:
            rows = await tx.run(PUT_IN_DOUBT, now=now, decide_at=now + self._grace, silent=self._silent, limit=BATCH)
            events = [
                event_row(row.message_key, row.tenant_id, event)
                for row in rows
                for event in lost_attempt_events(row, now)
            ]
            if events:
                await append_events(tx, events)
        return len(rows)

    async def decide_due(self) -> int:
        """Decide about due messages in doubt: resend once, wait for a report, or close as unknown.

        While sending is on hold, do nothing.
        """
        now = self._clock.now()
        async with self._database.write() as tx:
            rows = await tx.run(FIND_IN_DOUBT, now=now, limit=BATCH)
            if not rows or await is_held(tx, self._database):
                return 0
            await record_proofs(tx, [SentProof(row.message_key, row.tenant_id) for row in rows if row.is_reported], now)
            decisions = {row.message_key: (row, decide(row, now)) for row in rows if not row.is_reported}
            changed = await tx.run(
                DECIDE_IN_DOUBT,
                decisions=[
                    {
                        "message_key": key,
                        "in_doubt_since": row.in_doubt_since,
                        "status": decision.status,
                        "due_at": decision.due_at,
                        "resent": int(decision.is_resend),
                    }
                    for key, (row, decision) in decisions.items()
                ],
            )
            events = []
            for key in (change.message_key for change in changed):
                row, decision = decisions[key]
                if decision.event is not None:
                    events.append(event_row(key, row.tenant_id, decision.event))
            if events:
                await append_events(tx, events)
        return len(rows) - len(decisions) + len(changed)


def decide(row: Any, now: Instant) -> InDoubtDecision:
    """Decide one message in doubt. A pure function, without the database."""
    may_resend = row.on_doubt == OnDoubt.RESEND and row.resends == 0
    if may_resend and (row.expires_at is None or now < row.expires_at):
        return InDoubtDecision(
            Status.RETRY_SCHEDULED,
            now,
            Event(
                EventType.RETRY_SCHEDULED,
                now,
                {
                    "reason": "in_doubt_resend",
                    "willRetry": True,
                    "nextAttemptNumber": row.attempts + 1 + _is_uncounted(row),
                    "backoffDelay": 0,
                },
            ),
        )
    closes_at = row.in_doubt_since + RESOLUTION_PERIOD
    if now < closes_at:
        return InDoubtDecision(Status.IN_DOUBT, closes_at)
    metadata = {
        "heldHours": RESOLUTION_PERIOD // 3_600_000,
        "message": "No report arrived. It is unknown whether the message was sent.",
    }
    return InDoubtDecision(Status.CLOSED_UNKNOWN, now, Event(EventType.CLOSED_UNKNOWN, now, metadata))


def lost_attempt_events(row: Any, now: Instant) -> tuple[Event, ...]:
    """Return the events that the worker of an attempt did not record."""
    attempt = {"attempt": row.attempts + 1}
    return (
        Event(EventType.RECEIVED, row.attempted_at, attempt),
        Event(EventType.VALIDATED, row.attempted_at, {**attempt, "validations": VALIDATIONS}),
        Event(EventType.SENT_ATTEMPT, row.attempted_at, {**attempt, "provider": row.provider}),
        Event(
            EventType.IN_DOUBT,
            now,
            {**attempt, "errorCode": row.error_code, "errorMessage": row.error_reason},
        ),
    )


def _is_uncounted(row: Any) -> bool:
    return row.claim_token is not None and row.error_code in _UNCOUNTED
