"""Describe the migrations that a database lacks: which tables they lock, and whether they are safe during traffic.

The statements of each migration are read, so a description cannot differ from what the migration does.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Final

from sqlalchemy import text

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Database
from mailwright.storage.revision import BatchedChange, Revision, list_names, load_revision
from mailwright.storage.schema_state import InstalledSchema, SchemaStatus, load_schema
from mailwright.storage.statements import Dialect
from mailwright.storage.tables import schema_revisions


class Work(StrEnum):
    """What a statement does with each row of its table, which decides how long it takes."""

    INDEX = "index"
    INDEX_BESIDE_WRITES = "index beside writes"  # PostgreSQL reads the table twice.
    CHECK = "check"
    WRITE = "write"
    BATCHES = "batches"  # On SQLite, other processes write between them.


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One statement of a migration. `is_safe`: neither blocks traffic for long nor breaks running processes.

    `work` and `seconds`: what it does with each row of its table, and how long that probably takes.
    """

    table: str
    effect: str
    is_safe: bool
    work: Work | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PendingMigration:
    revision: str
    title: str
    changes: tuple[SchemaChange, ...]

    @property
    def is_safe(self) -> bool:
        return all(change.is_safe for change in self.changes)

    @property
    def seconds(self) -> float:
        return sum(change.seconds for change in self.changes)


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
    changes: list[SchemaChange] = []
    for step, statement in zip(revision.steps, statements, strict=True):
        if isinstance(step, BatchedChange):
            if step.table not in created:
                changes.append(SchemaChange(step.table, _BATCHES, is_safe=True, work=Work.BATCHES))
        elif not ((match := _DROP_VIEW.match(statement)) and match["table"] in new_views):
            changes += describe_statement(statement, created)
    return PendingMigration(revision.name, revision.title, tuple(changes))


async def _with_rows(database: Database, pending: tuple[PendingMigration, ...]) -> tuple[PendingMigration, ...]:
    """State how many rows the changes of whole tables have, and how long they probably take."""
    tables = {change.table for each in pending for change in each.changes if change.work is not None}
    if not tables:
        return pending
    rows: dict[str, int] = {}
    async with database.read() as tx:
        for table in tables:
            [(found,)] = await tx.execute(text(_ROWS_OF[database.dialect].format(table=table)))
            rows[table] = max(found or 0, 0)

    def stated(change: SchemaChange) -> SchemaChange:
        if change.work is None:
            return change
        count = rows[change.table]
        seconds = count / ROWS_PER_SECOND[database.dialect][change.work]
        return replace(change, effect=f"{change.effect} (about {count:,} rows)", seconds=seconds)

    return tuple(replace(each, changes=tuple(map(stated, each.changes))) for each in pending)


# Estimates, because counting takes as long as the index.
_ROWS_OF: Final = {
    "sqlite": "SELECT max(rowid) FROM {table}",
    # A table that was never analyzed is estimated by its size. A partitioned table has its rows in its partitions.
    "postgresql": """
SELECT sum(CASE WHEN reltuples >= 0 THEN reltuples ELSE pg_relation_size(oid) / 200 END)::bigint FROM pg_class
WHERE relkind = 'r' AND (oid = to_regclass('{table}')
  OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('{table}')))
""",
}
# Measured with 300,000 messages on two cores, and halved: large tables do not fit into memory.
ROWS_PER_SECOND: Final = {
    "sqlite": {
        Work.INDEX: 500_000,
        Work.INDEX_BESIDE_WRITES: 500_000,
        Work.CHECK: 2_000_000,
        Work.WRITE: 200_000,
        Work.BATCHES: 10_000,
    },
    "postgresql": {
        Work.INDEX: 500_000,
        Work.INDEX_BESIDE_WRITES: 250_000,
        Work.CHECK: 1_000_000,
        Work.WRITE: 14_000,
        Work.BATCHES: 14_000,
    },
}

