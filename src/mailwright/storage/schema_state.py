"""Find out which schema a database has, by what it records and by its real tables. All commands use this test."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from sqlalchemy import select

from mailwright.domain.errors import DatabaseNotReady, MailwrightError, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Database, is_missing
from mailwright.storage.outbox_table import TABLE as OUTBOX_TABLE
from mailwright.storage.revision import list_names, newest_revision
from mailwright.storage.schema_facts import Fact, expected_facts, find_differences, read_facts
from mailwright.storage.tables import metadata, schema_revisions

# The table of builds before 0.2.0, whose revision 0001 had various contents.
_EARLIER: Final = {"alembic_version", "messages", "deliveries"}
_SHOWN_DIFFERENCES: Final = 3


class SchemaStatus(StrEnum):
    EMPTY = "empty"
    CURRENT = "current"
    OLDER = "older"
    UNFINISHED = "unfinished"  # An upgrade was interrupted, or is running.
    COMPATIBLE = "compatible"  # A newer version upgraded it, and this version can run beside that one.
    NEWER = "newer"
    UNRECORDED = "unrecorded"  # A build before 0.2.0 created it, with the tables of revision 0001.
    EARLIER_BUILD = "earlier build"  # One with other tables.
    OTHER_PROGRAM = "other program"
    DIFFERENT = "different"


class RecordedRevision(NamedTuple):
    revision: str
    mailwright_version: str
    oldest_compatible: str
    finished_at: int | None
    step: int
    position: int | None


@dataclass(frozen=True, slots=True)
class InstalledSchema:
    """The schema of a database. `revision`: the newest that was begun. `differences`: what its tables lack.

    `version`: the version of Mailwright that upgraded the database last.
    """

    status: SchemaStatus
    revision: str | None = None
    differences: tuple[str, ...] = ()
    version: str | None = None

    @property
    def is_usable(self) -> bool:
        return self.status in (SchemaStatus.CURRENT, SchemaStatus.COMPATIBLE)


class UnknownSchema(MailwrightError):
    """A newer version of Mailwright upgraded the database."""

    code = "UNKNOWN_SCHEMA"

    def __init__(self, revision: str | None) -> None:
        super().__init__(
            f"The database has the schema revision {revision}, which this version of Mailwright does not know "
            f"(it knows up to {newest_revision()}): a newer version upgraded it. Install that version or a later one. "
            "Nothing was changed."
        )
        self.revision = revision


class SchemaOutdated(DatabaseNotReady):
    """The database schema is older than this version."""

    code = "SCHEMA_OUTDATED"


async def load_schema(database: Database, *, within: float | None = None) -> InstalledSchema:
    """Read the state of the schema. Nothing is changed. `within`: see `Database.read`."""
    if is_missing(database):
        return InstalledSchema(SchemaStatus.EMPTY)
    async with database.read(within=within) as tx:
        facts = await read_facts(tx, database.dialect)
        is_recorded = Fact("table", schema_revisions.name) in facts
        columns = (schema_revisions.c[name] for name in RecordedRevision._fields)
        rows = await tx.execute(select(*columns).order_by(schema_revisions.c.revision)) if is_recorded else ()
    recorded = [RecordedRevision._make(row) for row in rows]
    finished = [row.mailwright_version for row in recorded if row.finished_at is not None]
    return replace(_classify(database, facts, recorded), version=finished[-1] if finished else None)


async def require_known(database: Database) -> InstalledSchema:
    """Return the state of the schema; raise an error if this version can neither use nor upgrade it."""
    found = await load_schema(database)
    match found.status:
        case SchemaStatus.NEWER:
            raise UnknownSchema(found.revision)
        case SchemaStatus.EARLIER_BUILD:
            raise DatabaseNotReady(
                "A build of Mailwright before 0.2.0 created the database, and its tables differ from those of 0.2.0 "
                f"({_in_words(found.differences)}). Export what you need with that build, create a new database with "
                "this version, and import it there. Nothing was changed."
            )
        case SchemaStatus.OTHER_PROGRAM:
            raise DatabaseNotReady(
                f"The database belongs to another program ({_in_words(found.differences)}). Use another database, or "
                "on PostgreSQL another schema. Nothing was changed."
            )
        case SchemaStatus.DIFFERENT:
            raise DatabaseNotReady(
                f"The tables of the database differ from those of schema revision {found.revision}: "
                f"{_in_words(found.differences)}. Something else than Mailwright changed them. Undo the change, or "
                "restore a backup. Nothing was changed."
            )
    return found


async def require_usable(database: Database) -> InstalledSchema:
    """Return the state of the schema; raise an error unless this version can use it as it is."""
    found = await require_known(database)
    refuse_outdated(found)
    return found


def refuse_outdated(found: InstalledSchema) -> None:
    """Raise an error if a known schema is one that an upgrade has to create or finish first."""
    if found.is_usable:
        return
    newest = newest_revision()
    match found.status:
        case SchemaStatus.EMPTY:
            raise SchemaOutdated(f"The database is empty (needs schema {newest}).")
        case SchemaStatus.UNFINISHED:
            raise SchemaOutdated(
                f"The upgrade of the database to schema {found.revision} is unfinished: it is running, or was "
                "interrupted."
            )
        case _:
            raise SchemaOutdated(f"The database schema is older than this version (needs {newest}).")


async def require_current(database: Database) -> str:
    """Return the revision; raise an error unless it is the one of this version, for what reads or writes all tables."""
    found = await require_usable(database)
    if found.status is SchemaStatus.COMPATIBLE:
        raise NotPossibleNow(
            f"A newer version of Mailwright upgraded the database to schema {found.revision}. Use that version: this "
            f"one knows the tables of {newest_revision()} only."
        )
    assert found.revision is not None
    return found.revision


def _classify(database: Database, facts: frozenset[Fact], rows: Sequence[RecordedRevision]) -> InstalledSchema:
    if not rows:
        return _without_record(database, facts)
    known = list_names()
    last = rows[-1]
    unknown = [row for row in rows if row.revision not in known]
    if unknown:
        is_compatible = all(row.revision > known[-1] >= row.oldest_compatible for row in unknown)
        return InstalledSchema(SchemaStatus.COMPATIBLE if is_compatible else SchemaStatus.NEWER, last.revision)
    if last.finished_at is None:
        return InstalledSchema(SchemaStatus.UNFINISHED, last.revision)
    if differences := find_differences(facts, expected_facts(last.revision)):
        return InstalledSchema(SchemaStatus.DIFFERENT, last.revision, differences)
    is_newest = last.revision == known[-1]
    return InstalledSchema(SchemaStatus.CURRENT if is_newest else SchemaStatus.OLDER, last.revision)


def _without_record(database: Database, facts: frozenset[Fact]) -> InstalledSchema:
    tables = {fact.name for fact in facts if fact.kind == "table"}
    if tables >= _EARLIER:
        differences = tuple(_since_then(facts))
        status = SchemaStatus.EARLIER_BUILD if differences else SchemaStatus.UNRECORDED
        return InstalledSchema(status, list_names()[0], differences)
    others = tables - {OUTBOX_TABLE}
    if database.dialect == "postgresql":  # Programs may share a PostgreSQL database if their tables have other names.
        others &= set(metadata.tables)
    if others:
        return InstalledSchema(SchemaStatus.OTHER_PROGRAM, None, tuple(f"table {name}" for name in sorted(others)))
    return InstalledSchema(SchemaStatus.EMPTY)


def _since_then(facts: frozenset[Fact]) -> list[str]:
    """Return the differences between the schema of an earlier build and revision 0001."""
    expected = frozenset(
        fact for fact in expected_facts(list_names()[0]) if fact.name.partition(".")[0] != schema_revisions.name
    )
    ours = {fact.name for fact in expected if fact.kind == "table"}
    columns = {fact[:2] for fact in expected}
    unknown = [
        f"{fact} is not in 0.2.0"
        for fact in sorted(facts)
        if fact.kind == "column" and fact.name.partition(".")[0] in ours and fact[:2] not in columns
    ]
    return [*find_differences(facts, expected), *unknown]


def _in_words(differences: Sequence[str]) -> str:
    shown = ", ".join(differences[:_SHOWN_DIFFERENCES])
    more = len(differences) - _SHOWN_DIFFERENCES
    return f"{shown} and {more} more" if more > 0 else shown
