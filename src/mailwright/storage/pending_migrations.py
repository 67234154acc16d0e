"""Describe the migrations that a database lacks: which tables they lock, and whether they are safe during traffic.

The SQL of each migration is rendered and read, so a description cannot differ from what the migration does.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mailwright.storage.database import Database
from mailwright.storage.migrate import MIGRATIONS, Revision, current_revision, list_revisions

_STATEMENT: Final = re.compile(r";\s*\n")
_COMMENT: Final = re.compile(r"--[^\n]*")


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
    """The revision of the database (None if it is empty), the newest revision, and the migrations between them."""

    current: str | None
    newest: str
    is_newer: bool  # a newer version of Mailwright upgraded the database
    pending: tuple[PendingMigration, ...]


async def load_schema_state(database: Database) -> SchemaState:
    """Read the state of the schema. Nothing is changed."""
    current = await current_revision(database)
    revisions = list_revisions()
    names = [each.name for each in revisions]
    if current is not None and current not in names:
        return SchemaState(current, names[-1], is_newer=True, pending=())
    missing = revisions if current is None else revisions[names.index(current) + 1 :]
    pending = tuple(_described(each) for each in missing)
    return SchemaState(current, names[-1], is_newer=False, pending=pending)


def _described(revision: Revision) -> PendingMigration:
    created: set[str] = set()
    changes = tuple(
        change
        for statement in _STATEMENT.split(_COMMENT.sub("", _render(revision)))
        for change in describe_statement(" ".join(statement.split()), created)
    )
    return PendingMigration(revision.name, revision.title, changes)


def _render(revision: Revision) -> str:
    """Return the SQL of a migration for PostgreSQL."""
    from alembic import command  # noqa: PLC0415 - slow to import
    from alembic.config import Config  # noqa: PLC0415

    output = io.StringIO()
    config = Config(output_buffer=output)
    config.set_main_option("script_location", str(MIGRATIONS))
    before = revision.follows or "base"
    command.upgrade(config, f"{before}:{revision.name}", sql=True)
    return output.getvalue()


_IDENTIFIER: Final = r'(?:IF (?:NOT )?EXISTS )?(?:ONLY )?"?(?P<table>\w+)"?'
_CREATE_TABLE: Final = re.compile(rf"CREATE TABLE {_IDENTIFIER}", re.IGNORECASE)
_CREATE_INDEX: Final = re.compile(
    r'CREATE (?:UNIQUE )?INDEX (?P<concurrently>CONCURRENTLY )?.*? ON (?:ONLY )?"?(?P<table>\w+)"?', re.IGNORECASE
)
_ALTER: Final = re.compile(rf"ALTER TABLE {_IDENTIFIER} (?P<action>.*)", re.IGNORECASE)
_DROP: Final = re.compile(rf"DROP (?P<kind>TABLE|VIEW) {_IDENTIFIER}", re.IGNORECASE)
_ROWS: Final = re.compile(rf"(?:UPDATE|DELETE FROM|INSERT INTO) {_IDENTIFIER}", re.IGNORECASE)
_OWN_TABLE: Final = "alembic_version"


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
