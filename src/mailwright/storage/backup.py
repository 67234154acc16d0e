"""Copy all tables of the database to a backup, and load them into an empty database of either engine."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Column, Connection, MetaData, Table, delete, insert, inspect, select, text, tuple_

from mailwright.storage.backup_file import BackupInvalid, BackupWriter, TableRows, decoded
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import installation, metadata, schema_revisions, sessions, stored_files, tenants, workers

_PAGE: Final = 2_000
# Tables that a restore does not change: the header states the revision of the schema, and files are restored as files.
_KEPT: Final = frozenset({schema_revisions.name, stored_files.name})
# Tables that a backup leaves out: running processes and dashboard sessions would be stale after a restore.
_LEFT_OUT: Final = _KEPT | {workers.name, sessions.name}
# The maximum number of rows in the tables of a new database. `installation` has entries that processes write about
# themselves.
_INITIAL_ROWS: Final = {tenants.name: 1, installation.name: 100}


async def write_tables(
    database: Database, writer: BackupWriter, on_rows: Callable[[int], None] = lambda count: None
) -> None:
    """Write one snapshot of every table while other processes keep running; report each batch's rows to `on_rows`."""
    async with database.read() as tx:
        for table in _backed_up():
            writer.start_table(table.name, table.columns.keys())
            async for rows in _pages(tx, table):
                writer.write_rows(table.name, rows)
                on_rows(len(rows))


async def has_content(database: Database) -> bool:
    """Return whether anything was stored since the tables were created."""
    async with database.read() as tx:
        for table in _backed_up():
            more = select(*table.primary_key).offset(_INITIAL_ROWS.get(table.name, 0)).limit(1)
            if await tx.execute(more):
                return True
    return False


def load_tables(connection: Connection, parts: Iterable[TableRows]) -> None:
    """Replace the content of all tables but `_KEPT`, in the caller's transaction."""
    # The backup may have an older schema, with fewer tables.
    names = sorted({*inspect(connection).get_table_names()} & {*metadata.tables} - _KEPT)
    if connection.dialect.name == "postgresql":  # Nothing is read or accepted until the transaction ends.
        connection.execute(text(f"LOCK TABLE {', '.join(names)} IN ACCESS EXCLUSIVE MODE"))
    tables = _existing(connection, names)
    for table in tables.values():
        connection.execute(delete(table))
    for part in parts:
        if part.table not in tables:
            raise BackupInvalid(f"The backup has the table {part.table!r}, which this version does not know.")
        table = tables[part.table]
        if unknown := [name for name in part.columns if name not in table.columns]:
            gone = ", ".join(f"{part.table}.{name}" for name in unknown)
            raise BackupInvalid(
                f"The backup has columns that its schema revision does not have: {gone}. A build before 0.2.0 made it."
            )
        connection.execute(insert(table), [_values(part.columns, row) for row in part.rows])
    if connection.dialect.name == "postgresql":
        _continue_identities(connection, names)


def _backed_up() -> list[Table]:
    return [table for table in metadata.sorted_tables if table.name not in _LEFT_OUT]


def _existing(connection: Connection, names: Sequence[str]) -> dict[str, Table]:
    """Return the tables with the columns that the database has, because the backup may have an older schema."""
    found = inspect(connection).get_multi_columns(filter_names=names)
    return {
        name: Table(name, MetaData(), *(Column(column["name"], column["type"]) for column in columns))
        for (_, name), columns in found.items()
    }


async def _pages(tx: Transaction, table: Table) -> Any:
    """Yield the rows page by page in primary key order, which needs neither a server-side cursor nor a sort."""
    keys = list(table.primary_key)
    query = select(table).order_by(*keys).limit(_PAGE)
    rows: Sequence[Any] = await tx.execute(query)
    while rows:
        yield rows
        last = [getattr(rows[-1], key.name) for key in keys]
        rows = () if len(rows) < _PAGE else await tx.execute(query.where(tuple_(*keys) > tuple_(*last)))


def _values(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return {column: decoded(value) for column, value in zip(columns, row, strict=True)}


def _continue_identities(connection: Connection, names: Iterable[str]) -> None:
    """Advance the ID sequences past the loaded rows, so that new rows get higher IDs.

    A rollback does not reset a sequence, so it must never go back: the previous content would need it.
    """
    for table in (metadata.tables[name] for name in names):
        for column in table.primary_key:
            if column.identity is not None:
                sequence = f"CAST(pg_get_serial_sequence('{table.name}', '{column.name}') AS regclass)"
                highest = f"greatest(coalesce(max({column.name}), 0), coalesce(pg_sequence_last_value({sequence}), 0))"
                connection.execute(text(f"SELECT setval({sequence}, {highest} + 1, false) FROM {table.name}"))  # noqa: S608 - our names
