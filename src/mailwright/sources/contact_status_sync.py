"""Sync the status of contacts that bounced, unsubscribed or resubscribed to a table of another program.

There is no queue: a contact is synced if its status differs from the last synced status. So a crash loses nothing, and
two changes in a row are synced once.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, and_, delete, insert, or_, select

from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.sources.recipient_statuses import StatusWrite, SubscriberStatus
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts

BATCH_SIZE: Final = 100
# A contact whose status is refused is skipped for a while, so that it does not block the others.
SKIP_DURATION: Final = 10 * MINUTE

# Writes the status of a contact; returns None if it was refused for this contact only.
Write = Callable[[Any, SubscriberStatus], Awaitable[StatusWrite | None]]


class ContactStatusSync:
    """Syncs the contacts of a tenant. `updates` records the statuses that were written."""

    def __init__(self, database: Database, clock: Clock, tenant_id: int, updates: Table, write: Write) -> None:
        self._database = database
        self._clock = clock
        self._tenant_id = tenant_id
        self._updates = updates
        self._write = write
        self._skipped_until: dict[int, Instant] = {}

    async def tick(self) -> int:
        """Sync a batch and return its size. Raises what `write` raises."""
        now = self._clock.now()
        self._skipped_until = {key: until for key, until in self._skipped_until.items() if until > now}
        synced = 0
        for contact in await self._unsynced():
            if await self._write(contact, _status_of(contact, now)) is None:
                self._skipped_until[contact.id] = now + SKIP_DURATION
                continue
            await self._record(contact)
            synced += 1
        return synced

    async def _unsynced(self) -> list[Any]:
        async with self._database.read() as tx:
            return [row for query in (self._inactive(), self._resubscribed()) for row in await tx.execute(query)]

    def _inactive(self) -> Select[Any]:
        written = self._updates.c
        is_new = or_(
            written.contact_key.is_(None),
            written.status != contacts.c.status,
            written.status_at.is_distinct_from(contacts.c.status_updated_at),
        )
        selected = select(*_columns()).outerjoin(self._updates, written.contact_key == contacts.c.id)
        return self._batch(selected.where(contacts.c.status != "active", is_new))

    def _resubscribed(self) -> Select[Any]:
        """Select contacts that resubscribed after we wrote their unsubscribe."""
        written = self._updates.c
        selected = select(*_columns()).join(self._updates, written.contact_key == contacts.c.id)
        return self._batch(selected.where(contacts.c.status == "active", written.status == "unsubscribed"))

    def _batch(self, selected: Select[Any]) -> Select[Any]:
        mine: ColumnElement[bool] = and_(contacts.c.tenant_id == self._tenant_id, contacts.c.deleted_at.is_(None))
        others = contacts.c.id.not_in(list(self._skipped_until))
        return selected.where(mine, others).order_by(contacts.c.id).limit(BATCH_SIZE)

    async def _record(self, contact: Any) -> None:
        values = {"status": contact.status, "status_at": contact.status_updated_at, "reported_at": self._clock.now()}
        async with self._database.write() as tx:
            await tx.execute(delete(self._updates).where(self._updates.c.contact_key == contact.id))
            await tx.execute(insert(self._updates).values(contact_key=contact.id, **values))


def _columns() -> list[ColumnElement[Any]]:
    names = ("id", "contact_id", "email", "status", "status_updated_at", "bounce_type", "bounce_subtype")
    return [contacts.c[name] for name in names]


def _status_of(contact: Any, now: Instant) -> SubscriberStatus:
    at = contact.status_updated_at or now
    return SubscriberStatus(contact.email, contact.status, at, contact.bounce_type, contact.bounce_subtype)
