"""Explain a person's runs through sequences, as data: why they got an email or not, what comes next and when."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final, cast

import orjson
from sqlalchemy import Select, case, func, select

from mailwright.audience.contact_events import ContactEvent
from mailwright.audience.contact_fields import normalize_email
from mailwright.audience.eligibility import MISSING_CONSENT, exclusion, may_receive
from mailwright.audience.filter_sql import filter_clause
from mailwright.domain.campaign import INDEFINITELY
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound
from mailwright.domain.explanation import MessageExplanation
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import Status
from mailwright.outbox.explain import explain
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.enrol import counts_for_re_entry
from mailwright.sources.sequences.enrolled import received_steps
from mailwright.sources.sequences.entry_rules import Candidate, NotEntered, find_rule, ignored_events
from mailwright.sources.sequences.last_emails import LastEmail, load_last_emails
from mailwright.sources.sequences.program import EndReason, Program, steps_ahead, wait_end
from mailwright.sources.sequences.records import SequenceStatus, StoredSequence, columns, find_sequence, stored
from mailwright.sources.sequences.versions import Published, load_published
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import (
    contacts,
    deliveries,
    messages,
    sequence_enrolments,
    sequence_steps,
    sequences,
    tenants,
    webhook_deliveries,
)

# How many emails that are not sent are explained, the newest first.
MAX_EXPLAINED_EMAILS: Final = 20
# How many sequences are explained that a person is not in, the newest first.
MAX_OTHER_SEQUENCES: Final = 50

_E = sequence_enrolments.c
_RUN_COLUMNS = (
    "run",
    "entered_at",
    "entered_because",
    "node",
    "waits_since",
    "due_at",
    "received_steps",
    "failure",
    "ended_at",
    "end_reason",
    "event_key",
    "events_after",
)
_S = sequence_steps.c


class RunState(StrEnum):
    """The state of a run. A person waits in a sequence only for one of these reasons."""

    NEVER_ENTERED = "never_entered"
    RUNS_SOON = "runs_soon"
    WAITS = "waits"
    WAITS_FOR_FILTER = "waits_for_filter"
    WAITS_FOR_EMAIL = "waits_for_email"  # The wait counts from when the previous email is sent.
    WAITS_FOR_CONSENT = "waits_for_consent"  # The person may not receive the email before they subscribe or confirm.
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
    email: MessageExplanation | None = None  # Why its email is not sent, if so.


@dataclass(frozen=True, slots=True)
class UnmatchedCondition:
    """A condition of the entry filter that the person does not match now, and the person's value if it is about an
    attribute.
    """

    condition: Mapping[str, Any]
    value: Any = None


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
    not_entered: NotEntered | None = None  # Why the person is not in it now; only in the latest run.
    unmatched: tuple[UnmatchedCondition, ...] = ()  # Of a run that the entry filter ended.
    ignored: tuple[ContactEvent, ...] = ()  # Events of the trigger that came while they were in it, the latest first.
    steps: tuple[StepRecord, ...] = ()
    unsent_step: str | None = None  # The step of the email from which the wait counts, if it is not sent yet.
    consent_until: Instant | None = None  # Until when the next email waits for the person's consent, if so.


class SequenceExplanations:
    def __init__(self, database: Database, clock: Clock, zone: str = "UTC") -> None:
        self._database = database
        self._clock = clock
        self._zone = zone

    async def of_person(self, tenant_id: int, email: str) -> list[RunExplanation]:
        """Explain all runs of a person, the newest first."""
        async with self._database.read() as tx:
            contact_key = await _contact_key(tx, tenant_id, email)
            rows = await tx.execute(_runs(contact_key))
            by_sequence: dict[int, list[Any]] = {}
            for row in rows:
                by_sequence.setdefault(row.id, []).append(row)
            found: dict[int, RunExplanation] = {}
            for mine in by_sequence.values():
                person = await self._candidate(tx, stored(mine[0]), contact_key, email, mine)
                found |= await self._explain_runs(tx, *person)
        return await self._with_emails(tenant_id, [found[row.enrolment_key] for row in rows])

    async def of_sequence(self, tenant_id: int, sequence_id: str, email: str) -> list[RunExplanation]:
        """Explain the runs of a person through one sequence, or why they are not in it."""
        async with self._database.read() as tx:
            sequence = await find_sequence(tx, tenant_id, sequence_id)
            contact_key = await _contact_key(tx, tenant_id, email)
            rows = await tx.execute(_runs(contact_key).where(_E.sequence_key == sequence.id))
            if not rows:
                return [await self._explain_absence(tx, sequence, contact_key, email)]
            found = await self._explain_runs(tx, *await self._candidate(tx, sequence, contact_key, email, rows))
        return await self._with_emails(tenant_id, list(found.values()))

    async def of_others(self, tenant_id: int, email: str) -> list[RunExplanation]:
        """For each running or paused sequence that a person never entered, explain why."""
        q = sequences.c
        is_open = q.status.in_([SequenceStatus.RUNNING.value, SequenceStatus.PAUSED.value])
        async with self._database.read() as tx:
            contact_key = await _contact_key(tx, tenant_id, email)
            entered = select(_E.sequence_key).where(_E.contact_key == contact_key)
            others = select(*columns()).where(q.tenant_id == tenant_id, is_open, q.id.not_in(entered))
            rows = await tx.execute(others.order_by(q.id.desc()).limit(MAX_OTHER_SEQUENCES))
            return [await self._explain_absence(tx, stored(row), contact_key, email) for row in rows]

    async def _explain_absence(
        self, tx: Transaction, sequence: StoredSequence, contact_key: int, email: str
    ) -> RunExplanation:
        excluded = await _exclusion(tx, sequence, contact_key)
        rule = None
        if sequence.status in (SequenceStatus.RUNNING, SequenceStatus.PAUSED):
            person, _ = await self._candidate(tx, sequence, contact_key, email, ())
            rule = await find_rule(self._database, tx, person)
        return RunExplanation(
            sequence.sequence_id,
            sequence.name,
            sequence.status,
            RunState.NEVER_ENTERED,
            excluded_because=excluded,
            not_entered=rule,
        )

    async def _candidate(
        self, tx: Transaction, sequence: StoredSequence, contact_key: int, email: str, runs: Sequence[Any]
    ) -> tuple[Candidate, Published]:
        published = await load_published(tx, sequence.id, sequence.version or 1)
        rows = await tx.execute(select(tenants.c.timezone).where(tenants.c.id == sequence.tenant_id))
        zone = rows[0].timezone or self._zone
        now, address = self._clock.now(), normalize_email(email)
        return Candidate(sequence, published.definition, contact_key, address, runs, now, zone), published

    async def _explain_runs(
        self, tx: Transaction, person: Candidate, published: Published
    ) -> dict[int, RunExplanation]:
        """Explain the runs of a person through one sequence, by enrolment."""
        ignored = await ignored_events(self._database, tx, person)
        found = {
            row.enrolment_key: replace(
                await self._explain(tx, row, person, published), ignored=tuple(ignored.get(row.run, ()))
            )
            for row in person.runs
        }
        latest = person.runs[0]
        if latest.ended_at is not None and person.sequence.status is not SequenceStatus.ARCHIVED:
            rule = await find_rule(self._database, tx, person)
            found[latest.enrolment_key] = replace(found[latest.enrolment_key], not_entered=rule)
        return found

    async def _explain(self, tx: Transaction, row: Any, person: Candidate, published: Published) -> RunExplanation:
        sequence, program = person.sequence, published.program
        waiting = [] if row.waits_since is None else [row.enrolment_key]
        email = (await load_last_emails(tx, waiting)).get(row.enrolment_key)
        state = self._state(row, sequence, program, email)
        following = _following(program, row.node, received_steps(row.received_steps)) if state in _MOVING else None
        excluded: str | None = None
        unmatched: tuple[UnmatchedCondition, ...] = ()
        if row.end_reason == EndReason.NOT_ELIGIBLE or (row.ended_at is None and _has_email_ahead(program, row.node)):
            excluded = await _exclusion(tx, sequence, person.contact_key)
        elif row.end_reason == EndReason.ENTRY and person.definition.entry is not None:
            unmatched = await _unmatched(tx, person, person.definition.entry)
        return RunExplanation(
            sequence.sequence_id,
            sequence.name,
            sequence.status,
            state,
            row.run,
            row.entered_at,
            row.entered_because,
            row.node,
            row.due_at if email is None else self._next_at(row, person, program, email),
            None if following is None else following.id,
            None if following is None else following.kind.value,
            row.failure,
            row.ended_at,
            row.end_reason,
            excluded,
            unmatched=unmatched,
            steps=await _steps(tx, row.enrolment_key),
            unsent_step=email.step if email is not None and email.is_unsent else None,
            consent_until=self._consent_until(row, program, excluded),
        )

    def _consent_until(self, row: Any, program: Program, excluded: str | None) -> Instant | None:
        """Return until when the next email of a run waits for the person's consent; None if it does not."""
        until = row.entered_at + program.consent_window
        is_waiting = program.awaits_consent(row.node, row.waits_since)
        reached_at = self._clock.now() if row.due_at is None or is_waiting else max(row.due_at, self._clock.now())
        lacks_consent = row.ended_at is None and excluded in MISSING_CONSENT
        return int(until) if lacks_consent and reached_at < until else None

    def _next_at(self, row: Any, person: Candidate, program: Program, email: LastEmail) -> Instant | None:
        """Return when a wait ends. If its email is unsent, this is the earliest possible time."""
        left_at = email.sendable_at(self._clock.now()) if email.left_at is None else email.left_at
        if row.due_at is None or left_at >= INDEFINITELY:
            return cast("Instant | None", row.due_at)
        end = wait_end(program.nodes[program.by_id[row.node]], row.waits_since, row.zone or person.zone, left_at)
        # An overdue step that is spread over some hours runs later than the end of its wait.
        return max(end, row.due_at) if email.left_at is not None else end

    async def _with_emails(self, tenant_id: int, runs: list[RunExplanation]) -> list[RunExplanation]:
        """Add why the emails of steps are not sent."""
        unsent = [
            step.outbox_id
            for run in runs
            for step in reversed(run.steps)
            if step.outbox_id is not None and step.kind != StepKind.WEBHOOK and step.message_status not in _NO_QUESTION
        ]
        found = {
            each: await explain(self._database, self._clock, each, tenant_id=tenant_id)
            for each in unsent[:MAX_EXPLAINED_EMAILS]
        }
        if not found:
            return runs
        return [
            replace(run, steps=tuple(replace(step, email=found.get(step.outbox_id or "")) for step in run.steps))
            for run in runs
        ]

    def _state(self, row: Any, sequence: StoredSequence, program: Program, email: LastEmail | None) -> RunState:
        if row.ended_at is not None:
            return RunState.ENDED
        if row.failure is not None:
            return RunState.FAILED
        if sequence.status is SequenceStatus.PAUSED:
            return RunState.PAUSED
        if row.due_at is None or row.due_at <= self._clock.now():
            return RunState.RUNS_SOON
        if program.awaits_consent(row.node, row.waits_since):
            return RunState.WAITS_FOR_CONSENT
        is_filter = row.node is not None and program.nodes[program.by_id[row.node]].kind is StepKind.WAIT_FOR
        waits = RunState.WAITS_FOR_EMAIL if email is not None and email.is_unsent else RunState.WAITS
        return RunState.WAITS_FOR_FILTER if is_filter else waits


