"""Change the rows of a large table in batches by key. The caller records the progress in the same transaction."""

from typing import Final

from sqlalchemy import BigInteger, ColumnClause, Connection, column, func, select, table, text

from mailwright.storage.revision import BatchedChange
from mailwright.storage.statements import Dialect

# Small enough that nobody waits long for a row, or on SQLite for the lock of the file.
BATCH_ROWS: Final = 2_000


def change_batch(connection: Connection, dialect: Dialect, change: BatchedChange, after: int) -> int | None:
    """Change the next rows. Return the key up to which rows are changed, or None if no row is left."""
    key: ColumnClause[int] = column(change.key, BigInteger)
    batch = select(key).select_from(table(change.table)).where(key > after).order_by(key).limit(BATCH_ROWS).subquery()
    until: int | None = connection.execute(select(func.max(batch.c[change.key]))).scalar_one()
    if until is not None:
        connection.execute(text(change.text(dialect)), {"after": after, "until": until})
    return until
