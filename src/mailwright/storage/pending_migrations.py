"""Describe the migrations that a database lacks: which tables they lock, and whether they are safe during traffic.

The statements of each migration are read, so a description cannot differ from what the migration does.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mailwright.storage.database import Database
from mailwright.storage.revision import Revision, list_names, load_revision
from mailwright.storage.schema_state import InstalledSchema, SchemaStatus, load_schema
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
    return SchemaState(found, names[-1], tuple(_described(load_revision(name)) for name in missing))


def _described(revision: Revision) -> PendingMigration:
    created: set[str] = set()
    changes = tuple(
        change for step in revision.steps for change in describe_statement(" ".join(step.postgresql.split()), created)
    )
    return PendingMigration(revision.name, revision.title, changes)


_IDENTIFIER: Final = r'(?:IF (?:NOT )?EXISTS )?(?:ONLY )?"?(?P<table>\w+)"?'
_CREATE_TABLE: Final = re.compile(rf"CREATE TABLE {_IDENTIFIER}", re.IGNORECASE)
_CREATE_INDEX: Final = re.compile(
    r'CREATE (?:UNIQUE )?INDEX (?P<concurrently>CONCURRENTLY )?.*? ON (?:ONLY )?"?(?P<table>\w+)"?', re.IGNORECASE
)
_ALTER: Final = re.compile(rf"ALTER TABLE {_IDENTIFIER} (?P<action>.*)", re.IGNORECASE)
_DROP: Final = re.compile(rf"DROP (?P<kind>TABLE|VIEW) {_IDENTIFIER}", re.IGNORECASE)
_ROWS: Final = re.compile(rf"(?:UPDATE|DELETE FROM|INSERT INTO) {_IDENTIFIER}", re.IGNORECASE)
_OWN_TABLE: Final = schema_revisions.name


def describe_statement(sql: str, created: set[str]) -> Iterator[SchemaChange]:
    """Describe one statement. `created` collects the tables that the migration creates: locks on them block nobody."""
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
    if match := _CREATE_INDEX.match(sql):
        if match["concurrently"]:
            return SchemaChange(match["table"], "index, built while writes go on", is_safe=True)
        return SchemaChange(match["table"], "index; blocks writes while it is built", is_safe=False)
    if match := _ALTER.match(sql):
        effect, is_safe = _alteration(match["action"])
        return SchemaChange(match["table"], effect, is_safe)
    if match := _DROP.match(sql):
        return SchemaChange(match["table"], f"{match['kind'].lower()} deleted; older processes fail", is_safe=False)
    if match := _ROWS.match(sql):
        return SchemaChange(match["table"], "changes rows, which stay locked until the migration ends", is_safe=False)
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
