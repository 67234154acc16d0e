"""Upgrade a database to the newest schema. Safe to run again and from several processes at once.

Each unit of work is one transaction, which also records the progress, or on PostgreSQL a change of an index beside
running writes, which can begin again. A process that is killed leaves a database that the next upgrade finishes.
"""

import re
import time
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Final, NamedTuple

from sqlalchemy import Connection, inspect, select, text, update
from sqlalchemy.exc import DBAPIError

from mailwright import __version__
from mailwright.domain.errors import DatabaseNotReady
from mailwright.storage.batched_changes import change_batch
from mailwright.storage.database import Database
from mailwright.storage.index_changes import change_index
from mailwright.storage.privileges import revoke_access
from mailwright.storage.revision import (
    BatchedChange,
    IndexChange,
    Revision,
    SchemaStatement,
    Step,
    list_names,
    load_revision,
    newest_revision,
    sql,
)
from mailwright.storage.schema_state import InstalledSchema, SchemaStatus, UnknownSchema, load_schema, require_known
from mailwright.storage.statements import Dialect
from mailwright.storage.tables import VIEWS, metadata, schema_revisions

# The advisory lock of a migration on PostgreSQL. The number is arbitrary; nothing else on the server may use it.
_MIGRATION_LOCK: Final = 5_204_771
_FIRST: Final = -(2**63)  # Less than every key.
# The shortest pause between two transactions on SQLite, whose writers look again every 0.1 s at most.
_PAUSE_SECONDS: Final = 0.15
# The error texts of SQLite and PostgreSQL for tables that are not those of the revision before.
_OTHER_TABLES: Final = re.compile(r"no such (table|column|index)|duplicate column name|already exists|does not exist")
_RECORD: Final = text("""
INSERT INTO schema_revisions (revision, mailwright_version, oldest_compatible, started_at, finished_at, step)
VALUES (:revision, :version, :oldest_compatible, :now, :finished_at, :step)
ON CONFLICT (revision) DO UPDATE SET finished_at = excluded.finished_at, step = excluded.step, position = NULL
WHERE schema_revisions.step < excluded.step
""")


class _Progress(NamedTuple):
    """The finished revisions, the number of finished steps of each, and how far the current step has come."""

    finished: set[str]
    steps: dict[str, int]
    positions: dict[str, int | None]


async def upgrade(database: Database) -> None:
    """Apply every revision that the database lacks. Revoke access that other roles were granted in the meantime."""
    found = await require_upgradable(database)
    if found.status is SchemaStatus.UNRECORDED:
        await database.run_sync_ddl(_adopt)
    if not found.is_usable:
        pause = _pause if database.dialect == "sqlite" and found.status is not SchemaStatus.EMPTY else None
        await database.run_sync_ddl(lambda connection: _migrate(connection, newest_revision(), pause))
    elif found.version != __version__:
        await database.run_sync_ddl(_record_version)
    if database.dialect == "postgresql":
        await database.run_sync_ddl(_revoke)


async def require_upgradable(database: Database) -> InstalledSchema:
    """Return the state of the schema; raise an error if this version cannot upgrade it. Nothing is ever downgraded."""
    found = await require_known(database)
    if found.status is SchemaStatus.COMPATIBLE:
        raise UnknownSchema(found.revision)
    return found


async def create_schema(database: Database, revision: str) -> None:
    """Create the schema of a revision in an empty database, to load a backup that was made with it."""
    if revision not in list_names():
        raise UnknownSchema(revision)
    await database.run_sync_ddl(lambda connection: _migrate(connection, revision))


async def current_revision(database: Database) -> str | None:
    """Return the schema revision of the database, or None if it is empty."""
    return (await load_schema(database)).revision


def _migrate(connection: Connection, until: str, pause: Callable[[float], None] | None = None) -> None:
    """Apply the revisions. `pause` runs after each unit of work with the seconds that it took, and no lock is held."""
    names = tuple(takewhile(lambda name: name <= until, list_names()))
    began = time.monotonic()
    while _advance(connection, names):
        if pause is not None:
            pause(time.monotonic() - began)
        began = time.monotonic()


def _pause(seconds: float) -> None:
    """Let other processes write to a SQLite file. They poll for its lock, and would rarely find it free otherwise."""
    time.sleep(max(_PAUSE_SECONDS, seconds))


