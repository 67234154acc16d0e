"""Contact events: what contacts do in the tenant's own systems, for example `order.placed`.

An event belongs to an address. If the address becomes a contact later, the contact has the event. An event never
subscribes anybody. Events are stored once: a repeated one is recognised by its ID.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final

import orjson
from sqlalchemy import and_, delete, select

from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.ids import uuid7s
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.accept import BATCH_SIZE, insert_contacts
from mailwright.storage.database import PROMPT_SECONDS, Database, Transaction
from mailwright.storage.group_commit import GroupCommit
from mailwright.storage.horizon import block_writers
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import contact_events, contacts

FIND_CONTACT_EVENTS: Final = statement(__package__, "find_contact_events")
INSERT_CONTACT_EVENTS: Final = statement(__package__, "insert_contact_events")
ERASED_CONTACTS: Final = statement(__package__, "erased_contacts")

# Maximum number of events per commit. A commit must stay short, because other writers wait for it.
MAX_COMMIT_EVENTS: Final = 2_000
# PostgreSQL receives the events of a statement as one JSON value, whose size is limited.
MAX_COMMIT_BYTES: Final = 64 * 1024 * 1024
# The number of times a transaction runs again if another process stored the same events.
MAX_RACES: Final = 10
# An event that arrives this long after it occurred is marked as late.
LATE_AFTER: Final[Instant] = DAY
# Larger than every key.
LATEST: Final = 2**63 - 1

_Key = tuple[int, str]


class EventStatus(StrEnum):
    """The result for a submitted event."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"  # The ID belongs to another event.


@dataclass(slots=True)  # Not declared frozen: one is created for each event, and that takes three times as long.
class NewContactEvent:
    """An event to store. The address is normalized, and the properties are JSON with sorted keys."""

    tenant_id: int
    event_id: str
    email: str
    name: str
    properties: str
    occurred_at: Instant
    is_repeatable: bool = True  # False if the ID was generated for this request
    creates_contact: bool = False

    @property
    def content(self) -> tuple[str, str, str]:
        """The values that two submissions of the same event have in common."""
        return (self.email, self.name, self.properties)


@dataclass(frozen=True, slots=True)
class ContactEvent:
    """A stored event. `contact_key` is None if the address is not a contact."""

    id: int
    tenant_id: int
    event_id: str
    email: str
    contact_key: int | None
    name: str
    properties: Mapping[str, Any]
    occurred_at: Instant
    received_at: Instant

    @property
    def is_late(self) -> bool:
        return self.received_at - self.occurred_at > LATE_AFTER


def encode_properties(properties: Mapping[str, Any]) -> str:
    return orjson.dumps(properties, option=orjson.OPT_SORT_KEYS).decode()


class _Raced(Exception):
    """Another process stored one of the events, or erased one of the contacts, during the transaction."""


class ContactEvents:
    """Stores events of concurrent callers in shared commits."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._group_commit = GroupCommit(
            self._commit,
            after_commit=_nothing,
            max_items=MAX_COMMIT_EVENTS,
            max_bytes=MAX_COMMIT_BYTES,
            size_of=lambda event: len(event.properties) + 500,
        )

    async def accept(self, events: Sequence[NewContactEvent]) -> list[EventStatus]:
        """Store events durably, and return the result of each one, in their order."""
        return await self._group_commit.submit(events) if events else []

    async def close(self) -> None:
        await self._group_commit.close()

    async def _commit(self, events: Sequence[NewContactEvent]) -> list[EventStatus]:
        for _ in range(MAX_RACES):
            with suppress(_Raced):  # The next transaction sees the rows of the other process.
                return await self._database.transact(
                    lambda tx: store(tx, events, self._clock.now()), within=PROMPT_SECONDS
                )
        raise NotDurable


async def _nothing() -> None:
    """Do nothing: readers poll for new events."""


async def store(tx: Runner, events: Sequence[NewContactEvent], now: Instant) -> list[EventStatus]:
    """Store events inside the caller's transaction."""
    known = await _find_known(tx, events)
    fresh: dict[_Key, NewContactEvent] = {}
    statuses: list[EventStatus] = []
    for event in events:
        key = (event.tenant_id, event.event_id)
        content = known.get(key)
        if content is None:
            known[key], fresh[key] = event.content, event
            statuses.append(EventStatus.ACCEPTED)
        else:
            statuses.append(EventStatus.DUPLICATE if content == event.content else EventStatus.CONFLICT)
    if fresh:
        await _insert(tx, list(fresh.values()), now)
    return statuses


async def _find_known(tx: Runner, events: Sequence[NewContactEvent]) -> dict[_Key, tuple[str, str, str]]:
    wanted = [(event.tenant_id, event.event_id) for event in events if event.is_repeatable]
    known: dict[_Key, tuple[str, str, str]] = {}
    for start in range(0, len(wanted), BATCH_SIZE):
        for row in await tx.run(FIND_CONTACT_EVENTS, wanted=wanted[start : start + BATCH_SIZE]):
            known[row.tenant_id, row.event_id] = (row.email, row.name, row.properties)
    return known


