"""Describe the migrations that a database lacks: which tables they lock, and whether they are safe during traffic.

The statements of each migration are read, so a description cannot differ from what the migration does.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import text

from mailwright.storage.database import Database
from mailwright.storage.revision import Revision, list_names, load_revision
from mailwright.storage.schema_state import InstalledSchema, SchemaStatus, load_schema
from mailwright.storage.statements import Dialect
from mailwright.storage.tables import schema_revisions


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One statement of a migration. `is_safe`: neither blocks traffic for long nor breaks running processes."""

    table: str
    effect: str
    is_safe: bool


@dataclass(frozen=True, slots=True)
class PendingMigration:
    revision: str
    title: str
    changes: tuple[SchemaChange, ...]

    @property
    def is_safe(self) -> bool:
        return all(change.is_safe for change in self.changes)


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema of the database, the newest revision, and the migrations between them."""

    found: InstalledSchema
    newest: str
    pending: tuple[PendingMigration, ...]

    @property
    def is_newer(self) -> bool:
        """Whether a newer version of Mailwright upgraded the database."""
        return self.found.status in (SchemaStatus.NEWER, SchemaStatus.COMPATIBLE)


async def load_schema_state(database: Database) -> SchemaState:
    """Read the state of the schema. Nothing is changed."""
    found = await load_schema(database)
    names = list_names()
    match found.status:
        case SchemaStatus.EMPTY:
            missing = names
        case SchemaStatus.UNFINISHED:
            missing = tuple(name for name in names if name >= str(found.revision))
        case SchemaStatus.OLDER | SchemaStatus.UNRECORDED:
            missing = tuple(name for name in names if name > str(found.revision))
        case _:
            missing = ()
    created: set[str] = set()
    pending = tuple(_described(load_revision(name), database.dialect, created) for name in missing)
    return SchemaState(found, names[-1], await _with_rows(database, pending))


def _described(revision: Revision, dialect: Dialect, created: set[str]) -> PendingMigration:
    statements = [" ".join(step.text(dialect).split()) for step in revision.steps]
    new_views = {match["table"] for each in statements if (match := _CREATE_VIEW.match(each))}
    kept = [each for each in statements if not ((match := _DROP_VIEW.match(each)) and match["table"] in new_views)]
    changes = tuple(change for each in kept for change in describe_statement(each, created))
    return PendingMigration(revision.name, revision.title, changes)


async def _with_rows(database: Database, pending: tuple[PendingMigration, ...]) -> tuple[PendingMigration, ...]:
    """State how many rows the new indexes have, because this decides how long they take."""
    tables = {change.table for each in pending for change in each.changes if change.effect.startswith("index")}
    rows: dict[str, int] = {}
    async with database.read() as tx:
        for table in tables:
            [(found,)] = await tx.execute(text(_ROWS_OF[database.dialect].format(table=table)))
            rows[table] = max(found or 0, 0)

    def stated(change: SchemaChange) -> SchemaChange:
        if not change.effect.startswith("index"):
            return change
        return replace(change, effect=f"{change.effect} (about {rows[change.table]:,} rows)")

    return tuple(replace(each, changes=tuple(map(stated, each.changes))) for each in pending)


# Estimates, because counting takes as long as the index.
_ROWS_OF: Final = {
    "sqlite": "SELECT max(rowid) FROM {table}",
    "postgresql": "SELECT max(reltuples)::bigint FROM pg_class WHERE oid = to_regclass('{table}')",
}


_IDENTIFIER: Final = r'(?:IF (?:NOT )?EXISTS )?(?:ONLY )?"?(?P<table>\w+)"?'
_CREATE_TABLE: Final = re.compile(rf"CREATE TABLE {_IDENTIFIER}", re.IGNORECASE)
_ALTER: Final = re.compile(rf"ALTER TABLE {_IDENTIFIER} (?P<action>.*)", re.IGNORECASE)
_CREATE_VIEW: Final = re.compile(rf"CREATE (?:OR REPLACE )?VIEW {_IDENTIFIER}", re.IGNORECASE)
_DROP_VIEW: Final = re.compile(rf"DROP VIEW {_IDENTIFIER}", re.IGNORECASE)
_INDEXED: Final = r'.*? ON (?:ONLY )?"?(?P<table>\w+)"?'
# The first pattern that matches a statement decides.
_EFFECTS: Final = (
    (_ALTER, "", False),
    (_CREATE_VIEW, "new or replaced view; locks no table", True),
    (_DROP_VIEW, "view deleted; older processes fail", False),
    *(
        (re.compile(pattern, re.IGNORECASE), effect, is_safe)
        for pattern, effect, is_safe in (
            (rf"CREATE (?:UNIQUE )?INDEX CONCURRENTLY {_INDEXED}", "index, built while writes go on", True),
            (rf"CREATE (?:UNIQUE )?INDEX {_INDEXED}", "index; blocks writes while it is built", False),
            (rf"DROP INDEX CONCURRENTLY {_IDENTIFIER}", "old index, deleted while writes go on", True),
            (rf"DROP INDEX {_IDENTIFIER}", "old index, deleted; locks its table for a moment", True),
            (rf"DROP TABLE {_IDENTIFIER}", "table deleted; older processes fail", False),
            (
                rf"(?:UPDATE|DELETE FROM|INSERT INTO) {_IDENTIFIER}",
                "changes rows, which stay locked until the migration ends",
                False,
            ),
        )
    ),
)
_OWN_TABLE: Final = schema_revisions.name


def describe_statement(sql: str, created: set[str]) -> Iterator[SchemaChange]:
    """Describe one statement. `created` collects the tables that migrations create: locks on them block nobody."""
    if match := _CREATE_TABLE.match(sql):
        created.add(match["table"])
        if match["table"] != _OWN_TABLE:
            yield SchemaChange(match["table"], "new table; locks nothing", is_safe=True)
        return
    found = _change(sql)
    if found is None or found.table == _OWN_TABLE or found.table in created:
        return
    yield found


def _change(sql: str) -> SchemaChange | None:
    for pattern, effect, is_safe in _EFFECTS:
        if match := pattern.match(sql):
            stated = _alteration(match["action"]) if pattern is _ALTER else (effect, is_safe)
            return SchemaChange(match["table"], *stated)
    return None


# The first pattern that matches the action of an ALTER TABLE decides.
_ALTERATIONS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), effect, is_safe)
    for pattern, effect, is_safe in (
        (r"ADD COLUMN .*\b(random|gen_random_uuid|clock_timestamp)\(", "column; rewrites the whole table", False),
        (r"ADD COLUMN (?=.*NOT NULL)(?!.*DEFAULT)", "column without a default; fails if the table has rows", False),
        (r"ADD COLUMN", "column; locks the table for a moment", True),
        (r"ADD (CONSTRAINT .*)?NOT VALID", "constraint for new rows; locks the table for a moment", True),
        (r"VALIDATE CONSTRAINT", "checks rows while writes go on", True),
        (r"ADD", "constraint; blocks the table while all rows are checked", False),
        (r"ALTER COLUMN .* TYPE", "new column type; rewrites the whole table and blocks it meanwhile", False),
        (r"ALTER COLUMN .* SET NOT NULL", "blocks the table while all rows are checked", False),
        (r"ALTER COLUMN .* (SET|DROP) (DEFAULT|NOT NULL)", "locks the table for a moment", True),
        (r"(DROP|RENAME)", "removes or renames something that older processes use; they fail", False),
        (r"ATTACH PARTITION", "partition; locks the table while its rows are checked", False),
    )
)


def _alteration(action: str) -> tuple[str, bool]:
    for pattern, effect, is_safe in _ALTERATIONS:
        if pattern.match(action):
            return effect, is_safe
    return "locks the table for an unknown time", False
