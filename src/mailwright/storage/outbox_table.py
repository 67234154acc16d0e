"""The outbox table that Mailwright creates in an application's database. The application owns it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from sqlalchemy import BigInteger, ColumnElement, Connection, LargeBinary, Text, cast, column, func, table

from mailwright.storage.database import Database
from mailwright.storage.statements import Dialect

TABLE: Final = "mailwright_outbox"


class RowStatus(StrEnum):
    """The status of a row of the table."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REFUSED = "refused"


# `idempotency_key` is random by default and never used twice, even if the table is created again.
DEFINITIONS: Final[Mapping[Dialect, Sequence[str]]] = {
    "postgresql": (
        f"""CREATE TABLE IF NOT EXISTS {TABLE} (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  idempotency_key TEXT NOT NULL UNIQUE DEFAULT gen_random_uuid()::text,
  email JSONB NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'refused')),
  outbox_id TEXT,
  error TEXT,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now()
)""",
        f"CREATE INDEX IF NOT EXISTS {TABLE}_pending ON {TABLE} (id) WHERE status = 'pending'",
    ),
    "sqlite": (
        f"""CREATE TABLE IF NOT EXISTS {TABLE} (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  idempotency_key TEXT NOT NULL UNIQUE DEFAULT (lower(hex(randomblob(16)))),
  email TEXT NOT NULL CHECK (json_valid(email)),
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'refused')),
  outbox_id TEXT,
  error TEXT,
  created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
)""",
        f"CREATE INDEX IF NOT EXISTS {TABLE}_pending ON {TABLE} (id) WHERE status = 'pending'",
    ),
}

outbox_rows = table(
    TABLE,
    column("id", BigInteger),
    column("idempotency_key", Text),
    column("email", Text),
    column("status", Text),
    column("outbox_id", Text),
    column("error", Text),
    column("created_at", Text),
)


def as_bytes(value: ColumnElement[str], dialect: Dialect) -> ColumnElement[bytes]:
    """Return an expression for the bytes of a text in UTF-8.

    SQLite stores any bytes as text. Reading invalid bytes as text would fail for all rows of the query.
    """
    if dialect == "sqlite":
        return cast(value, LargeBinary)
    return func.convert_to(cast(value, Text), "UTF8", type_=LargeBinary)


async def create_outbox_table(database: Database) -> None:
    """Create the table if it does not exist."""

    def create(connection: Connection) -> None:
        for statement in DEFINITIONS[database.dialect]:
            connection.exec_driver_sql(statement)
        connection.commit()

    await database.run_sync_ddl(create)
