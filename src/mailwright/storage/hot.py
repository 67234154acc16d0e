"""The hot path: direct access to the driver, for the few statements that run for every message.

SQLAlchemy and a thread switch per statement take longer than SQLite needs for the statement itself. On the hot path, a
whole transaction runs in one thread (SQLite), or as prepared statements on a bare connection (`hot_postgresql.py`).
Both run the same coroutine. On SQLite its awaits never suspend, so the thread can run it to its end.
"""

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson

from mailwright.storage.statements import RowsParameter, Statement
from mailwright.storage.work_thread import WorkThread
from mailwright.storage.writer_lock import WriterLock

T = TypeVar("T")
# The code of a transaction. It runs again from the beginning if the transaction was rolled back by a deadlock.
Work = Callable[["Runner"], Coroutine[Any, Any, T]]


class Runner(Protocol):
    """Runs statements from files inside a transaction, on the hot path or not."""

    async def run(self, statement: Statement, **parameters: Any) -> Sequence[Any]: ...

    async def count(self, statement: Statement, **parameters: Any) -> int:
        """Run a statement that returns no rows, and return how many rows it changed."""
        ...


class Change(NamedTuple):
    """A statement that changes rows, and the number of rows that it changes unless another transaction has changed them
    first.
    """

    statement: Statement
    parameters: dict[str, Any]
    expected: int


# Up to this many rows are passed as parameters of the statement; more rows go through a temporary table, in batches.
# SQLite prepares one statement per number of rows, and the connection caches the last 512 statements.
MAX_VALUES = 256


# The names of columns that contain JSON end in this suffix; `parsed` returns their value.
JSON_SUFFIX = "_json"

ErrorTypes = tuple[type[Exception], ...]


class HotPath(Protocol):
    """The hot path of one engine, and the errors of its driver."""

    # Errors of our own statements: a mistake or a duplicate key.
    programming_errors: ErrorTypes
    # Errors of the driver if the database is unreachable. Programming errors are excluded.
    outage_errors: ErrorTypes

    async def transact(self, work: Work[T], within: float | None = None) -> T:
        """Run the work in a transaction. `within` is the timeout in seconds for a server that does not respond."""
        ...

    async def apply(self, changes: Sequence[Change]) -> bool:
        """Apply all changes in one transaction.

        If a count differs, apply none and return False: see `Database.apply`.
        """
        ...

    async def close(self) -> None: ...


class _Query(NamedTuple):
    text: str
    row: Any


class SqliteHotPath:
    """One connection in one thread, which is enough because SQLite has one writer."""

    programming_errors: ErrorTypes = (sqlite3.IntegrityError, sqlite3.ProgrammingError)
    outage_errors: ErrorTypes = (sqlite3.Error,)

    def __init__(self, connect: Callable[[], sqlite3.Connection], lock: WriterLock | None = None) -> None:
        self._connect = connect
        self._writer_lock = lock
        self._connection: sqlite3.Connection | None = None
        self._tables: set[str] = set()  # Temporary tables of the connection.
        self._queries: dict[str, _Query] = {}  # By statement text.
        self._thread = WorkThread("sqlite-hot")

    async def transact(self, work: Work[T], _within: float | None = None) -> T:
        # A SQLite file has no server that could stall, and `busy_timeout` limits the wait for other processes.
        return await self._thread.run(partial(self._transact, work))

    async def apply(self, changes: Sequence[Change]) -> bool:
        try:
            await self.transact(partial(_apply, changes))
        except _CountDiffers:
            return False
        return True

    async def close(self) -> None:
        await self._thread.run(self._disconnect)
        self._thread.stop()

    def _transact(self, work: Work[T]) -> T:
        with self._writer_lock.held() if self._writer_lock is not None else nullcontext():
            return self._transact_alone(work)

    def _transact_alone(self, work: Work[T]) -> T:
        if self._connection is None:
            self._connection = self._connect()
            self._tables.clear()
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = _drive(work(_SqliteRunner(connection, self._tables, self._queries)))
            connection.execute("COMMIT")
        except BaseException:
            self._tables.clear()  # The rollback removes the temporary tables that this transaction created.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _CountDiffers(Exception):
    """A statement changed an unexpected number of rows, so its transaction is rolled back."""


async def _apply(changes: Sequence[Change], tx: Runner) -> None:
    for change in changes:
        if await tx.count(change.statement, **change.parameters) != change.expected:
            raise _CountDiffers


