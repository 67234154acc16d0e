"""Read the stored bytes of emails that applications wrote themselves."""

from collections.abc import Collection

from sqlalchemy import select

from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import messages, raw_contents


async def load_raw_contents(tx: Transaction, tenant_id: int, digests: Collection[str]) -> dict[str, bytes]:
    """Return the stored contents by digest. Erased contents are left out."""
    c = raw_contents.c
    query = select(c.digest, c.content).where(c.tenant_id == tenant_id, c.digest.in_(sorted(digests)))
    return {row.digest: row.content for row in await tx.execute(query)}


async def find_raw_content(database: Database, outbox_id: str, *, tenant_id: int) -> bytes | None:
    """Return the stored bytes of a message; None if it has none or they were erased."""
    c, m = raw_contents.c, messages.c
    joined = messages.join(raw_contents, (c.tenant_id == m.tenant_id) & (c.digest == m.content_digest))
    query = select(c.content).select_from(joined).where(m.tenant_id == tenant_id, m.outbox_id == outbox_id)
    async with database.read() as tx:
        rows = await tx.execute(query)
    return next((row.content for row in rows), None)
