"""The IDs that the tenant's own systems use for contacts, for example `user-17`."""

from collections.abc import Collection
from typing import Final

from sqlalchemy import delete, select

from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import contact_external_ids

RECORD_EXTERNAL_IDS: Final = statement(__package__, "record_external_ids")
_C: Final = contact_external_ids.c


async def record_external_id(database: Database, tenant_id: int, external_id: str, email: str) -> None:
    """Record the address of an ID. If another address had the ID before, it loses it."""
    async with database.write() as tx:
        await tx.count(RECORD_EXTERNAL_IDS, ids=[(tenant_id, external_id, email)])


async def find_addresses(database: Database, tenant_id: int, external_ids: Collection[str]) -> dict[str, str]:
    """Return the addresses of the IDs that are known."""
    if not external_ids:
        return {}
    wanted = (_C.tenant_id == tenant_id, _C.external_id.in_(sorted(external_ids)))
    async with database.read() as tx:
        rows = await tx.execute(select(_C.external_id, _C.email).where(*wanted))
    return {row.external_id: row.email for row in rows}


async def list_external_ids(tx: Transaction, tenant_id: int, email: str) -> list[str]:
    mine = (_C.tenant_id == tenant_id, _C.email == email)
    rows = await tx.execute(select(_C.external_id).where(*mine).order_by(_C.external_id))
    return [row.external_id for row in rows]


async def delete_external_ids(tx: Transaction, tenant_id: int, email: str) -> None:
    await tx.execute(delete(contact_external_ids).where(_C.tenant_id == tenant_id, _C.email == email))