async def _insert(tx: Runner, events: Sequence[NewContactEvent], now: Instant) -> None:
    """Insert events. Events of an erased address are dropped, and the response does not reveal this."""
    await _create_contacts(tx, events, now)
    inserted = 0
    rows = [
        (one.tenant_id, one.event_id, one.email, one.name, one.properties, one.occurred_at, position)
        for position, one in enumerate(events)
    ]
    for start in range(0, len(rows), BATCH_SIZE):
        inserted += await tx.count(INSERT_CONTACT_EVENTS, events=rows[start : start + BATCH_SIZE], now=now)
    if inserted < len(events):
        erased = await _find_erased(tx, events)
        if inserted != sum((event.tenant_id, event.email) not in erased for event in events):
            raise _Raced


async def _create_contacts(tx: Runner, events: Sequence[NewContactEvent], now: Instant) -> None:
    wanted = {(event.tenant_id, event.email) for event in events if event.creates_contact}
    if wanted:
        wanted -= await _find_erased(tx, [event for event in events if event.creates_contact])
    if wanted:
        ids = uuid7s(now, len(wanted))
        rows = [
            {"contact_id": contact_id, "tenant_id": tenant_id, "email": email, "name": None}
            for contact_id, (tenant_id, email) in zip(ids, sorted(wanted), strict=True)
        ]
        await insert_contacts(tx, rows, now)


async def _find_erased(tx: Runner, events: Sequence[NewContactEvent]) -> set[_Key]:
    addresses = sorted({(event.tenant_id, event.email) for event in events})
    return {(row.tenant_id, row.email) for row in await tx.run(ERASED_CONTACTS, contacts=addresses)}


async def is_erased(database: Database, tenant_id: int, email: str) -> bool:
    """Return whether an address was erased and is not a contact again."""
    async with database.read() as tx:
        return bool(await tx.run(ERASED_CONTACTS, contacts=[(tenant_id, email)]))


async def load_after(
    tx: Transaction,
    after: int,
    up_to: int,
    *,
    limit: int,
    tenant_id: int | None = None,
    names: Collection[str] | None = None,
) -> list[ContactEvent]:
    """Return events in the order of their keys, for a reader with a cursor.

    Pass the result of `HorizonWatch(contact_events).look(database)` as `up_to`, taken before this transaction began,
    and nothing is skipped. A full batch ends at the key of its last event; otherwise everything up to `up_to` was read.
    """
    conditions = [contact_events.c.id > after, contact_events.c.id <= up_to]
    if tenant_id is not None:
        conditions.append(contact_events.c.tenant_id == tenant_id)
    if names is not None:
        conditions.append(contact_events.c.name.in_(sorted(names)))
    rows = await tx.execute(_query().where(*conditions).order_by(contact_events.c.id).limit(limit))
    return [_event(row) for row in rows]


async def list_latest(
    database: Database,
    tenant_id: int,
    *,
    limit: int,
    before: int = LATEST,
    email: str | None = None,
    name: str | None = None,
) -> list[ContactEvent]:
    """Return a page of a tenant's events, latest first. For the next page, pass the last key of this one."""
    e = contact_events.c
    conditions = [e.tenant_id == tenant_id]
    if email is not None:
        conditions.append(e.email == email)
    if name is not None:
        conditions.append(e.name == name)
    async with database.read() as tx:
        if before != LATEST:
            last = select(e.received_at).where(e.id == before).scalar_subquery()
            conditions.append((e.received_at < last) | and_(e.received_at == last, e.id < before))
        rows = await tx.execute(_query().where(*conditions).order_by(e.received_at.desc(), e.id.desc()).limit(limit))
    return [_event(row) for row in rows]


def _query() -> Any:
    e = contact_events.c
    columns = (e.id, e.tenant_id, e.event_id, e.email, e.name, e.properties, e.occurred_at, e.received_at)
    same_address = and_(contacts.c.tenant_id == e.tenant_id, contacts.c.email == e.email)
    return select(*columns, contacts.c.id.label("contact_key")).join_from(
        contact_events, contacts, same_address, isouter=True
    )


def _event(row: Any) -> ContactEvent:
    return ContactEvent(**{**row._mapping, "properties": orjson.loads(row.properties)})


async def has_events(tx: Transaction, tenant_id: int, email: str) -> bool:
    mine = (contact_events.c.tenant_id == tenant_id, contact_events.c.email == email)
    return bool(await tx.execute(select(contact_events.c.id).where(*mine).limit(1)))


async def erase_events(tx: Transaction, tenant_id: int, email: str) -> None:
    """Delete the events of an address, including those that other processes are storing now."""
    await block_writers(tx, contact_events)
    mine = (contact_events.c.tenant_id == tenant_id, contact_events.c.email == email)
    await tx.execute(delete(contact_events).where(*mine))
