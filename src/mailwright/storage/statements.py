"""SQL statements, one a file, written once for both engines.

A few words of their own keep the files free of dialect:

- `rows(:name: column type, …) AS alias` is a list of rows, seen as a table. A claim of five hundred messages is then
  one statement with one parameter.
- `skip locked` locks the rows of a PostgreSQL select and passes over those that another worker has, `for update` waits
  for them; SQLite has one writer at a time and needs no such words.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

import orjson

Dialect = Literal["sqlite", "postgresql"]

_ROWS: Final = re.compile(r"rows\(:(?P<name>\w+):\s*(?P<columns>[^)]*)\)\s+AS\s+(?P<alias>\w+)")
_SKIP_LOCKED: Final = re.compile(r"\bskip locked\b")
_FOR_UPDATE: Final = re.compile(r"\bfor update\b")
_PARAMETER: Final = re.compile(r"(?<![:\w]):(\w+)")
_CHANGES: Final = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b")
_PLACE: Final = "{rows}"
_COMMENT: Final = re.compile(r"--[^\n]*")


class CompiledStatement(NamedTuple):
    """A statement in an engine's own words, and the names of its parameters in order."""

    text: str
    names: tuple[str, ...]


class RowsParameter(NamedTuple):
    """The rows that a statement is given. Each is a mapping, or a tuple in the order of the columns."""

    name: str
    alias: str
    table: str
    columns: tuple[str, ...]
    pick: Callable[[Any], Iterable[Any]]

    def values(self, rows: Sequence[Any]) -> Iterable[Iterable[Any]]:
        """The values of each row, in the order of the columns."""
        return rows if rows and isinstance(rows[0], tuple) else map(self.pick, rows)

    def as_json(self, rows: Sequence[Any]) -> str:
        return orjson.dumps(list(self.values(rows))).decode()

    def insert(self, count: int) -> str:
        """So many rows at once: SQLite gives the interpreter up and asks it back for each statement, not each row."""
        row = f"({', '.join('?' * len(self.columns))})"
        return f"INSERT INTO {self.table} VALUES {', '.join([row] * count)}"  # noqa: S608 - all from our files


class Statement:
    """One SQL text, with its form for each way to run it made at first use."""

    __slots__ = ("_forms", "given", "is_query", "name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = _COMMENT.sub("", text)
        match = _ROWS.search(self.text)
        self.given = _given(name, match) if match else None
        self.is_query = not _CHANGES.search(self.text)
        self._forms: dict[str | int, CompiledStatement] = {}

    def on(self, dialect: Dialect) -> CompiledStatement:
        """Rows travel as one JSON text, each an array: what PostgreSQL and its driver handle in the least time."""
        form = self._forms.get(dialect)
        if form is None:
            as_table = _json_elements if dialect == "postgresql" else _json_each
            form = self._forms[dialect] = _numbered(_ROWS.sub(as_table, self.text), dialect)
        return form

    def bind(self, dialect: Dialect, parameters: Mapping[str, Any]) -> tuple[str, list[Any]]:
        """The text for an engine and the values of its parameters in order."""
        text, names = self.on(dialect)
        given = self.given
        return text, [
            given.as_json(parameters[name]) if given is not None and name == given.name else parameters[name]
            for name in names
        ]

    def with_table(self) -> CompiledStatement:
        """For many rows on SQLite: they stand in a temporary table, as reading them out of JSON takes longer."""
        return self._forms.get("table") or self._with_rows("table", _as_temporary)

    def with_values(self, count: int) -> CompiledStatement:
        """For so many rows, a few, on SQLite: their values are parameters, after the named ones."""
        form = self._forms.get(count)
        return form or self._with_rows(count, lambda given, first: _as_values(given, first, count))

    def _with_rows(self, key: str | int, as_table: Callable[[RowsParameter, int], str]) -> CompiledStatement:
        """The named parameters are numbered first, so that those of the rows can follow."""
        text, names = _numbered(_ROWS.sub(_PLACE, self.text), "sqlite")
        if self.given is not None:
            text = text.replace(_PLACE, as_table(self.given, len(names) + 1))
        form = self._forms[key] = CompiledStatement(text, names)
        return form


@cache
def statement(package: str, name: str) -> Statement:
    """Reads `sql/<name>.sql` of a package."""
    return Statement(name, (resources.files(package) / "sql" / f"{name}.sql").read_text(encoding="utf-8"))


def _numbered(text: str, dialect: Dialect) -> CompiledStatement:
    if dialect == "postgresql":
        text, sign = _SKIP_LOCKED.sub("FOR UPDATE SKIP LOCKED", text), "$"
    else:
        text, sign = _FOR_UPDATE.sub("", _SKIP_LOCKED.sub("", text)), "?"
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in names:
            names.append(name)
        return f"{sign}{names.index(name) + 1}"

    return CompiledStatement(_PARAMETER.sub(number, text), tuple(names))


def _json_elements(match: re.Match[str]) -> str:
    picked = ", ".join(
        f"CAST(given.elements ->> {number} AS {of}) AS {column}" for number, (column, of) in enumerate(_columns(match))
    )
    source = f"jsonb_array_elements(CAST(CAST(:{match['name']} AS text) AS jsonb)) AS given(elements)"
    return f"(SELECT {picked} FROM {source}) AS {match['alias']}"  # noqa: S608 - all from our files


def _json_each(match: re.Match[str]) -> str:
    picked = ", ".join(f"value ->> {number} AS {column}" for number, (column, _) in enumerate(_columns(match)))
    return f"(SELECT {picked} FROM json_each(:{match['name']})) AS {match['alias']}"  # noqa: S608 - all from our files


def _given(statement_name: str, match: re.Match[str]) -> RowsParameter:
    columns = tuple(column for column, _ in _columns(match))
    pick = itemgetter(*columns)
    return RowsParameter(
        match["name"],
        match["alias"],
        f"temp.given_{statement_name}_{match['name']}",
        columns,
        pick if len(columns) > 1 else lambda row: (pick(row),),
    )


def _as_temporary(given: RowsParameter, _first: int) -> str:
    return f"{given.table} AS {given.alias}"


def _as_values(given: RowsParameter, first: int, count: int) -> str:
    # Whatever follows a numbered parameter is numbered from there by SQLite, which is slow at numbers that it is given.
    row = f"({', '.join('?' * len(given.columns))})"
    rows = ", ".join([row] * count).replace("?", f"?{first}", 1)
    named = ", ".join(f"column{number} AS {column}" for number, column in enumerate(given.columns, 1))
    return f"(SELECT {named} FROM (VALUES {rows})) AS {given.alias}"  # noqa: S608 - all from our files


def _columns(match: re.Match[str]) -> list[tuple[str, str]]:
    """Each with its type."""
    pairs = [column.split() for column in match["columns"].split(",")]
    return [(name, of) for name, of in pairs]
