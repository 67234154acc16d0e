"""Merge rows of `accepted_counts`, which grows by a row with every transaction that accepts messages."""

from collections import Counter
from typing import Final

from sqlalchemy import select

from mailwright.domain.clock import Instant
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import accepted_counts

DELETE_ACCEPTED_COUNTS: Final = statement(__package__, "delete_accepted_counts")
INSERT_ACCEPTED_COUNTS: Final = statement(__package__, "insert_accepted_counts")

# A batch holds the write lock of SQLite for a few milliseconds.
MERGED_ROWS: Final = 5_000


async def merge_accepted_counts(database: Database, now: Instant) -> bool:
    """Replace the oldest rows by their sums per tenant and source. Return False if there are only a few rows."""
    a = accepted_counts.c
    async with database.read() as tx:
        if not await tx.execute(select(a.id).order_by(a.id).offset(MERGED_ROWS - 1).limit(1)):
            return False

    async def work(tx: Runner) -> None:
        sums: Counter[tuple[int, str]] = Counter()
        # Add only the rows that this transaction has deleted, because another process may delete the same rows at the
        # same time.
        for row in await tx.run(DELETE_ACCEPTED_COUNTS, most=MERGED_ROWS):
            sums[row.tenant_id, row.source] += row.accepted
        counts = [
            {"tenant_id": tenant_id, "source": source, "accepted": count} for (tenant_id, source), count in sums.items()
        ]
        if counts:
            await tx.count(INSERT_ACCEPTED_COUNTS, counts=counts, now=now)

    await database.transact(work)
    return True
