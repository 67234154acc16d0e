"""Migrations: brings a database to the newest form. Safe to run again and from several processes at once."""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from mailwright.storage.database import Database

# Any number that nothing else on the server uses: it names the lock under which one process migrates.
_POSTGRESQL_LOCK = 5_204_771


async def upgrade(database: Database, revision: str = "head") -> None:
    await database.run_sync_ddl(lambda connection: _run(connection, command.upgrade, revision))


async def current_revision(database: Database) -> str | None:
    found: list[str | None] = []
    await database.run_sync_ddl(
        lambda connection: found.append(MigrationContext.configure(connection).get_current_revision())
    )
    return found[0]


def newest_revision() -> str | None:
    return ScriptDirectory.from_config(_config()).get_current_head()


def _run(connection: Any, work: Any, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_POSTGRESQL_LOCK})")
    work(config, revision)
    connection.commit()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
