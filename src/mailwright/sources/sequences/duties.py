"""The duties of a worker for sequences. An installation without sequences skips them."""

from typing import Final

from sqlalchemy import select

from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Clock
from mailwright.sources.sequences.events import SequenceEvents
from mailwright.sources.sequences.runner import SequenceRunner
from mailwright.sources.sequences.watch import SequenceWatch
from mailwright.storage.database import Database
from mailwright.storage.tables import sequences

_ANY: Final = select(sequences.c.id).limit(1)


class SequenceDuties:
    def __init__(self, database: Database, clock: Clock, templates: TemplateStore, zone: str) -> None:
        self._database = database
        self._watch = SequenceWatch(database, clock, zone)
        self._events = SequenceEvents(database, clock)
        self._runner = SequenceRunner(database, clock, templates, zone)

    async def tick(self) -> bool:
        """Compare conditions, read events and run due steps. Return true if there may be more to do."""
        async with self._database.read() as tx:
            if not await tx.execute(_ANY):
                return False
        return any([await duty.tick() for duty in (self._watch, self._events, self._runner)])