def _advance(connection: Connection, names: tuple[str, ...]) -> bool:
    """Do the next unit of work, and record it. Return False if nothing is left to do."""
    with connection.begin():
        _lock(connection)
        progress = _progress(connection)
        if (name := next((name for name in names if name not in progress.finished), None)) is None:
            return False
        revision, done = load_revision(name), progress.steps.get(name, 0)
        dialect = _dialect(connection)
        match step := revision.steps[done]:
            case BatchedChange():
                _advance_batch(connection, revision, done, step, progress.positions.get(name))
                return True
            case IndexChange() if dialect == "sqlite":  # Alone, so that other processes can write before the next step.
                together: tuple[Step, ...] = (step,)
            case _:
                together = tuple(takewhile(lambda each: isinstance(each, SchemaStatement), revision.steps[done:]))
        _run_revision(connection, name, together)
        _record(connection, revision, done + len(together))
    if isinstance(step, IndexChange) and not together:
        change_index(connection, step)
        with connection.begin():
            _lock(connection)
            _record(connection, revision, done + 1)
    return True


def _advance_batch(
    connection: Connection, revision: Revision, done: int, change: BatchedChange, position: int | None
) -> None:
    until = change_batch(connection, _dialect(connection), change, _FIRST if position is None else position)
    if until is None:
        _record(connection, revision, done + 1)
        return
    _record(connection, revision, done)  # There is no row yet if this is the first step.
    ours = schema_revisions.c.revision == revision.name
    connection.execute(update(schema_revisions).where(ours).values(position=until))


def _adopt(connection: Connection) -> None:
    """Record revision 0001 in a database of a build that recorded it in another table."""
    with connection.begin():
        _lock(connection)
        if _progress(connection).finished:
            return  # Another process was first.
        first = load_revision(list_names()[0])
        _run(connection, (step for step in first.steps if f"CREATE TABLE {schema_revisions.name} " in str(step)))
        _run(connection, [sql("DROP TABLE alembic_version")])
        _record(connection, first, len(first.steps))


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")


def _progress(connection: Connection) -> _Progress:
    if not inspect(connection).has_table(schema_revisions.name):
        return _Progress(set(), {}, {})
    columns = schema_revisions.c
    rows = connection.execute(select(columns.revision, columns.finished_at, columns.step, columns.position)).all()
    finished = {row.revision for row in rows if row.finished_at is not None}
    steps = {row.revision: row.step for row in rows}
    return _Progress(finished, steps, {row.revision: row.position for row in rows})


def _dialect(connection: Connection) -> Dialect:
    return "sqlite" if connection.dialect.name == "sqlite" else "postgresql"


def _run(connection: Connection, steps: Iterable[Step]) -> None:
    for step in steps:
        if found := step.text(_dialect(connection)):
            connection.exec_driver_sql(found)


def _run_revision(connection: Connection, name: str, steps: Iterable[Step]) -> None:
    try:
        _run(connection, steps)
    except DBAPIError as error:
        if not _OTHER_TABLES.search(reason := str(error.orig).splitlines()[0]):
            raise
        raise DatabaseNotReady(
            f"The migration to schema {name} does not fit the tables of the database ({reason}): something else than "
            "Mailwright changed them. Restore a backup that was made before the upgrade. This step changed nothing."
        ) from error


def _record(connection: Connection, revision: Revision, step: int) -> None:
    """Record the number of finished steps, unless another process has recorded more."""
    now = time.time_ns() // 1_000_000
    values = {"revision": revision.name, "version": __version__, "oldest_compatible": revision.oldest_compatible}
    finished_at = now if step == len(revision.steps) else None
    connection.execute(_RECORD, {**values, "now": now, "finished_at": finished_at, "step": step})


def _record_version(connection: Connection) -> None:
    """Record an upgrade to a version with the same schema, so that the next one knows which defaults it had."""
    with connection.begin():
        newest = schema_revisions.c.revision == newest_revision()
        connection.execute(update(schema_revisions).where(newest).values(mailwright_version=__version__))


def _revoke(connection: Connection) -> None:
    """Leave access to the tables, views and sequences of this schema to their owner."""
    with connection.begin():
        connection.exec_driver_sql(revoke_access(*metadata.tables, *VIEWS))
