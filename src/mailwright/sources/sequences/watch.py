"""Watch for changes that do not come from steps: triggers, exits, goals and the filters that people wait for."""

from typing import Any, Final

from sqlalchemy import ColumnElement, and_, select, update

from mailwright.audience.enrolments import end_enrolments
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.lanes import sequence_lane
from mailwright.ops.logs import logger
from mailwright.outbox.operations import cancel_waiting
from mailwright.sources.sequences import triggers
from mailwright.sources.sequences.definition import StepKind, TriggerKind
from mailwright.sources.sequences.facts import fact_clause
from mailwright.sources.sequences.finished import (
    has_finished,
    has_unsent,
    load_latest_runs,
    split_runs,
    stop_finished,
)
from mailwright.sources.sequences.overdue import cancel_emails
from mailwright.sources.sequences.program import ELIGIBLE, EndReason, Node, Program
from mailwright.sources.sequences.publish import is_enrolled
from mailwright.sources.sequences.versions import ProgramCache
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import contacts, sequence_enrolments, sequences

LOCK_OPEN_SEQUENCE = statement(__package__, "lock_open_sequence")
ARCHIVED_WITH_EMAILS = statement(__package__, "archived_with_emails")
RETRIES_AFTER_END = statement(__package__, "retries_after_end")
SEQUENCES_TO_COMPARE = statement(__package__, "sequences_to_compare")

# How often conditions are compared. An email never follows an exit, because its step checks the exits again.
COMPARE_EVERY: Final[Instant] = MINUTE

_E = sequence_enrolments.c

log = logger(__name__)


class SequenceWatch:
    """Compares the conditions of each sequence once per minute, in one transaction per sequence."""

    def __init__(self, database: Database, clock: Clock, zone: str = "UTC") -> None:
        self._database = database
        self._clock = clock
        self._zone = zone
        self._programs = ProgramCache()
        self._cancelled_at: Instant | None = None

    async def tick(self) -> bool:
        """Compare what is due. Return true if people entered or have something to do."""
        now = self._clock.now()
        async with self._database.read() as tx:
            due = await tx.run(SEQUENCES_TO_COMPARE, before=now - COMPARE_EVERY, now=now)
        has_worked = await self._cancel_archived(now)
        for row in due:
            try:
                has_worked |= await self._compare(row.id)
            except NotDurable:
                raise
            except Exception:  # A sequence that cannot be compared must not block the others.
                log.exception("sequence_not_compared", sequence=row.id)
        return has_worked

    async def _cancel_archived(self, now: Instant) -> bool:
        """Cancel emails of archived sequences that a worker tried to send during the archiving and could not send."""
        if self._cancelled_at is not None and 0 <= now - self._cancelled_at < COMPARE_EVERY:
            return False
        self._cancelled_at = now
        has_cancelled = False
        async with self._database.read() as tx:
            found = await tx.run(ARCHIVED_WITH_EMAILS, first_lane=sequence_lane(0, 0))
        for row in found:
            async with self._database.write() as tx:
                has_cancelled |= bool(await cancel_emails(tx, row.lane, now))
        return has_cancelled

    async def _compare(self, sequence_key: int) -> bool:
        now = self._clock.now()
        async with self._database.write() as tx:
            found = await tx.run(LOCK_OPEN_SEQUENCE, sequence_key=sequence_key)
            if not found:
                return False
            sequence = found[0]
            published = await self._programs.load(tx, sequence.id, sequence.version)
            entered = await self._enrol(tx, sequence, published.definition.trigger, now)
            await _end(tx, sequence, published.program, now)
            lane = sequence_lane(sequence.tenant_id, sequence.id)
            for message in await tx.run(RETRIES_AFTER_END, lane=lane, sequence_key=sequence.id):
                await cancel_waiting(tx, message.message_key, message.tenant_id, message.status, now)
            woken = await _wake(tx, sequence, published.program, now)
            compared = update(sequences).where(sequences.c.id == sequence.id).values(compared_at=now)
            await tx.execute(compared)
        return bool(entered or woken)

    async def _enrol(self, tx: Transaction, sequence: Any, trigger: Any, now: Instant) -> int:
        zone = sequence.timezone or self._zone
        match trigger.kind:
            case TriggerKind.DATE_ATTRIBUTE:
                return await triggers.enrol_by_date(
                    tx, sequence.id, sequence.tenant_id, trigger, last_day=sequence.last_day, now=now, zone=zone
                )
            case TriggerKind.SCHEDULE:
                return await triggers.enrol_by_schedule(tx, sequence, trigger, now=now, zone=zone)
            case TriggerKind.RSS:
                return await triggers.enrol_by_feed(tx, sequence, trigger, now)
            case _:
                return await triggers.enrol_new_members(tx, sequence.id, sequence.tenant_id, trigger, now)


