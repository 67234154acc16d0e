"""Write the draft of a revision from the difference between `tables.py` and the revisions, or check that there is none.

`python -m tools.revision "Add mottos to tenants"` writes the draft; `python -m tools.revision --check` compares.
"""

import hashlib
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Column, Index
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from mailwright.storage.revision import VERSIONS, list_names, load_revision, newest_revision
from mailwright.storage.schema_facts import build_in_memory
from mailwright.storage.tables import EXPRESSION_INDEXES, metadata

FROZEN = Path(__file__).parent / "frozen_revisions.txt"
HOW = 'run `.venv/bin/python -m tools.revision "Subject of the change"`, see "Change a table" in docs/developing.md'
SQLITE: Dialect = sqlite.dialect()
POSTGRESQL: Dialect = postgresql.dialect()
UNIQUE = "unique constraint of"


class Schema(NamedTuple):
    """The tables, columns and indexes of a database in full, by name."""

    tables: dict[str, Any]
    columns: dict[str, Any]
    indexes: dict[str, Any]


def main() -> None:
    match sys.argv[1:]:
        case ["--check"]:
            problems = list(check())
            for problem in problems:
                print(problem)
            sys.exit(1 if problems else 0)
        case ["--freeze"]:
            FROZEN.write_text("".join(f"{line}\n" for line in _digests()))
        case [subject] if not subject.startswith("-"):
            print(write_draft(subject))
        case _:
            sys.exit(__doc__)


def check() -> Iterator[str]:
    """Yield what is wrong with the revisions, and where they differ from the tables in the code."""
    files = sorted(file.name for file in VERSIONS.glob("[0-9]*.py"))
    numbers = Counter(name[:4] for name in files)
    for number, count in numbers.items():
        if count > 1:
            yield f"revision {number}: {count} files have this number; rename the one that has not landed to the next"
    if list(numbers) != [f"{number:04}" for number in range(1, len(numbers) + 1)]:
        yield "the numbers of the revisions have a gap; rename the files"
    digests = _digests()
    for line in FROZEN.read_text().splitlines():
        if line not in digests:
            yield f"{line.split()[1]}: a release has this revision, so it must not change; add another revision"
    for name in list_names():
        oldest = load_revision(name).oldest_compatible
        if oldest > name:
            yield f"revision {name}: OLDEST_COMPATIBLE is {oldest}, which comes later"
    in_code, in_revisions = schema_of_code(), schema_of_revisions()
    for kind in Schema._fields:
        for name, found, expected in _compare(getattr(in_revisions, kind), getattr(in_code, kind)):
            if found is None:
                yield f"{kind}: {name} is in tables.py, but no revision creates it; {HOW}"
            elif expected is None:
                yield f"{kind}: {name} is not in tables.py, but the revisions create it; {HOW}"
            else:
                yield f"{kind}: {name} is {found} in the revisions and {expected} in tables.py; {HOW}"


def schema_of_code() -> Schema:
    with closing(sqlite3.connect(":memory:")) as connection:
        for table in metadata.sorted_tables:
            connection.execute(str(CreateTable(table).compile(dialect=SQLITE)))
            for index in table.indexes:
                connection.execute(str(CreateIndex(index).compile(dialect=SQLITE)))
        return _read(connection)


def schema_of_revisions() -> Schema:
    with closing(build_in_memory(newest_revision())) as connection:
        return _read(connection)


def write_draft(subject: str) -> Path:
    """Write the next revision with the statements that turn the schema of the revisions into the one of the code."""
    steps = [step for step in _draft(schema_of_revisions(), schema_of_code()) if step]
    is_additive = all(re.match(r"\s*(sql|index)\(.*?(CREATE|ALTER TABLE \w+ ADD)", step, re.DOTALL) for step in steps)
    newest = load_revision(newest_revision())
    name = f"{int(newest.name) + 1:04}"
    file = VERSIONS / f"{name}_{'_'.join(re.findall(r'[a-z0-9]+', subject.lower()))}.py"
    functions = ", ".join(sorted({match[0] for step in steps if (match := re.match(r"index|sql", step))} or {"sql"}))
    body = "".join(f"    {step},\n" if not step.startswith("#") else f"    {step}\n" for step in steps)
    file.write_text(
        f'"""{subject.rstrip(".")}."""\n\n'
        f"from mailwright.storage.revision import {functions}\n\n"
        "# Processes that know this and no later revision can run beside it.\n"
        f'OLDEST_COMPATIBLE = "{newest.oldest_compatible if is_additive else name}"\n'
        f"STEPS = (\n{body})\n"
    )
    return file


