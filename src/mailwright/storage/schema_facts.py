"""Compare the real schema of a database with the one that its revision creates, independently of what it records.

Facts are the tables with their columns, the views and the indexes, under the same names on both engines. Objects that
no revision created are left out: other programs and operators may add their own.
"""

import sqlite3
from contextlib import closing
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Boolean, Double, Integer, LargeBinary, SmallInteger, Text, text

from mailwright.storage.database import Transaction
from mailwright.storage.revision import BatchedChange, list_names, load_revision, newest_revision
from mailwright.storage.tables import EXPRESSION_INDEXES, VIEWS, metadata


class Fact(NamedTuple):
    """A table, view or index, or a column of a table with its type."""

    kind: str
    name: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


# SQLite needs INTEGER as the type of a key, and stores any integer in it.
_TYPES: Final = {"bigint": "integer", "smallint": "integer", "double precision": "double", "bytea": "blob"}
_CODE_TYPES: Final = {
    BigInteger: "integer",
    Boolean: "boolean",
    Double: "double",
    Integer: "integer",
    LargeBinary: "blob",
    SmallInteger: "integer",
    Text: "text",
}

_SQLITE: Final = """
SELECT m.type, m.name, c.name AS column_name, c.type AS column_type, c."notnull" AS is_required
FROM sqlite_master AS m LEFT JOIN pragma_table_info(m.name) AS c ON m.type = 'table'
WHERE m.type IN ('table', 'view', 'index') AND m.name NOT LIKE 'sqlite@_%' ESCAPE '@'
"""
# Indexes of constraints have no names on SQLite, and partitions come and go.
_POSTGRESQL: Final = """
SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'r' THEN 'table' WHEN 'p' THEN 'table' ELSE 'index' END AS type,
  c.relname AS name, a.attname AS column_name, format_type(a.atttypid, NULL) AS column_type,
  a.attnotnull AS is_required
FROM pg_class AS c
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  AND c.relkind IN ('r', 'p')
LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
WHERE c.relkind IN ('r', 'p', 'v', 'i', 'I') AND NOT c.relispartition AND pg_table_is_visible(c.oid)
  AND c.relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname IN ('pg_catalog', 'information_schema'))
  AND (i.indexrelid IS NULL OR i.indisvalid)
  AND NOT EXISTS (SELECT 1 FROM pg_constraint AS o WHERE o.conindid = c.oid AND o.contype IN ('p', 'u'))
"""


async def read_facts(tx: Transaction, dialect: str) -> frozenset[Fact]:
    """Return the facts about all tables, views and indexes of the database, also those of other programs."""
    return _facts(tuple(map(tuple, await tx.execute(text(_SQLITE if dialect == "sqlite" else _POSTGRESQL)))))


def expected_facts(revision: str) -> frozenset[Fact]:
    """Return the facts about the schema of a revision. Those of the newest one come from the code, which is faster."""
    return facts_of_code() if revision == newest_revision() else facts_of_revision(revision)


@cache
def facts_of_code() -> frozenset[Fact]:
    """Return the facts about the tables of this version. `tools/revision.py` compares them with the revisions."""
    facts = {Fact("view", name) for name in VIEWS} | {Fact("index", name) for name in EXPRESSION_INDEXES}
    for table in metadata.tables.values():
        facts.add(Fact("table", table.name))
        facts.update(Fact("index", str(index.name)) for index in table.indexes)
        facts.update(
            _column(table.name, column.name, _CODE_TYPES[type(column.type)], is_required=not column.nullable)
            for column in table.columns
        )
    return frozenset(facts)


def facts_of_revision(revision: str) -> frozenset[Fact]:
    with closing(build_in_memory(revision)) as connection:
        return _facts(tuple(connection.execute(_SQLITE)))


def build_in_memory(revision: str) -> sqlite3.Connection:
    """Create the schema of a revision in memory with the statements of SQLite."""
    connection = sqlite3.connect(":memory:")
    for name in list_names():
        if name <= revision:
            for step in load_revision(name).steps:
                if not isinstance(step, BatchedChange):
                    connection.execute(step.sqlite)
    return connection


@lru_cache(maxsize=4)
def find_differences(found: frozenset[Fact], expected: frozenset[Fact]) -> tuple[str, ...]:
    """Return what is missing, or differs, in words."""
    details = {fact[:2]: fact.detail for fact in found}
    differences = []
    for fact in sorted(expected):
        if fact[:2] not in details:
            differences.append(f"{fact} is missing")
        elif details[fact[:2]] != fact.detail:
            differences.append(f"{fact} is {details[fact[:2]]} instead of {fact.detail}")
    return tuple(differences)


# A process reads the same schema again and again.
@lru_cache(maxsize=4)
def _facts(rows: tuple[tuple[Any, ...], ...]) -> frozenset[Fact]:
    facts = set()
    for kind, name, column, declared, is_required in rows:
        facts.add(Fact(kind, name))
        if column is not None:
            facts.add(_column(name, column, str(declared).lower(), is_required=is_required))
    return frozenset(facts)


def _column(table: str, name: str, declared: str, *, is_required: bool) -> Fact:
    return Fact("column", f"{table}.{name}", f"{_TYPES.get(declared, declared)}{' not null' if is_required else ''}")
