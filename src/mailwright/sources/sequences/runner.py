"""Run the due steps of sequences. A batch is one transaction: messages, changes, history and new positions together.

A crash before the commit repeats nothing and loses nothing. Two workers never run the same sequence at the same time,
and the history has one row for each step of an enrolment.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final

from sqlalchemy import update

from mailwright.audience.enrolments import end_enrolments, sequence_facts
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event, NewMessage, Source
from mailwright.domain.states import EventType
from mailwright.ops.logs import logger
from mailwright.outbox.accept import accept, count_accepted
from mailwright.outbox.sending_hold import is_held
from mailwright.outbox.settle import NO_MESSAGE, append_events, event_row
from mailwright.outbox.webhook_requests import DirectRequest, NoReceiver, request_deliveries, wanted_types
from mailwright.sources.sequences.changes import apply_changes
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.emails import EmailWriter, StepFailed, notification
from mailwright.sources.sequences.enrolled import Enrolled, received_steps
from mailwright.sources.sequences.facts import load_facts
from mailwright.sources.sequences.last_emails import load_last_emails
from mailwright.sources.sequences.program import ALREADY_RECEIVED, START, Decision, Program, StepAction, advance
from mailwright.sources.sequences.versions import ProgramCache
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import sequence_enrolments

DUE_SEQUENCES = statement(__package__, "due_sequences")
LOCK_RUNNING_SEQUENCE = statement(__package__, "lock_running_sequence")
LOCK_DUE_CONTACTS = statement(__package__, "lock_due_contacts")
LOCK_DUE_ENROLMENTS = statement(__package__, "lock_due_enrolments")
INSERT_STEPS = statement(__package__, "insert_steps")
MOVE_ENROLMENTS = statement(__package__, "move_enrolments")
ENDED_AMONG = statement(__package__, "ended_among")

# Small enough that other writers do not wait long for a batch.
BATCH_SIZE: Final = 500
# The value of `only` that selects all due enrolments.
EVERYONE: Final = 0
# Steps without a wait that one person takes in one batch. The rest follows in the next batch.
MAX_ROUNDS: Final = 50

log = logger(__name__)


@dataclass(slots=True)
class Batch:
    """The due steps of some people in one sequence, and their results."""

    sequence: Any
    program: Program
    now: Instant
    people: list[Enrolled]
    steps: list[tuple[Any, ...]] = field(default_factory=list)
    messages: list[NewMessage] = field(default_factory=list)  # Emails to the team, accepted at the end.
    accepted: int = 0
    wanted: frozenset[str] = frozenset()  # The types of events that webhooks of the tenant get.
    events: list[dict[str, Any]] = field(default_factory=list)
    first_nodes: dict[int, int] = field(init=False)  # Where each person was at the beginning.

    def __post_init__(self) -> None:
        self.first_nodes = {person.id: person.node for person in self.people}

    def skips_step(self, person: Enrolled) -> bool:
        """Return whether a failed notification or webhook request is skipped. Only an email can be overdue."""
        return person.skips_email and self.first_nodes[person.id] == person.node

    def record(self, person: Enrolled, outcome: str, outbox_id: str | None = None) -> None:
        """Record the step at which the person is. `outbox_id` is the message or the delivery of a webhook."""
        node = self.program.nodes[person.node]
        person.visit += 1
        version, kind = self.sequence.version, node.kind.value
        self.steps.append((person.id, person.visit, version, node.id, kind, self.now, outcome, outbox_id))
        self.publish(EventType.SEQUENCE_STEP, person, kind=kind, outcome=outcome)

    def fail(self, person: Enrolled, reason: str) -> None:
        """Stop a person at their step, with a reason that users see."""
        person.failure, person.due_at = reason, None
        self.publish(EventType.SEQUENCE_FAILED, person, reason=reason)

    def publish(self, type_: EventType, person: Enrolled, **metadata: Any) -> None:
        if type_ in self.wanted:
            event = Event(type_, self.now, {**self.about(person), **metadata})
            self.events.append(event_row(NO_MESSAGE, self.sequence.tenant_id, event))

    def about(self, person: Enrolled) -> dict[str, Any]:
        """Return the data about a person for a webhook. The contact itself is added when the request is made."""
        step = {} if person.node == START else {"step": self.program.nodes[person.node].id}
        return sequence_facts(self.sequence, person.contact_key, person.run) | step


class SequenceRunner:
    """Runs due steps; several workers may do this at the same time."""

    def __init__(self, database: Database, clock: Clock, templates: TemplateStore, zone: str = "UTC") -> None:
        self._database = database
        self._clock = clock
        self._zone = zone
        self._programs = ProgramCache()
        self._emails = EmailWriter(templates)

    async def tick(self) -> bool:
        """Run one batch of each sequence. Return true if there may be more to do."""
        async with self._database.read() as tx:
            # A restored database does not know which steps happened after the backup.
            due = () if await is_held(tx, self._database) else await tx.run(DUE_SEQUENCES, now=self._clock.now())
        has_worked = False
        for row in due:
            try:
                has_worked |= await self._run_batch(row.id)
            except NotDurable:
                raise
            except Exception:  # A sequence that cannot continue must not block the others.
                log.exception("sequence_stuck", sequence=row.id)
                has_worked |= await self._run_one_by_one(row.id)
        return has_worked

    async def _run_batch(self, sequence_key: int, only: int = EVERYONE) -> bool:
        now = self._clock.now()
        async with self._database.write() as tx:
            batch = await self._load(tx, sequence_key, now, only)
            if batch is None:
                return False
            await self._run_rounds(tx, batch)
            await _store(tx, batch)
        count_accepted(Source.SEQUENCE, batch.accepted + len(batch.messages))
        return True

    async def _run_one_by_one(self, sequence_key: int) -> bool:
        """After a batch has failed, run its steps one by one, and record which of them fails."""
        now = self._clock.now()
        async with self._database.write() as tx:
            batch = await self._load(tx, sequence_key, now, EVERYONE)
        has_worked = False
        if batch is None:
            return False
        for person in batch.people:
            try:
                has_worked |= await self._run_batch(sequence_key, only=person.id)
            except NotDurable:
                raise
            except Exception as error:
                log.exception("sequence_step_failed", sequence=sequence_key, enrolment=person.id)
                await self._fail(batch, person, f"The step could not be run: {type(error).__name__}.")
                has_worked = True
        return has_worked

    async def _fail(self, batch: Batch, person: Enrolled, reason: str) -> None:
        e = sequence_enrolments.c
        failed = update(sequence_enrolments).where(e.id == person.id, e.ended_at.is_(None))
        async with self._database.write() as tx:
            await tx.execute(failed.values(failure=reason, due_at=None))
            batch.fail(person, reason)
            if batch.events:
                await append_events(tx, batch.events[-1:])

    async def _load(self, tx: Transaction, sequence_key: int, now: Instant, only: int) -> Batch | None:
        found = await tx.run(LOCK_RUNNING_SEQUENCE, sequence_key=sequence_key)
        if not found:
            return None
        sequence = found[0]
        program = (await self._programs.load(tx, sequence.id, sequence.version)).program
        due = {"sequence_key": sequence.id, "now": now}
        wanted = await wanted_types(tx, sequence.tenant_id)
        contacts = await tx.run(LOCK_DUE_CONTACTS, **due, limit=BATCH_SIZE, only=only)
        if not contacts:
            return None
        rows = await tx.run(LOCK_DUE_ENROLMENTS, contacts=[(row.id,) for row in contacts], **due)
        people = [
            Enrolled(
                row.id,
                row.run,
                row.contact_key,
                row.contact_id,
                row.email,
                row.name,
                row.locale,
                row.attributes,
                f"{sequence.sequence_id}:{row.contact_id}",
                row.timezone or sequence.timezone or self._zone,
                START if row.node is None else program.by_id[row.node],
                row.entered_at,
                row.visit,
                row.waits_since,
                bool(row.skips_email),
                received_steps(row.received_steps),
                now,
                row.event,
                row.item,
            )
            for row in rows
        ]
        return Batch(sequence, program, now, people, wanted=wanted) if people else None

    async def _run_rounds(self, tx: Transaction, batch: Batch) -> None:
        """Advance everyone by one node per round, because a change in one round is a fact in the next."""
        await _load_last_emails(tx, batch)
        active = batch.people
        for _ in range(MAX_ROUNDS):
            facts = await load_facts(tx, batch.sequence.tenant_id, batch.program, active, batch.now)
            decided = [
                (person, advance(batch.program, person, facts[person.contact_key], batch.now)) for person in active
            ]
            await self._send(tx, batch, [person for person, each in decided if each.action is StepAction.SEND])
            await _post(tx, batch, [person for person, each in decided if each.action is StepAction.POST])
            changed = [person for person, each in decided if each.action is StepAction.CHANGE]
            outcomes = await apply_changes(tx, batch.sequence, batch.program, changed, batch.now)
            for person, each in decided:
                _apply(batch, person, each, outcomes.get(person.id, each.outcome))
            if changed:
                await _mark_ended(tx, changed)
            active = [
                person
                for person, each in decided
                if each.action not in (StepAction.WAIT, StepAction.END)
                and person.due_at is not None
                and not person.end_reason
            ]
            if not active:
                return

    async def _send(self, tx: Transaction, batch: Batch, people: Sequence[Enrolled]) -> None:
        """Write the emails of a round. A person whose email cannot be written stays at the step, with the reason."""
        nodes = batch.program.nodes
        received = {person.id for person in people if nodes[person.node].id in person.received}
        wanted = [person for person in people if not person.skips_email and person.id not in received]
        written = await self._emails.write(tx, batch.sequence, batch.program, wanted, batch.now) if wanted else {}
        accepted = [message for message in written.values() if isinstance(message, NewMessage)]
        results = iter(await accept(tx, accepted, batch.now))
        for person in people:
            message = written.get(person.id)
            if isinstance(message, StepFailed):
                batch.fail(person, message.reason)
            elif message is None:
                person.skips_email = False
                batch.record(person, ALREADY_RECEIVED if person.id in received else "skipped")
            elif (result := next(results)).is_replay or result.is_conflict:
                # A message and its step are stored together, so this one belongs to another run.
                batch.fail(person, "Another message has the key of this email. Skip the email.")
            else:
                batch.accepted += 1
                batch.record(person, "sent", result.outbox_id)


async def _load_last_emails(tx: Transaction, batch: Batch) -> None:
    """For people whose wait seems to be over, read when their latest email left."""
    waiting = [person.id for person in batch.people if person.waits_since is not None]
    emails = await load_last_emails(tx, waiting)
    for person in batch.people:
        if (email := emails.get(person.id)) is not None:
            person.email_left_at = email.leaves_at(batch.now)


def _apply(batch: Batch, person: Enrolled, decision: Decision, outcome: str) -> None:
    """Move a person according to a decision, and record the step. Emails were recorded with their messages."""
    match decision.action:
        case StepAction.END:
            person.end_reason = outcome
            return
        case StepAction.WAIT:
            if person.waits_since is None:
                person.waits_since = batch.now
            person.due_at = decision.until
            # An email after this wait is not overdue. A wait for a time of day or for consent keeps an email overdue.
            if batch.program.nodes[person.node].kind not in (StepKind.WAIT_UNTIL, StepKind.SEND):
                person.skips_email = False
            return
        case StepAction.CHOOSE | StepAction.CHANGE:
            batch.record(person, outcome)
        case StepAction.NOTIFY:
            _notify(batch, person)
            if person.failure is not None:
                return
        case StepAction.SEND | StepAction.POST:
            if person.failure is not None:
                return
        case StepAction.MOVE:
            if person.node == START:
                batch.publish(EventType.SEQUENCE_ENTERED, person)
    person.node, person.waits_since = decision.next, None


def _notify(batch: Batch, person: Enrolled) -> None:
    """Write the email to the team. A person for whom it cannot be written stays at the step, with the reason."""
    if batch.skips_step(person):
        person.skips_email = False
        batch.record(person, "skipped")
        return
    message = notification(batch.sequence, batch.program.nodes[person.node], person, batch.now)
    if isinstance(message, StepFailed):
        batch.fail(person, message.reason)
        return
    batch.messages.append(message)
    batch.record(person, "notified", message.outbox_id)


async def _post(tx: Transaction, batch: Batch, people: Sequence[Enrolled]) -> None:
    """Request the webhooks of a round. A person whose webhook does not exist stays at the step, with the reason."""
    wanted = [person for person in people if not batch.skips_step(person)]
    requests = [_request(batch, person) for person in wanted]
    tenant_id, type_ = batch.sequence.tenant_id, EventType.SEQUENCE_WEBHOOK
    results = await request_deliveries(tx, tenant_id, type_, requests, batch.now) if requests else []
    made = dict(zip([person.id for person in wanted], results, strict=True))
    for person in people:
        match made.get(person.id):
            case None:
                person.skips_email = False
                batch.record(person, "skipped")
            case NoReceiver() as reason:
                batch.fail(person, _NO_RECEIVER[reason])
            case delivery_id:
                batch.record(person, "posted", delivery_id)


def _request(batch: Batch, person: Enrolled) -> DirectRequest:
    body = batch.program.nodes[person.node].body
    return DirectRequest(body.to, {**batch.about(person), **person.start, "data": body.data})


_NO_RECEIVER: Final = {
    NoReceiver.UNKNOWN: "The webhook of the step does not exist. Change the step or publish another one, then retry.",
    NoReceiver.OFF: "The webhook of the step is turned off. Turn it on, then retry the step.",
}


async def _mark_ended(tx: Transaction, people: Sequence[Enrolled]) -> None:
    """Stop those whose change was an unsubscribe that ended this enrolment."""
    ended = {row.id for row in await tx.run(ENDED_AMONG, enrolments=[(person.id,) for person in people])}
    for person in people:
        if person.id in ended:
            person.due_at = None


async def _store(tx: Transaction, batch: Batch) -> None:
    await accept(tx, batch.messages, batch.now)
    if batch.steps:
        await tx.count(INSERT_STEPS, steps=batch.steps)
    if batch.events:
        await append_events(tx, batch.events)
    nodes = batch.program.nodes
    moved = [
        (
            person.id,
            None if person.node == START else nodes[person.node].id,
            person.visit,
            person.waits_since,
            person.due_at,
            int(person.skips_email),
            person.failure,
        )
        for person in batch.people
    ]
    await tx.count(MOVE_ENROLMENTS, moved=moved)
    ended = [(person.id, str(person.end_reason)) for person in batch.people if person.end_reason is not None]
    await end_enrolments(tx, ended, batch.now)