async def _end(tx: Transaction, sequence: Any, program: Program, now: Instant) -> None:
    """End the enrolments of people who reached the goal or an exit, and cancel their unsent messages."""
    for number, reason in program.stops:
        if program.event_of(number) is not None:
            continue  # The reader of events ends these.
        clause = fact_clause(sequence.tenant_id, program, number, now)
        since = now - program.goal_window
        # Includes finished runs: they can still reach the goal for a while, and may have an unsent email.
        people = [is_enrolled(sequence.id), has_unsent(sequence.tenant_id, sequence.id)]
        people += [has_finished(sequence.id, since)] if reason is EndReason.GOAL else []
        for who in people:
            running, finished = split_runs(await _lock_matching(tx, sequence, who, clause))
            await end_enrolments(tx, [(row.id, reason.value) for row in running], now)
            await stop_finished(tx, finished, reason, since, now)


async def _lock_matching(
    tx: Transaction, sequence: Any, who: ColumnElement[bool], clause: ColumnElement[bool]
) -> list[Any]:
    """Return the latest runs of matching contacts.

    Contacts are locked first, in the same order as in all other code.
    """
    c = contacts.c
    chosen = c.id.in_(select(_E.contact_key).where(who))
    # `+ 0` makes SQLite begin with the runs instead of all contacts of the tenant.
    query = select(c.id).where(c.tenant_id + 0 == sequence.tenant_id, chosen, clause)
    matching = [row.id for row in await tx.execute(query.order_by(c.tenant_id, c.email).with_for_update())]
    found: list[Any] = []
    for start in range(0, len(matching), 5_000):
        found += await load_latest_runs(tx, sequence.id, matching[start : start + 5_000])
    return found


async def _wake(tx: Transaction, sequence: Any, program: Program, now: Instant) -> int:
    """Make the steps of people due who wait for a filter or for their consent, and match it now."""
    woken = await _wake_consenting(tx, sequence, program, now)
    for node in program.nodes:
        if node.kind is StepKind.WAIT_FOR and program.event_of(node.conditions[0]) is None:
            woken += await _wake_at(tx, sequence, program, node, now)
    return woken


async def _wake_consenting(tx: Transaction, sequence: Any, program: Program, now: Instant) -> int:
    """Make the emails of people due who waited for their consent and may receive them now."""
    emails = [node.id for node in program.nodes if node.kind is StepKind.SEND]
    waiting = and_(is_enrolled(sequence.id), _E.node.in_(emails), _E.waits_since.is_not(None), _E.due_at > now)
    # `+ 0` makes SQLite begin with the runs instead of all contacts of the tenant.
    person = and_(contacts.c.id == _E.contact_key, contacts.c.tenant_id + 0 == sequence.tenant_id)
    may_get = fact_clause(sequence.tenant_id, program, ELIGIBLE, now)
    matching = select(_E.id).join_from(sequence_enrolments, contacts, person).where(waiting, may_get)
    locked = matching.order_by(_E.contact_key).with_for_update(of=sequence_enrolments)
    keys = [row.id for row in await tx.execute(locked)] if emails else []
    for start in range(0, len(keys), 5_000):
        woken = _E.id.in_(keys[start : start + 5_000])
        await tx.execute(update(sequence_enrolments).where(woken).values(due_at=now))
    return len(keys)


async def _wake_at(tx: Transaction, sequence: Any, program: Program, node: Node, now: Instant) -> int:
    clause = fact_clause(sequence.tenant_id, program, node.conditions[0], now)
    waiting = and_(is_enrolled(sequence.id), _E.node == node.id, _E.due_at > now)
    matching = select(contacts.c.id).where(contacts.c.tenant_id == sequence.tenant_id, clause)
    chosen = select(_E.id).where(waiting, _E.contact_key.in_(matching))
    await tx.execute(chosen.order_by(_E.contact_key).with_for_update())
    rows = await tx.execute(update(sequence_enrolments).where(_E.id.in_(chosen)).values(due_at=now).returning(_E.id))
    return len(rows)