def for_postgresql(index: Index) -> Index:
    """State the condition of a partial index for PostgreSQL too. The code leaves it out: see `partial_index`."""
    condition = index.dialect_options["sqlite"]["where"]
    if condition is not None:
        index.dialect_options["postgresql"]["where"] = condition
    return index


def _draft(before: Schema, after: Schema) -> Iterator[str]:
    for name, found, _ in _compare(before.indexes, after.indexes):
        if found is not None and found[0] in after.tables and not name.startswith(UNIQUE):
            yield f'index("DROP INDEX {name}")'
    yield from _draft_tables(before, after)
    for name, _, expected in _compare(before.indexes, after.indexes):
        if expected is not None:
            yield _draft_index(name, expected, is_new_table=expected[0] not in before.tables)


def _draft_tables(before: Schema, after: Schema) -> Iterator[str]:
    for name, found, expected in _compare(before.tables, after.tables):
        if found is None:
            yield _compiled(CreateTable(metadata.tables[name]))
        elif expected is None:
            yield _both(f"DROP TABLE {name}")
        else:
            yield f"# Write the statements for table {name}: {found} becomes {expected}."
    for name, found, expected in _compare(before.columns, after.columns):
        table, _, column = name.partition(".")
        if table not in before.tables or table not in after.tables:
            continue
        if found is None:
            yield _added(metadata.tables[table].c[column])
        elif expected is None:
            yield _both(f"ALTER TABLE {table} DROP COLUMN {column}")
        else:
            yield f"# Write the statements for column {name}: {found} becomes {expected}."


def _draft_index(name: str, expected: tuple[str, ...], *, is_new_table: bool) -> str:
    for index in metadata.tables[expected[0]].indexes:
        if index.name == name:
            return _compiled(CreateIndex(for_postgresql(index)), "sql" if is_new_table else "index")
    return "" if is_new_table else f"# Write the statements for {name}."


def _added(column: Column[Any]) -> str:
    def text(dialect: Dialect) -> str:
        specification = dialect.ddl_compiler(dialect, None).get_column_specification(column)
        return f"ALTER TABLE {column.table.name} ADD COLUMN {specification}"

    if not column.nullable and column.server_default is None:
        return f"# Column {column.table.name}.{column.name} is required: give it a server_default, then draft again."
    return _step(text(SQLITE), text(POSTGRESQL))


def _compiled(element: CreateTable | CreateIndex, function: str = "sql") -> str:
    return _step(str(element.compile(dialect=SQLITE)), str(element.compile(dialect=POSTGRESQL)), function)


def _both(text: str) -> str:
    return _step(text, text)


def _step(for_sqlite: str, for_postgresql: str, function: str = "sql") -> str:
    texts = [re.sub(r"[ \t]+\n", "\n", each.strip().replace("\t", "  ")) for each in (for_sqlite, for_postgresql)]
    quoted = [f'"""{each}"""' if "\n" in each or '"' in each else f'"{each}"' for each in texts]
    if quoted[0] == quoted[1]:
        return f"{function}({quoted[0]})"
    return f"{function}(\n        sqlite={quoted[0]},\n        postgresql={quoted[1]},\n    )"


def _compare(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _read(connection: sqlite3.Connection) -> Schema:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns, indexes = {}, {}
    keys: dict[str, Any] = {}
    for table in tables:
        if table.startswith("sqlite_"):
            continue
        rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
        keys[table] = tuple(row[1] for row in sorted(rows, key=lambda row: row[5]) if row[5])
        for _, name, declared, is_required, default, _ in rows:
            words = [declared, "NOT NULL" if is_required else "", f"DEFAULT {default}" if default is not None else ""]
            columns[f"{table}.{name}"] = " ".join(filter(None, words))
        indexes.update(_indexes(connection, table))
    return Schema(keys, columns, indexes)


def _indexes(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, Any]]:
    for _, name, is_unique, origin, _ in connection.execute(f"PRAGMA index_list({table})").fetchall():
        parts = connection.execute(f"PRAGMA index_xinfo({name})").fetchall()
        fields = tuple(f"{part[2]}{' DESC' if part[3] else ''}" for part in parts if part[5])
        if origin == "u":
            yield f"{UNIQUE} {table} ({', '.join(fields)})", (table, fields)
        elif origin == "c" and name not in EXPRESSION_INDEXES:
            [(text,)] = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchall()
            _, _, condition = re.sub(r"\s+", " ", text).partition(" WHERE ")
            yield name, (table, fields, "unique" if is_unique else "", condition)


def _digests() -> list[str]:
    return [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()} {file.name}"
        for file in sorted(VERSIONS.iterdir())
        if file.name[0].isdigit()
    ]


if __name__ == "__main__":
    main()