_IDENTIFIER: Final = r'(?:IF (?:NOT )?EXISTS )?(?:ONLY )?"?(?P<table>\w+)"?'
_CREATE_TABLE: Final = re.compile(rf"CREATE TABLE {_IDENTIFIER}", re.IGNORECASE)
_ALTER: Final = re.compile(rf"ALTER TABLE {_IDENTIFIER} (?P<action>.*)", re.IGNORECASE)
_CREATE_VIEW: Final = re.compile(rf"CREATE (?:OR REPLACE )?VIEW {_IDENTIFIER}", re.IGNORECASE)
_DROP_VIEW: Final = re.compile(rf"DROP VIEW {_IDENTIFIER}", re.IGNORECASE)
_INDEXED: Final = r'.*? ON (?:ONLY )?"?(?P<table>\w+)"?'
# The first pattern that matches a statement decides.
_EFFECTS: Final = (
    (_ALTER, "", False, None),
    (_CREATE_VIEW, "new or replaced view; locks no table", True, None),
    (_DROP_VIEW, "view deleted; older processes fail", False, None),
    *(
        (re.compile(pattern, re.IGNORECASE), effect, is_safe, work)
        for pattern, effect, is_safe, work in (
            (
                rf"CREATE (?:UNIQUE )?INDEX CONCURRENTLY {_INDEXED}",
                "index, built while writes go on",
                True,
                Work.INDEX_BESIDE_WRITES,
            ),
            (rf"CREATE (?:UNIQUE )?INDEX {_INDEXED}", "index; blocks writes while it is built", False, Work.INDEX),
            (rf"DROP INDEX CONCURRENTLY {_IDENTIFIER}", "old index, deleted while writes go on", True, None),
            (rf"DROP INDEX {_IDENTIFIER}", "old index, deleted; locks its table for a moment", True, None),
            (rf"DROP TABLE {_IDENTIFIER}", "table deleted; older processes fail", False, None),
            (
                rf"(?:UPDATE|DELETE FROM|INSERT INTO) {_IDENTIFIER}",
                "changes rows, which stay locked until the migration ends",
                False,
                Work.WRITE,
            ),
        )
    ),
)
_BATCHES: Final = "changes rows in batches, while writes go on"
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
    for pattern, effect, is_safe, work in _EFFECTS:
        if match := pattern.match(sql):
            stated = _alteration(match["action"]) if pattern is _ALTER else (effect, is_safe, work)
            return SchemaChange(match["table"], *stated)
    return None


# The first pattern that matches the action of an ALTER TABLE decides.
_ALTERATIONS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), effect, is_safe, work)
    for pattern, effect, is_safe, work in (
        (
            r"ADD COLUMN .*\b(random|gen_random_uuid|clock_timestamp)\(",
            "column; rewrites the whole table",
            False,
            Work.WRITE,
        ),
        (
            r"ADD COLUMN (?=.*NOT NULL)(?!.*DEFAULT)",
            "column without a default; fails if the table has rows",
            False,
            None,
        ),
        (r"ADD COLUMN", "column; locks the table for a moment", True, None),
        (r"ADD (CONSTRAINT .*)?NOT VALID", "constraint for new rows; locks the table for a moment", True, None),
        (r"VALIDATE CONSTRAINT", "checks rows while writes go on", True, Work.CHECK),
        (r"ADD", "constraint; blocks the table while all rows are checked", False, Work.CHECK),
        (
            r"ALTER COLUMN .* TYPE",
            "new column type; rewrites the whole table and blocks it meanwhile",
            False,
            Work.WRITE,
        ),
        (r"ALTER COLUMN .* SET NOT NULL", "blocks the table while all rows are checked", False, Work.CHECK),
        (r"ALTER COLUMN .* (SET|DROP) (DEFAULT|NOT NULL)", "locks the table for a moment", True, None),
        (r"(DROP|RENAME)", "removes or renames something that older processes use; they fail", False, None),
        (r"ATTACH PARTITION", "partition; locks the table while its rows are checked", False, Work.CHECK),
    )
)


def _alteration(action: str) -> tuple[str, bool, Work | None]:
    for pattern, effect, is_safe, work in _ALTERATIONS:
        if pattern.match(action):
            return effect, is_safe, work
    return "locks the table for an unknown time", False, None
