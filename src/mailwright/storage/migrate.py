"""Upgrade a database to the newest schema. Safe to run again and from several processes at once.

Each unit of work is one transaction, which also records the progress. A process that is killed leaves a database that
the next upgrade finishes.
"""

import time
from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from sqlalchemy import Connection, inspect, select, text

from mailwright import __version__
from mailwright.storage.database import Database
from mailwright.storage.privileges import revoke_access
from mailwright.storage.revision import Revision, SchemaStatement, list_names, load_revision, newest_revision, sql
from mailwright.storage.schema_state import InstalledSchema, SchemaStatus, UnknownSchema, load_schema, require_known
from mailwright.storage.tables import VIEWS, metadata, schema_revisions

# The advisory lock of a migration on PostgreSQL. The number is arbitrary; nothing else on the server may use it.
_MIGRATION_LOCK: Final = 5_204_771
_RECORD: Final = text("""
INSERT INTO schema_revisions (revision, mailwright_version, oldest_compatible, started_at, finished_at, step)
VALUES (:revision, :version, :oldest_compatible, :now, :now, :step)
ON CONFLICT (revision) DO UPDATE SET finished_at = excluded.finished_at, step = excluded.step, position = NULL
""")


async def upgrade(database: Database) -> None:
    """Apply every revision that the database lacks. Revoke access that other roles were granted in the meantime."""
    found = await require_upgradable(database)
    if found.status is SchemaStatus.UNRECORDED:
        await database.run_sync_ddl(_adopt)
    if not found.is_usable:
        await database.run_sync_ddl(lambda connection: _migrate(connection, newest_revision()))
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


def _migrate(connection: Connection, until: str) -> None:
    names = tuple(takewhile(lambda name: name <= until, list_names()))
    while _advance(connection, names):
        pass


def _advance(connection: Connection, names: tuple[str, ...]) -> bool:
    """Do the next unit of work, and record it, in one transaction. Return False if nothing is left to do."""
    with connection.begin():
        _lock(connection)
        finished = _finished(connection)
        if (name := next((name for name in names if name not in finished), None)) is None:
            return False
        revision = load_revision(name)
        _run(connection, revision.steps)
        _record(connection, revision)
        return True


def _adopt(connection: Connection) -> None:
    """Record revision 0001 in a database of a build that recorded it in another table."""
    with connection.begin():
        _lock(connection)
        if _finished(connection):
            return  # Another process was first.
        first = load_revision(list_names()[0])
        _run(connection, (step for step in first.steps if f"CREATE TABLE {schema_revisions.name} " in str(step)))
        _run(connection, [sql("DROP TABLE alembic_version")])
        _record(connection, first)


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")


def _finished(connection: Connection) -> set[str]:
    if not inspect(connection).has_table(schema_revisions.name):
        return set()
    columns = schema_revisions.c
    return set(connection.scalars(select(columns.revision).where(columns.finished_at.is_not(None))))


def _run(connection: Connection, statements: Iterable[SchemaStatement]) -> None:
    for statement in statements:
        if found := statement.text("sqlite" if connection.dialect.name == "sqlite" else "postgresql"):
            connection.exec_driver_sql(found)


def _record(connection: Connection, revision: Revision) -> None:
    values = {"revision": revision.name, "version": __version__, "oldest_compatible": revision.oldest_compatible}
    now = time.time_ns() // 1_000_000
    connection.execute(_RECORD, {**values, "now": now, "step": len(revision.steps)})


def _revoke(connection: Connection) -> None:
    """Leave access to the tables, views and sequences of this schema to their owner."""
    with connection.begin():
        connection.exec_driver_sql(revoke_access(*metadata.tables, *VIEWS))
