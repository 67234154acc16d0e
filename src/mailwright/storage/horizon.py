"""The horizon of a table: the largest key up to which all rows are visible, so that a cursor skips no row.

Keys are assigned before a transaction commits. On PostgreSQL a row with a smaller key may therefore appear after one
with a larger key was read. On SQLite, which has one writer, this cannot happen. Code that reads rows in key order waits
until all transactions that were writing to the table when it saw the newest key have ended.
"""

from typing import Any

from sqlalchemy import ClauseElement, Executable, Table, Text, func, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Database, Transaction


@dataclass(frozen=True, slots=True)
class Horizon:
    newest: int  # The largest visible key.
    writers: frozenset[str]  # The transactions that may have written rows which are not visible yet.

    def reach(self, last: "Horizon | None") -> int:
        """Return the key up to which transactions that begin from now on see all rows. 0 means unknown.

        `last` is an earlier horizon. Its writers must be compared with this one until all of them have ended.
        """
        if not self.writers:
            return self.newest
        return last.newest if last is not None and self.writers.isdisjoint(last.writers) else 0


class HorizonWatch:
    """Follows the horizon of a table for a reader that checks it repeatedly."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._seen: Horizon | None = None
        self._reach = 0

    async def look(self, database: Database) -> int:
        """Return the key up to which transactions that begin from now on see all rows. It never decreases.

        Rows that are being written now are reached by a later call.
        """
        async with database.read() as tx:
            seen = await read_horizon(tx, self._table)
        reach = seen.reach(self._seen)
        if reach or self._seen is None:
            self._seen, self._reach = seen, max(reach, self._reach)
        return self._reach


async def read_horizon(tx: Transaction, table: Table) -> Horizon:
    """Read the horizon. The caller's transaction must not have written to the table, or it would wait for itself."""
    newest = select(func.coalesce(func.max(table.c.id), 0)).scalar_subquery()
    found: Any = (await tx.execute(select(newest, _writers(table.name))))[0]
    return Horizon(found[0], frozenset(found[1].split()))


class _writers(FunctionElement[str]):  # noqa: N801 - a function of SQL
    """The transactions that write to a table, separated by spaces."""

    type = Text()
    inherit_cache = True


@compiles(_writers, "postgresql")
def _writers_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    """Return the holders of locks that an insert takes before it takes a key, and keeps until it is visible.

    PostgreSQL reads locks after the snapshot in which `newest` was found. So each transaction that took a smaller key
    is visible to the next snapshot, or is listed here.
    """
    table = compiler.process(element.clauses, **options)
    return f"""(
        SELECT COALESCE(string_agg(virtualtransaction, ' '), '') FROM pg_locks
        WHERE locktype = 'relation' AND relation = CAST(CAST({table} AS text) AS regclass) AND mode = 'RowExclusiveLock'
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )"""  # noqa: S608 - the name of a table


@compiles(_writers, "sqlite")
def _writers_sqlite(_element: object, _compiler: object, **_options: object) -> str:
    return "''"


async def block_writers(tx: Transaction, table: Table) -> None:
    """Wait for the transactions that write to a table, and let no other one write to it until this one ends.

    Afterwards this transaction sees all rows. Call it last, because others wait.
    """
    await tx.execute(_LockTable(table))


class _LockTable(Executable, ClauseElement):
    inherit_cache = False

    def __init__(self, table: Table) -> None:
        self.table = table


@compiles(_LockTable, "postgresql")
def _lock_postgresql(element: _LockTable, _compiler: object, **_options: object) -> str:
    return f"LOCK TABLE {element.table.name} IN SHARE ROW EXCLUSIVE MODE"


@compiles(_LockTable, "sqlite")
def _lock_sqlite(_element: object, _compiler: object, **_options: object) -> str:
    return "SELECT 1"
