"""Load SQL statements from files. Each file holds one statement, written once for both engines.

Five constructs hide the differences between the engines:

- `rows(:name: column type, …) AS alias` passes a list of rows as a table. A claim of 500 messages is then one statement
  with one parameter. A column of the type `bytea` takes bytes.
- `for update` locks the selected rows on PostgreSQL and waits for rows that another transaction has locked;
  `for share` does so too, but several transactions can have this lock at once; `skip locked` skips locked rows instead.
  SQLite has one writer and needs none of them.
- `transaction_lock(number)` waits on PostgreSQL until no other transaction holds the lock of this number.
- `server_history()` is the history of the PostgreSQL server, see `server_history.py`. It is null on SQLite.

Only the package that contains an `sql` folder, including its subpackages, runs the statements of that folder. Other
packages call the package's functions.
"""

import re
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

import orjson

from mailwright.storage.server_history import HISTORY

Dialect = Literal["sqlite", "postgresql"]

_ROWS: Final = re.compile(r"rows\(:(?P<name>\w+):\s*(?P<columns>[^)]*)\)\s+AS\s+(?P<alias>\w+)")
_SKIP_LOCKED: Final = re.compile(r"\bskip locked\b")
_ROW_LOCK: Final = re.compile(r"\bfor (?:update|share)\b")
_LOCK: Final = re.compile(r"\btransaction_lock\(")
_HISTORY: Final = re.compile(r"\bserver_history\(\)")
_PARAMETER: Final = re.compile(r"(?<![:\w]):(\w+)")
_CHANGES: Final = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b")
_NUMBER: Final = re.compile(r"\$(\d+)")
# The server logs this text when it rolls back a merged statement.
_DIFFERS: Final = "rolled back because another transaction was first; Mailwright repeats it step by step"
_PLACEHOLDER: Final = "{rows}"
_COMMENT: Final = re.compile(r"--[^\n]*")


class CompiledStatement(NamedTuple):
    """A statement for one engine, with the names of its parameters in order."""

    text: str
    names: tuple[str, ...]


class RowsParameter(NamedTuple):
    """The `rows(…)` of a statement. Each row is a mapping, or a tuple in the order of the columns."""

    name: str
    alias: str
    table: str
    columns: tuple[str, ...]
    pick: Callable[[Any], Iterable[Any]]

    def values(self, rows: Sequence[Any]) -> Iterable[Iterable[Any]]:
        """Return the values of each row in the order of the columns."""
        return rows if rows and isinstance(rows[0], tuple) else map(self.pick, rows)

    def as_json(self, rows: Sequence[Any]) -> str:
        return orjson.dumps(list(self.values(rows)), default=_as_base64).decode()

    def insert(self, count: int) -> str:
        """Return an INSERT for many rows: the interpreter lock is then released once per statement, not per row."""
        row = f"({', '.join('?' * len(self.columns))})"
        return f"INSERT INTO {self.table} VALUES {', '.join([row] * count)}"  # noqa: S608 - only text from our files


