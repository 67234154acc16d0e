"""Read contact events with a cursor: they start sequences, and end the waits of people who wait for them."""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import and_, select, update

from mailwright.audience.contact_events import ContactEvent, load_after
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.sources.sequences.definition import TriggerKind
from mailwright.sources.sequences.enrol import enrol_contacts
from mailwright.sources.sequences.publish import is_enrolled
from mailwright.sources.sequences.versions import ProgramCache, Published
from mailwright.sources.sequences.watch import LOCK_OPEN_SEQUENCE
from mailwright.storage.database import Database, Transaction
from mailwright.storage.horizon import HorizonWatch
from mailwright.storage.statements import statement
from mailwright.storage.tables import contact_events, sequence_enrolments, sequences

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
            await _start(tx, sequence, published, batch, now)
            await _wake(tx, sequence, published, batch, now)
            after = batch[-1].id if is_full else up_to
            moved = update(sequences).where(sequences.c.id == sequence.id).values(events_after=after)
            await tx.execute(moved)
        return bool(batch)


def _names(published: Published) -> set[str]:
    trigger = published.definition.trigger
    started = {str(trigger.value)} if trigger.kind is TriggerKind.EVENT else set()
    return {*started, *published.program.awaited_events.values()}


async def _start(
    tx: Transaction, sequence: Any, published: Published, batch: Iterable[ContactEvent], now: Instant
) -> None:
    """Enrol contacts who had the event of the trigger. A late event is history that somebody submitted afterwards."""
    trigger = published.definition.trigger
    if trigger.kind is not TriggerKind.EVENT:
        return
    starting = [each for each in batch if each.name == trigger.value and not each.is_late]
    keys = sorted({each.contact_key for each in starting if each.contact_key is not None})
    await enrol_contacts(tx, sequence.id, keys, f"event {trigger.value}", now)


async def _wake(
    tx: Transaction, sequence: Any, published: Published, batch: Iterable[ContactEvent], now: Instant
) -> None:
    """Make the step of everyone due who waits for an event that they had. The step looks for the event itself."""
    for step, name in published.program.awaited_events.items():
        keys = sorted({each.contact_key for each in batch if each.name == name and each.contact_key is not None})
        waiting = and_(is_enrolled(sequence.id), _E.node == step, _E.due_at > now, _E.contact_key.in_(keys))
        if keys:
            await tx.execute(select(_E.id).where(waiting).order_by(_E.contact_key).with_for_update())
            await tx.execute(update(sequence_enrolments).where(waiting).values(due_at=now))