class _SqliteRunner:
    """Runs few, large steps: between two steps, another thread may hold the interpreter lock for milliseconds."""

    __slots__ = ("_connection", "_queries", "_tables")

    def __init__(self, connection: sqlite3.Connection, tables: set[str], queries: dict[str, _Query]) -> None:
        self._connection = connection
        self._tables = tables
        self._queries = queries

    async def run(self, statement: Statement, **parameters: Any) -> Sequence[Any]:
        if statement.is_lock:
            return ()
        text, values = self._bound(statement, parameters)
        if not statement.is_query:
            return _named(self._connection.execute(text, values))
        query = self._queries.get(text) or self._prepare(text, values)
        [(found,)] = self._connection.execute(query.text, values)
        return [query.row._make(row) for row in orjson.loads(found)]

    async def count(self, statement: Statement, **parameters: Any) -> int:
        text, values = self._bound(statement, parameters)
        before = self._connection.total_changes  # The cursor's own count ignores statements that begin with WITH.
        self._connection.execute(text, values)
        return self._connection.total_changes - before

    def _bound(self, statement: Statement, parameters: dict[str, Any]) -> tuple[str, list[Any]]:
        rows_parameter = statement.rows_parameter
        rows = parameters[rows_parameter.name] if rows_parameter else ()
        if rows_parameter is not None and 0 < len(rows) <= MAX_VALUES:
            text, names = statement.with_values(len(rows))
            return text, [*[parameters[name] for name in names], *chain.from_iterable(rows_parameter.values(rows))]
        if rows_parameter is not None:
            self._fill(rows_parameter, rows)
        text, names = statement.with_table()
        return text, [parameters[name] for name in names]

    def _fill(self, rows_parameter: RowsParameter, rows: Sequence[Any]) -> None:
        if rows_parameter.table not in self._tables:
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {rows_parameter.table} ({', '.join(rows_parameter.columns)})"
            )
            self._tables.add(rows_parameter.table)
        self._connection.execute(f"DELETE FROM {rows_parameter.table}")  # noqa: S608 - a table name of ours
        values = iter(rows_parameter.values(rows))
        for size in _batch_sizes(len(rows)):
            self._connection.execute(rows_parameter.insert(size), list(chain.from_iterable(islice(values, size))))

    def _prepare(self, text: str, values: list[Any]) -> _Query:
        """Wrap a query so that it returns all rows as one JSON text, which is faster than fetching row by row."""
        description = self._connection.execute(f"SELECT * FROM ({text}) LIMIT 0", values).description  # noqa: S608
        columns = [column[0] for column in description]
        # JSON is embedded as it is, which takes half the time of writing it as a text and parsing it twice.
        picked = [f"json({column})" if column.endswith(JSON_SUFFIX) else column for column in columns]
        wrapped = f"SELECT json_group_array(json_array({', '.join(picked)})) FROM ({text})"  # noqa: S608
        query = self._queries[text] = _Query(wrapped, row_class_of(columns))
        return query


def parsed(value: Any) -> Any:
    """Return the value of a column of JSON. A query on SQLite's hot path has already parsed it."""
    return orjson.loads(value) if isinstance(value, str) else value


def _named(cursor: sqlite3.Cursor) -> Sequence[Any]:
    """Return the rows of a RETURNING clause. There are only a few, because large changes use `count` instead."""
    rows = cursor.fetchall()
    if not rows:
        return rows
    row_class = row_class_of([column[0] for column in cursor.description])
    return [row_class._make(row) for row in rows]


def row_class_of(columns: list[str]) -> Any:
    """Create a row class with the columns as attributes, like SQLAlchemy's rows."""
    return namedtuple("Row", columns, rename=True)


# Rows per INSERT into a temporary table. There are few sizes, so that all these statements stay prepared.
_BATCH_SIZES = (128, 64, 32, 16, 8, 4, 2, 1)


def _batch_sizes(count: int) -> Iterator[int]:
    """Split a number of rows into as few statements as possible: 30 is 16 + 8 + 4 + 2."""
    for size in _BATCH_SIZES:
        while count >= size:
            yield size
            count -= size


def _drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends. Waiting in a transaction would block every other write."""
    try:
        work.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    work.close()
    raise RuntimeError("A transaction on SQLite must not await anything but its own statements.")
