"""SQL statements, one a file, written once for both engines.

Two words of their own keep the files free of dialect:

- `rows(:name: column type, …) AS alias` is a JSON array of objects, seen as a table. A claim of five hundred messages
  is then one statement with one parameter.
- `skip locked` locks the rows of a PostgreSQL select and passes over those that another worker has, `for update` waits
  for them; SQLite has one writer at a time and needs no such words.
"""

import re
from functools import cache
from importlib import resources
from typing import Final, Literal

Dialect = Literal["sqlite", "postgresql"]

_ROWS: Final = re.compile(r"rows\(:(?P<name>\w+):\s*(?P<columns>[^)]*)\)\s+AS\s+(?P<alias>\w+)")
_SKIP_LOCKED: Final = re.compile(r"\bskip locked\b")
_FOR_UPDATE: Final = re.compile(r"\bfor update\b")
_PARAMETER: Final = re.compile(r"(?<![:\w]):(\w+)")
_COMMENT: Final = re.compile(r"--[^\n]*")


class Statement:
    """One SQL text, with its form for each engine made at first use."""

    __slots__ = ("_forms", "name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._forms: dict[Dialect, tuple[str, tuple[str, ...]]] = {}

    def on(self, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
        """The text in the engine's own words, and the names of its parameters in order."""
        form = self._forms.get(dialect)
        if form is None:
            form = self._forms[dialect] = _translate(self.text, dialect)
        return form


@cache
def statement(package: str, name: str) -> Statement:
    """Reads `sql/<name>.sql` of a package."""
    return Statement(name, (resources.files(package) / "sql" / f"{name}.sql").read_text(encoding="utf-8"))


def _translate(text: str, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
    text = _COMMENT.sub("", text)
    if dialect == "postgresql":
        text = _ROWS.sub(r"jsonb_to_recordset(CAST(CAST(:\g<name> AS text) AS jsonb)) AS \g<alias>(\g<columns>)", text)
        text = _SKIP_LOCKED.sub("FOR UPDATE SKIP LOCKED", text)
    else:
        text = _ROWS.sub(_json_each, text)
        text = _FOR_UPDATE.sub("", _SKIP_LOCKED.sub("", text))
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in names:
            names.append(name)
        return f"{'$' if dialect == 'postgresql' else '?'}{names.index(name) + 1}"

    return _PARAMETER.sub(number, text), tuple(names)


def _json_each(match: re.Match[str]) -> str:
    columns = [column.split()[0] for column in match["columns"].split(",")]
    picked = ", ".join(f"value ->> '{column}' AS {column}" for column in columns)
    return f"(SELECT {picked} FROM json_each(:{match['name']})) AS {match['alias']}"  # noqa: S608 - all from our files
