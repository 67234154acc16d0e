"""Read the stored bytes of emails that applications wrote themselves."""

from collections.abc import Collection

from sqlalchemy import select

from mailwright.storage.database import Transaction
from mailwright.storage.tables import raw_contents


async def load_raw_contents(tx: Transaction, tenant_id: int, digests: Collection[str]) -> dict[str, bytes]:
    """Return the stored contents by digest. Erased contents are left out."""
    c = raw_contents.c
    query = select(c.digest, c.content).where(c.tenant_id == tenant_id, c.digest.in_(sorted(digests)))
    return {row.digest: row.content for row in await tx.execute(query)}
