"""Explain a person's runs through sequences, as data: why they got an email or not, what comes next and when."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Select, func, select

from mailwright.audience.contact_fields import normalize_email
from mailwright.audience.eligibility import exclusion, may_receive
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.enrolled import received_steps
from mailwright.sources.sequences.program import Program
from mailwright.sources.sequences.records import SequenceStatus, StoredSequence, columns, find_sequence, stored
from mailwright.sources.sequences.versions import load_published
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import (
    contacts,
    deliveries,
    messages,
    sequence_enrolments,
    sequence_steps,
    sequences,
    webhook_deliveries,
)

_E = sequence_enrolments.c
_S = sequence_steps.c


class RunState(StrEnum):
    """What holds for a run now. `sources/sequences` never keeps anyone waiting for another reason."""

    NEVER_ENTERED = "never_entered"
    RUNS_SOON = "runs_soon"
    WAITS = "waits"
    WAITS_FOR_FILTER = "waits_for_filter"
    PAUSED = "paused"
    FAILED = "failed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step that happened. `message_status` is the state of its email in the outbox, or of its webhook delivery."""

    node: str
    kind: str
    at: Instant
    outcome: str
    outbox_id: str | None
    message_status: str | None


@dataclass(frozen=True, slots=True)
class RunExplanation:
    sequence_id: str
    name: str
    status: SequenceStatus
    state: RunState
    run: int | None = None
    entered_at: Instant | None = None
    entered_because: str | None = None
    node: str | None = None  # None before the first step.
    next_at: Instant | None = None
    next_node: str | None = None  # The step after a wait, if it does not depend on anything.
    next_kind: str | None = None
    failure: str | None = None
    ended_at: Instant | None = None
    end_reason: str | None = None
    excluded_because: str | None = None  # Why the person may not receive the emails of the sequence, if so.
    steps: tuple[StepRecord, ...] = ()


class SequenceExplanations:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def of_person(self, tenant_id: int, email: str) -> list[RunExplanation]:
        """Explain all runs of a person, the newest first."""
        async with self._database.read() as tx:
            contact_key = await _contact_key(tx, tenant_id, email)
            rows = await tx.execute(_runs(contact_key))
            return [await self._explain(tx, row) for row in rows]

    async def of_sequence(self, tenant_id: int, sequence_id: str, email: str) -> list[RunExplanation]:
        """Explain the runs of a person through one sequence, or why they are not in it."""
        async with self._database.read() as tx:
            sequence = await find_sequence(tx, tenant_id, sequence_id)
            contact_key = await _contact_key(tx, tenant_id, email)
            rows = await tx.execute(_runs(contact_key).where(_E.sequence_key == sequence.id))
            if rows:
                return [await self._explain(tx, row) for row in rows]
            excluded = await _exclusion(tx, sequence, contact_key)
        never = RunState.NEVER_ENTERED
        return [RunExplanation(sequence.sequence_id, sequence.name, sequence.status, never, excluded_because=excluded)]

    async def _explain(self, tx: Transaction, row: Any) -> RunExplanation:
        sequence = stored(row)
        program = (await load_published(tx, sequence.id, sequence.version or 1)).program
        state = self._state(row, sequence, program)
        following = _following(program, row.node, received_steps(row.received_steps)) if state in _MOVING else None
        return RunExplanation(
            sequence.sequence_id,
            sequence.name,
            sequence.status,
            state,
            row.run,
            row.entered_at,
            row.entered_because,
            row.node,
            row.due_at,
            None if following is None else following.id,
            None if following is None else following.kind.value,
            row.failure,
            row.ended_at,
            row.end_reason,
            steps=await _steps(tx, row.enrolment_key),
        )

    def _state(self, row: Any, sequence: StoredSequence, program: Program) -> RunState:
        if row.ended_at is not None:
            return RunState.ENDED
        if row.failure is not None:
            return RunState.FAILED
        if sequence.status is SequenceStatus.PAUSED:
            return RunState.PAUSED
        if row.due_at is None or row.due_at <= self._clock.now():
            return RunState.RUNS_SOON
        is_filter = row.node is not None and program.nodes[program.by_id[row.node]].kind is StepKind.WAIT_FOR
        return RunState.WAITS_FOR_FILTER if is_filter else RunState.WAITS


_MOVING = (RunState.WAITS, RunState.PAUSED, RunState.RUNS_SOON)


def _following(program: Program, node: str | None, received: frozenset[str]) -> Any:
    """Return the step that comes next: after a wait, the one behind it; otherwise the one where the person is."""
    position = 0 if node is None else program.by_id.get(node)
    if position is None:
        return None
    found = program.nodes[position]
    if found.kind in (StepKind.WAIT, StepKind.WAIT_UNTIL):
        found = program.nodes[found.next]
    while found.id in received:
        found = program.nodes[found.next]
    return found if found.id else None


async def _contact_key(tx: Transaction, tenant_id: int, email: str) -> int:
    c = contacts.c
    known = (c.tenant_id == tenant_id, c.email == normalize_email(email), c.deleted_at.is_(None))
    rows = await tx.execute(select(c.id).where(*known))
    if not rows:
        raise NotFound("There is no such contact.")
    return int(rows[0].id)


def _runs(contact_key: int) -> Select[Any]:
    named = ("run", "entered_at", "entered_because", "node", "due_at", "received_steps", "failure", "ended_at")
    own = [_E[name] for name in (*named, "end_reason")]
    joined = select(*columns(), _E.id.label("enrolment_key"), *own).join_from(
        sequence_enrolments, sequences, sequences.c.id == _E.sequence_key
    )
    return joined.where(_E.contact_key == contact_key).order_by(_E.id.desc())


async def _steps(tx: Transaction, enrolment_key: int) -> tuple[StepRecord, ...]:
    query = (
        select(_S.node, _S.kind, _S.at, _S.outcome, _S.outbox_id)
        .add_columns(func.coalesce(deliveries.c.status, webhook_deliveries.c.status))
        .join_from(sequence_steps, messages, messages.c.outbox_id == _S.outbox_id, isouter=True)
        .outerjoin(deliveries, deliveries.c.message_key == messages.c.id)
        .outerjoin(webhook_deliveries, webhook_deliveries.c.delivery_id == _S.outbox_id)
        .where(_S.enrolment_key == enrolment_key)
    )
    rows: Sequence[Any] = await tx.execute(query.order_by(_S.visit))
    return tuple(StepRecord(*row) for row in rows)


async def _exclusion(tx: Transaction, sequence: StoredSequence, contact_key: int) -> str | None:
    """Return why a contact may not receive the emails of a sequence; None if they may."""
    lists = [] if sequence.list_key is None else [sequence.list_key]
    excluded = (contacts.c.id == contact_key, ~may_receive(sequence.tenant_id, lists))
    rows = await tx.execute(select(exclusion(lists).label("reason")).where(*excluded))
    return rows[0].reason if rows else None
