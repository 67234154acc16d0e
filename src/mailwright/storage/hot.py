"""The short way to the driver, for the few statements that run for every message.

SQLAlchemy and a thread hop for each statement cost more than SQLite itself takes for the work. Here a whole
transaction is one hop to one thread (SQLite), or prepared statements on a bare connection (`hot_postgresql.py`). What
runs inside is the same on both: on SQLite its awaits never wait, so it can be driven to its end in the thread.
"""

import asyncio
import sqlite3
from collections import namedtuple
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson

from mailwright.storage.statements import RowsParameter, Statement

T = TypeVar("T")
# May be run again from its beginning, where its transaction was undone.
Work = Callable[["Runner"], Coroutine[Any, Any, T]]


class Runner(Protocol):
    """Runs the statements of files inside a transaction, whichever way it was begun."""

    async def run(self, statement: Statement, **parameters: Any) -> Sequence[Any]: ...

    async def count(self, statement: Statement, **parameters: Any) -> int:
        """For a statement that answers with no rows: how many it changed."""
        ...


# So many rows are parameters of their statement; more go through a temporary table, in portions. A statement is
# prepared anew for each number of rows, and the connection keeps the last five hundred.
MOST_VALUES = 256


ErrorTypes = tuple[type[Exception], ...]


class HotPath(Protocol):
    """The short way of one engine, and how its driver tells that something went wrong."""

    # Of our own statements: a mistake, or a taken key.
    mistakes: ErrorTypes
    # Of a database that is out of reach, unless it is a mistake.
    failures: ErrorTypes

    async def transact(self, work: Work[T]) -> T: ...

    async def close(self) -> None: ...


class _Query(NamedTuple):
    text: str
    row: Any


class SqliteHotPath:
    """One connection in one thread: SQLite has one writer, so one is enough."""

    mistakes: ErrorTypes = (sqlite3.IntegrityError, sqlite3.ProgrammingError)
    failures: ErrorTypes = (sqlite3.Error,)

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._tables: set[str] = set()  # temporary tables that the connection has
        self._queries: dict[str, _Query] = {}  # by their text
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")

    async def transact(self, work: Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, work)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    def _transact(self, work: Work[T]) -> T:
        if self._connection is None:
            self._connection = self._connect()
            self._tables.clear()
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = _drive(work(_SqliteRunner(connection, self._tables, self._queries)))
            connection.execute("COMMIT")
        except BaseException:
            self._tables.clear()  # those that this transaction made are gone with it
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _SqliteRunner:
    """Few and large steps: between any two, the interpreter may be given to another thread for milliseconds."""

    __slots__ = ("_connection", "_queries", "_tables")

    def __init__(self, connection: sqlite3.Connection, tables: set[str], queries: dict[str, _Query]) -> None:
        self._connection = connection
        self._tables = tables
        self._queries = queries

    async def run(self, statement: Statement, **parameters: Any) -> Sequence[Any]:
        text, values = self._bound(statement, parameters)
        if not statement.is_query:
            return _named(self._connection.execute(text, values))
        query = self._queries.get(text) or self._prepare(text, values)
        [(found,)] = self._connection.execute(query.text, values)
        return [query.row._make(row) for row in orjson.loads(found)]

    async def count(self, statement: Statement, **parameters: Any) -> int:
        text, values = self._bound(statement, parameters)
        before = self._connection.total_changes  # the cursor's own count leaves out what begins with WITH
        self._connection.execute(text, values)
        return self._connection.total_changes - before

    def _bound(self, statement: Statement, parameters: dict[str, Any]) -> tuple[str, list[Any]]:
        given = statement.given
        rows = parameters[given.name] if given else ()
        if given is not None and 0 < len(rows) <= MOST_VALUES:
            text, names = statement.with_values(len(rows))
            return text, [*[parameters[name] for name in names], *chain.from_iterable(given.values(rows))]
        if given is not None:
            self._fill(given, rows)
        text, names = statement.with_table()
        return text, [parameters[name] for name in names]

    def _fill(self, given: RowsParameter, rows: Sequence[Any]) -> None:
        if given.table not in self._tables:
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS {given.table} ({', '.join(given.columns)})")
            self._tables.add(given.table)
        self._connection.execute(f"DELETE FROM {given.table}")  # noqa: S608 - a name of ours
        values = iter(given.values(rows))
        for size in _portions(len(rows)):
            self._connection.execute(given.insert(size), list(chain.from_iterable(islice(values, size))))

    def _prepare(self, text: str, values: list[Any]) -> _Query:
        """A query's answer comes as one JSON text: one step for all rows, read faster than rows would be."""
        description = self._connection.execute(f"SELECT * FROM ({text}) LIMIT 0", values).description  # noqa: S608
        columns = [column[0] for column in description]
        answer = f"SELECT json_group_array(json_array({', '.join(columns)})) FROM ({text})"  # noqa: S608
        query = self._queries[text] = _Query(answer, row_class_of(columns))
        return query


def _named(cursor: sqlite3.Cursor) -> Sequence[Any]:
    """The rows that a change answers with; there are few of them, or it would be counted instead."""
    rows = cursor.fetchall()
    if not rows:
        return rows
    row_class = row_class_of([column[0] for column in cursor.description])
    return [row_class._make(row) for row in rows]


def row_class_of(columns: list[str]) -> Any:
    """Columns by name, as rows have them everywhere else."""
    return namedtuple("Row", columns, rename=True)


# Sizes of the statements that fill tables: few different ones, so that each stays prepared.
_PORTIONS = (128, 64, 32, 16, 8, 4, 2, 1)


def _portions(count: int) -> Iterator[int]:
    """So many rows, in as few statements as the sizes allow: 30 are 16 + 8 + 4 + 2."""
    for size in _PORTIONS:
        while count >= size:
            yield size
            count -= size


def _drive(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits. One that does has no place in a transaction on the one writer."""
    try:
        work.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    work.close()
    raise RuntimeError("a transaction on SQLite must not wait for anything but its own statements")
