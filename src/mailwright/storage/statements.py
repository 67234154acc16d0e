"""SQL statements, one a file, written once for both engines.

A few words of their own keep the files free of dialect:

- `rows(:name: column type, …) AS alias` is a list of rows, seen as a table. A claim of five hundred messages is then
  one statement with one parameter.
- `skip locked` locks the rows of a PostgreSQL select and passes over those that another worker has, `for update` waits
  for them; SQLite has one writer at a time and needs no such words.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib import resources
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

Dialect = Literal["sqlite", "postgresql"]

_ROWS: Final = re.compile(r"rows\(:(?P<name>\w+):\s*(?P<columns>[^)]*)\)\s+AS\s+(?P<alias>\w+)")
_SKIP_LOCKED: Final = re.compile(r"\bskip locked\b")
_FOR_UPDATE: Final = re.compile(r"\bfor update\b")
_PARAMETER: Final = re.compile(r"(?<![:\w]):(\w+)")
_CHANGES: Final = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b")
_COMMENT: Final = re.compile(r"--[^\n]*")


class Form(NamedTuple):
    """A statement in an engine's own words, and the names of its parameters in order."""

    text: str
    names: tuple[str, ...]


class Given(NamedTuple):
    """Rows that are put into a table of the connection's own before the statement runs."""

    name: str
    table: str
    columns: tuple[str, ...]
    values: Callable[[dict[str, Any]], Iterable[Any]]

    def insert(self, count: int) -> str:
        """So many rows at once: SQLite gives the interpreter up and asks it back for each statement, not each row."""
        row = f"({', '.join('?' * len(self.columns))})"
        return f"INSERT INTO {self.table} VALUES {', '.join([row] * count)}"  # noqa: S608 - all from our files


class FormWithTables(NamedTuple):
    text: str
    names: tuple[str, ...]
    given: tuple[Given, ...]
    is_query: bool


class Statement:
    """One SQL text, with its form for each way to run it made at first use."""

    __slots__ = ("_forms", "_with_tables", "name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = _COMMENT.sub("", text)
        self._forms: dict[Dialect, Form] = {}
        self._with_tables: FormWithTables | None = None

    def on(self, dialect: Dialect) -> Form:
        """Rows travel as one JSON text."""
        form = self._forms.get(dialect)
        if form is None:
            as_table = _json_recordset if dialect == "postgresql" else _json_each
            form = self._forms[dialect] = _numbered(_ROWS.sub(as_table, self.text), dialect)
        return form

    def with_tables(self) -> FormWithTables:
        """Rows travel through temporary tables: SQLite takes longer to read them out of JSON than to store them."""
        if self._with_tables is None:
            given = tuple(_given(self.name, match) for match in _ROWS.finditer(self.text))
            text, names = _numbered(_ROWS.sub(lambda match: _table_reference(self.name, match), self.text), "sqlite")
            self._with_tables = FormWithTables(text, names, given, not _CHANGES.search(text))
        return self._with_tables


@cache
def statement(package: str, name: str) -> Statement:
    """Reads `sql/<name>.sql` of a package."""
    return Statement(name, (resources.files(package) / "sql" / f"{name}.sql").read_text(encoding="utf-8"))


def _numbered(text: str, dialect: Dialect) -> Form:
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

    return Form(_PARAMETER.sub(number, text), tuple(names))


def _json_recordset(match: re.Match[str]) -> str:
    return f"jsonb_to_recordset(CAST(CAST(:{match['name']} AS text) AS jsonb)) AS {match['alias']}({match['columns']})"


def _json_each(match: re.Match[str]) -> str:
    picked = ", ".join(f"value ->> '{column}' AS {column}" for column in _columns(match))
    return f"(SELECT {picked} FROM json_each(:{match['name']})) AS {match['alias']}"  # noqa: S608 - all from our files


def _given(statement_name: str, match: re.Match[str]) -> Given:
    columns = tuple(_columns(match))
    pick = itemgetter(*columns)
    values = pick if len(columns) > 1 else lambda row: (pick(row),)
    return Given(match["name"], _table(statement_name, match), columns, values)


def _table_reference(statement_name: str, match: re.Match[str]) -> str:
    return f"{_table(statement_name, match)} AS {match['alias']}"


def _table(statement_name: str, match: re.Match[str]) -> str:
    return f"temp.given_{statement_name}_{match['name']}"


def _columns(match: re.Match[str]) -> list[str]:
    return [column.split()[0] for column in match["columns"].split(",")]