class Statement:
    """A SQL text. It is compiled for each engine and way of passing rows, at the first use of each."""

    __slots__ = ("_compiled", "is_lock", "is_query", "name", "rows_parameter", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = _COMMENT.sub("", text)
        match = _ROWS.search(self.text)
        self.rows_parameter = _rows_parameter(name, match) if match else None
        self.is_query = not _CHANGES.search(self.text)
        self.is_lock = bool(_LOCK.search(self.text))  # SQLite has one writer and skips it.
        self._compiled: dict[str | int, CompiledStatement] = {}

    def on(self, dialect: Dialect) -> CompiledStatement:
        """Compile for one parameter with all rows as a JSON array, which is fastest on PostgreSQL."""
        compiled = self._compiled.get(dialect)
        if compiled is None:
            as_table = _json_elements if dialect == "postgresql" else _json_each
            compiled = self._compiled[dialect] = _numbered(_ROWS.sub(as_table, self.text), dialect)
        return compiled

    def bind(self, dialect: Dialect, parameters: Mapping[str, Any]) -> tuple[str, list[Any]]:
        """Return the text for an engine and the values of its parameters in order."""
        text, names = self.on(dialect)
        rows_parameter = self.rows_parameter
        return text, [
            rows_parameter.as_json(parameters[name])
            if rows_parameter is not None and name == rows_parameter.name
            else parameters[name]
            for name in names
        ]

    def with_table(self) -> CompiledStatement:
        """Compile for many rows on SQLite, in a temporary table, which is faster than JSON."""
        return self._compiled.get("table") or self._with_rows("table", _as_temporary)

    def with_values(self, count: int) -> CompiledStatement:
        """Compile for a few rows on SQLite, with their values as parameters after the named parameters."""
        compiled = self._compiled.get(count)
        return compiled or self._with_rows(count, lambda rows, first: _as_values(rows, first, count))

    def _with_rows(self, key: str | int, as_table: Callable[[RowsParameter, int], str]) -> CompiledStatement:
        """Number the named parameters first, so that the parameters of the rows follow them."""
        text, names = _numbered(_ROWS.sub(_PLACEHOLDER, self.text), "sqlite")
        if self.rows_parameter is not None:
            text = text.replace(_PLACEHOLDER, as_table(self.rows_parameter, len(names) + 1))
        compiled = self._compiled[key] = CompiledStatement(text, names)
        return compiled


@cache
def statement(package: str, name: str) -> Statement:
    """Read `sql/<name>.sql` of a package. Pass `__package__`, or the name of the enclosing package."""
    return Statement(name, (resources.files(package) / "sql" / f"{name}.sql").read_text(encoding="utf-8"))


@cache
def merged(statements: tuple[Statement, ...]) -> str:
    """Merge changes of different rows into one statement for PostgreSQL, with the parameters of all of them in order.

    Further parameters are the expected numbers of changed rows. If a number differs, the statement fails with a cast
    error, and nothing is changed. None of the statements sees the changes of the others.
    """
    changes: list[str] = []
    first = 0
    for position, each in enumerate(statements):
        text, names = each.on("postgresql")
        changes.append(f"change_{position} AS ({_renumbered(text, first)} RETURNING 1)")
        first += len(names)
    counts = [f"(SELECT count(*) FROM change_{at}) = ${first + at + 1}" for at in range(len(changes))]  # noqa: S608 - only text from our files
    is_expected = " AND ".join(counts)
    return f"WITH {', '.join(changes)} SELECT CAST(CASE WHEN {is_expected} THEN '1' ELSE '{_DIFFERS}' END AS int)"


def _renumbered(text: str, first: int) -> str:
    return _NUMBER.sub(lambda match: f"${first + int(match[1])}", text)


def _numbered(text: str, dialect: Dialect) -> CompiledStatement:
    text = _HISTORY.sub(HISTORY if dialect == "postgresql" else "NULL", text)
    if dialect == "postgresql":
        text, sign = _LOCK.sub("pg_advisory_xact_lock(", _SKIP_LOCKED.sub("FOR UPDATE SKIP LOCKED", text)), "$"
    else:
        text, sign = _LOCK.sub("abs(", _ROW_LOCK.sub("", _SKIP_LOCKED.sub("", text))), "?"
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in names:
            names.append(name)
        return f"{sign}{names.index(name) + 1}"

    return CompiledStatement(_PARAMETER.sub(number, text), tuple(names))


def _as_base64(content: bytes) -> str:
    """Encode bytes as base64 text, because JSON has no type for bytes."""
    return b2a_base64(content, newline=False).decode()


def _json_elements(match: re.Match[str]) -> str:
    picked = ", ".join(
        f"{_json_element(number, of)} AS {column}" for number, (column, of) in enumerate(_columns(match))
    )
    source = f"jsonb_array_elements(CAST(CAST(:{match['name']} AS text) AS jsonb)) AS input(elements)"
    return f"(SELECT {picked} FROM {source}) AS {match['alias']}"  # noqa: S608 - only text from our files


def _json_element(number: int, of: str) -> str:
    element = f"input.elements ->> {number}"
    return f"decode({element}, 'base64')" if of == "bytea" else f"CAST({element} AS {of})"


def _json_each(match: re.Match[str]) -> str:
    picked = ", ".join(f"value ->> {number} AS {column}" for number, (column, _) in enumerate(_columns(match)))
    return f"(SELECT {picked} FROM json_each(:{match['name']})) AS {match['alias']}"  # noqa: S608 - only text from our files


def _rows_parameter(statement_name: str, match: re.Match[str]) -> RowsParameter:
    columns = tuple(column for column, _ in _columns(match))
    pick = itemgetter(*columns)
    return RowsParameter(
        match["name"],
        match["alias"],
        f"temp.rows_{statement_name}_{match['name']}",
        columns,
        pick if len(columns) > 1 else lambda row: (pick(row),),
    )


def _as_temporary(rows: RowsParameter, _first: int) -> str:
    return f"{rows.table} AS {rows.alias}"


def _as_values(parameter: RowsParameter, first: int, count: int) -> str:
    # SQLite numbers the parameters after the first one itself, which is faster than parsing a number for each.
    row = f"({', '.join('?' * len(parameter.columns))})"
    rows = ", ".join([row] * count).replace("?", f"?{first}", 1)
    named = ", ".join(f"column{number} AS {column}" for number, column in enumerate(parameter.columns, 1))
    return f"(SELECT {named} FROM (VALUES {rows})) AS {parameter.alias}"  # noqa: S608 - only text from our files


def _columns(match: re.Match[str]) -> list[tuple[str, str]]:
    """Return the columns with their types."""
    pairs = [column.split() for column in match["columns"].split(",")]
    return [(name, of) for name, of in pairs]
