"""Contacts: the people whom a tenant writes to, found by address or by their own id."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, select, update

from mailwright.domain import address
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts


@dataclass(frozen=True, slots=True)
class Contact:
    contact_id: str
    email: str
    name: str | None
    status: str
    created_at: Instant
    deleted_at: Instant | None

    @property
    def is_deleted(self) -> bool:
        return self.deleted_at is not None


async def by_email(database: Database, tenant_id: int, email: str) -> Contact:
    """Any spelling of an address finds the contact; one that is no address finds nobody."""
    try:
        return await _find(database, tenant_id, contacts.c.email == address.normal(email))
    except address.InvalidAddress as error:
        raise NotFound from error


async def by_id(database: Database, tenant_id: int, contact_id: str) -> Contact:
    return await _find(database, tenant_id, contacts.c.contact_id == contact_id)


async def delete(database: Database, clock: Clock, tenant_id: int, contact_id: str) -> Contact:
    """The row stays, so that mail asked for under this id is refused and not sent to whoever comes next."""
    mine = (contacts.c.tenant_id == tenant_id, contacts.c.contact_id == contact_id, contacts.c.deleted_at.is_(None))
    async with database.write() as tx:
        await tx.execute(update(contacts).where(*mine).values(deleted_at=clock.now()))
    return await by_id(database, tenant_id, contact_id)


async def _find(database: Database, tenant_id: int, condition: ColumnElement[bool]) -> Contact:
    columns = [contacts.c[name] for name in Contact.__slots__]
    async with database.read() as tx:
        rows: Any = await tx.execute(select(*columns).where(contacts.c.tenant_id == tenant_id, condition))
    if not rows:
        raise NotFound
    return Contact(**rows[0]._mapping)
