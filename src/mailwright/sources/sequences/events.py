"""Read contact events with a cursor: they start sequences, end the waits of people who wait for them, and end runs."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import select, update

from mailwright.audience.contact_events import ContactEvent, load_after
from mailwright.audience.enrolments import end_enrolments
from mailwright.audience.filters import EventActivity
from mailwright.audience.value_matching import properties_match
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.sources.sequences.definition import TriggerKind
from mailwright.sources.sequences.enrol import enrol_contacts
from mailwright.sources.sequences.finished import load_latest_runs, split_runs, stop_finished
from mailwright.sources.sequences.versions import ProgramCache, Published
from mailwright.sources.sequences.watch import LOCK_OPEN_SEQUENCE
from mailwright.storage.database import Database, Transaction
from mailwright.storage.horizon import HorizonWatch
from mailwright.storage.statements import statement
from mailwright.storage.tables import contact_events, contacts, sequence_enrolments, sequences

LOCK_WAITING_ENROLMENTS = statement(__package__, "lock_waiting_enrolments")
SEQUENCES_WITH_EVENTS = statement(__package__, "sequences_with_events")

BATCH_SIZE: Final = 1_000

_E = sequence_enrolments.c

log = logger(__name__)


class SequenceEvents:
    """Passes each contact event to each sequence once: the cursor moves in the transaction of its effects."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._horizon = HorizonWatch(contact_events)
        self._programs = ProgramCache()

    async def tick(self) -> bool:
        """Read one batch of events for each sequence. Return true if there may be more to do."""
        up_to = await self._horizon.look(self._database)
        async with self._database.read() as tx:
            due = await tx.run(SEQUENCES_WITH_EVENTS, up_to=up_to)
        has_worked = False
        for row in due:
            try:
                has_worked |= await self._read(row.id, up_to)
            except NotDurable:
                raise
            except Exception:  # A sequence that cannot read events must not block the others.
                log.exception("sequence_events_stuck", sequence=row.id)
        return has_worked

    async def _read(self, sequence_key: int, up_to: int) -> bool:
        now = self._clock.now()
        async with self._database.write() as tx:
            found = await tx.run(LOCK_OPEN_SEQUENCE, sequence_key=sequence_key)
            if not found or found[0].events_after is None or found[0].events_after >= up_to:
                return False
            sequence = found[0]
            published = await self._programs.load(tx, sequence.id, sequence.version)
            batch = await load_after(
                tx,
                sequence.events_after,
                up_to,
                limit=BATCH_SIZE,
                tenant_id=sequence.tenant_id,
                names=_names(published),
            )
            is_full = len(batch) == BATCH_SIZE
            await _end(tx, sequence, published, batch, now)
            await _start(tx, sequence, published, batch, now)
            await _wake(tx, sequence, published, batch, now)
            after = batch[-1].id if is_full else up_to
            moved = update(sequences).where(sequences.c.id == sequence.id).values(events_after=after)
            await tx.execute(moved)
        return bool(batch)


def _names(published: Published) -> set[str]:
    trigger = published.definition.trigger
    started = {str(trigger.value)} if trigger.kind is TriggerKind.EVENT else set()
    awaited = {event.name for event in published.program.awaited_events.values()}
    return {*started, *awaited, *(event.name for event, _ in published.program.stop_events)}


async def _start(
    tx: Transaction, sequence: Any, published: Published, batch: Iterable[ContactEvent], now: Instant
) -> None:
    """Enrol contacts who had the event of the trigger. An event that was submitted late does not count."""
    trigger = published.definition.trigger
    if trigger.kind is not TriggerKind.EVENT:
        return
    wanted = EventActivity.model_construct(name=trigger.body.event, where=trigger.body.where)
    on_time = [each for each in batch if not each.is_late]
    starting = {key: event.id for key, event in _by_contact(wanted, on_time).items()}
    await enrol_contacts(tx, sequence.id, sorted(starting), f"event {trigger.value}", now, events=starting)


async def _end(
    tx: Transaction, sequence: Any, published: Published, batch: Sequence[ContactEvent], now: Instant
) -> None:
    """End the runs of people who had the event of an exit or of the goal after they entered.

    A finished run can still reach the goal for a while, and its unsent emails are cancelled after an exit or the goal.
    """
    for wanted, reason in published.program.stop_events:
        happened: dict[int, list[ContactEvent]] = defaultdict(list)
        for each in _matching(wanted, batch):
            happened[each.contact_key or 0].append(each)
        if not happened:
            continue
        # Contacts are locked before enrolments everywhere, in this order.
        c = contacts.c
        locked = select(c.id).where(c.id.in_(sorted(happened))).order_by(c.tenant_id, c.email)
        await tx.execute(locked.with_for_update())
        runs = await load_latest_runs(tx, sequence.id, happened)
        concerned = [row for row in runs if any(_is_after_entry(each, row) for each in happened[row.contact_key])]
        running, finished = split_runs(concerned)
        await end_enrolments(tx, [(row.id, reason.value) for row in running], now)
        await stop_finished(tx, finished, reason, now - published.program.goal_window, now)


def _is_after_entry(event: ContactEvent, enrolment: Any) -> bool:
    """Match events that can end a run: not the event that started it, and not an old event that was submitted later."""
    return event.id > enrolment.events_after and (not event.is_late or event.occurred_at >= enrolment.entered_at)


def _by_contact(wanted: EventActivity, batch: Iterable[ContactEvent]) -> dict[int, ContactEvent]:
    """Return the last matching event of each contact."""
    return {each.contact_key: each for each in _matching(wanted, batch) if each.contact_key is not None}


def _matching(wanted: EventActivity, batch: Iterable[ContactEvent]) -> list[ContactEvent]:
    """Return the matching events of contacts."""
    return [
        each
        for each in batch
        if each.contact_key is not None and each.name == wanted.name and properties_match(wanted.where, each.properties)
    ]


async def _wake(
    tx: Transaction, sequence: Any, published: Published, batch: Iterable[ContactEvent], now: Instant
) -> None:
    """Make the steps of people due who wait for an event that has arrived. The step itself searches for the event."""
    for step, wanted in published.program.awaited_events.items():
        keys = sorted(_by_contact(wanted, batch))
        where = {"sequence_key": sequence.id, "node": step, "now": now}
        waiting = await tx.run(LOCK_WAITING_ENROLMENTS, contacts=[(key,) for key in keys], **where) if keys else ()
        if waiting:
            woken = _E.id.in_([row.id for row in waiting])
            await tx.execute(update(sequence_enrolments).where(woken).values(due_at=now))
