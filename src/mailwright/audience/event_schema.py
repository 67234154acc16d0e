"""The schema of a tenant's contact events: their names, with the properties and types that were seen.

A background task counts every event once, shortly after it was stored, so that events do not wait for each other.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from mailwright.audience.contact_events import ContactEvent, load_after
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.periodic import run_periodically
from mailwright.outbox.installation_values import load_position, move_cursor
from mailwright.storage.database import Database, Transaction
from mailwright.storage.horizon import HorizonWatch
from mailwright.storage.statements import statement
from mailwright.storage.tables import contact_event_names, contact_event_properties, contact_events

COUNT_NAMES: Final = statement(__package__, "count_contact_event_names")
COUNT_PROPERTIES: Final = statement(__package__, "count_contact_event_properties")

# A tenant has at most this many names, and a name this many types of properties. Further ones are stored but not
# listed.
MAX_NAMES: Final = 1_000
MAX_PROPERTIES: Final = 500
BATCH_SIZE: Final = 1_000
LOOK_SECONDS: Final = 2.0
# The value in `installation` with the key of the last counted event.
CURSOR: Final = "contact_events_counted_up_to"

_TYPES: Final[Mapping[type, str]] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class EventProperty:
    """A property of events with one name: how many events had a value of each type."""

    name: str
    types: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EventSchema:
    """Statistics about all events with one name."""

    name: str
    events: int
    first_at: Instant
    last_at: Instant
    properties: tuple[EventProperty, ...]


class EventSchemaCounter:
    def __init__(self, database: Database, batch_size: int = BATCH_SIZE) -> None:
        self._database = database
        self._batch_size = batch_size
        self._horizon = HorizonWatch(contact_events)

    async def run(self) -> None:
        """Count new events until cancelled."""
        await run_periodically("event_schema", self.count_all, seconds=LOOK_SECONDS, raises_unexpected=True)

    async def count_all(self) -> None:
        """Count all events that are not being written now."""
        while await self.count_batch():
            pass

    async def count_batch(self) -> bool:
        """Count one batch of events, and return whether there may be more."""
        reach = await self._horizon.look(self._database)
        async with self._database.read() as tx:
            position = await load_position(tx, CURSOR)
            after = position or 0
            events = await load_after(tx, after, reach, limit=self._batch_size) if reach > after else []
        up_to = events[-1].id if len(events) == self._batch_size else reach
        if up_to > after:
            await self._store(position, up_to, events)
        return len(events) == self._batch_size

    async def _store(self, position: int | None, up_to: int, events: Sequence[ContactEvent]) -> None:
        """Store the counts of a batch, unless another process has moved the cursor meanwhile."""
        try:
            async with self._database.write() as tx:
                if not await move_cursor(tx, CURSOR, position, up_to):
                    return
                await _count(tx, events)
        except IntegrityError:
            return  # Another process stored the first batch at the same time.


async def _count(tx: Transaction, events: Sequence[ContactEvent]) -> None:
    names = Counter([(event.tenant_id, event.name) for event in events])
    types = Counter(
        [
            (event.tenant_id, event.name, property_, _TYPES[type(value)])
            for event in events
            for property_, value in event.properties.items()
        ]
    )
    first = {(event.tenant_id, event.name): event.received_at for event in reversed(events)}
    last = {(event.tenant_id, event.name): event.received_at for event in events}
    if names:
        rows = [(*key, number, first[key], last[key]) for key, number in names.items()]
        await tx.count(COUNT_NAMES, names=rows, most=MAX_NAMES)
    if types:
        typed = [(*kind, number, last[kind[:2]]) for kind, number in types.items()]
        await tx.count(COUNT_PROPERTIES, properties=typed, most=MAX_PROPERTIES)


async def load_schema(database: Database, tenant_id: int) -> list[EventSchema]:
    """Return the names of a tenant's events with their properties, in the order of their names."""
    n, p = contact_event_names.c, contact_event_properties.c
    async with database.read() as tx:
        names = await tx.execute(select(contact_event_names).where(n.tenant_id == tenant_id).order_by(n.name))
        rows = await tx.execute(
            select(contact_event_properties).where(p.tenant_id == tenant_id).order_by(p.name, p.property, p.type)
        )
    found: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows:
        found.setdefault(row.name, {}).setdefault(row.property, {})[row.type] = row.events
    return [
        EventSchema(
            row.name,
            row.events,
            row.first_at,
            row.last_at,
            tuple(EventProperty(name, types) for name, types in found.get(row.name, {}).items()),
        )
        for row in names
    ]