_MOVING = (RunState.WAITS, RunState.WAITS_FOR_EMAIL, RunState.PAUSED, RunState.RUNS_SOON)
# The states of a message that need no explanation. Retention deletes messages, and then there is no state.
_NO_QUESTION = (None, Status.SENT.value)


def _following(program: Program, node: str | None, received: frozenset[str]) -> Any:
    """Return the next step: the step after the wait if the person is at a wait; otherwise the person's current step."""
    position = 0 if node is None else program.by_id.get(node)
    if position is None:
        return None
    found = program.nodes[position]
    if found.kind in (StepKind.WAIT, StepKind.WAIT_UNTIL):
        found = program.nodes[found.next]
    while found.id in received:
        found = program.nodes[found.next]
    return found if found.id else None


def _has_email_ahead(program: Program, node: str | None) -> bool:
    position = 0 if node is None else program.by_id.get(node, 0)
    return any(program.nodes[each].kind is StepKind.SEND for each in steps_ahead(program, position))


async def _contact_key(tx: Transaction, tenant_id: int, email: str) -> int:
    c = contacts.c
    known = (c.tenant_id == tenant_id, c.email == normalize_email(email), c.deleted_at.is_(None))
    rows = await tx.execute(select(c.id).where(*known))
    if not rows:
        raise NotFound("There is no such contact.")
    return int(rows[0].id)


def _runs(contact_key: int) -> Select[Any]:
    own = [_E[name] for name in _RUN_COLUMNS]
    zone = select(contacts.c.timezone).where(contacts.c.id == _E.contact_key).scalar_subquery().label("zone")
    counts = case((counts_for_re_entry(), 1), else_=0).label("counts")
    joined = select(*columns(), _E.id.label("enrolment_key"), zone, counts, *own).join_from(
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


async def _unmatched(tx: Transaction, person: Candidate, entry: Mapping[str, Any]) -> tuple[UnmatchedCondition, ...]:
    """Return the conditions of the entry filter that the person does not match now."""
    parts = entry.get("all", [entry])
    clauses = [case((filter_clause(each, person.sequence.tenant_id, person.now), 1), else_=0) for each in parts]
    query = select(contacts.c.attributes, *clauses).where(contacts.c.id == person.contact_key)
    row: Any = (await tx.execute(query))[0]
    attributes = orjson.loads(row[0] or "{}")
    missed = [part for part, is_met in zip(parts, row[1:], strict=True) if not is_met]
    return tuple(UnmatchedCondition(each, attributes.get(each.get("attribute"))) for each in missed)
