"""Migrations: brings a database to the newest form. Safe to run again and from several processes at once."""

import re
from pathlib import Path
from typing import Any, Final

from sqlalchemy import inspect, text

from mailwright.storage.database import Database

MIGRATIONS: Final = Path(__file__).parent / "migrations"
# What the migrations make of an empty SQLite file, as `make docs` writes it down.
NEWEST_SQLITE: Final = MIGRATIONS / "newest_sqlite.sql"
# Any number that nothing else on the server uses: it names the lock under which one process migrates.
_POSTGRESQL_LOCK = 5_204_771
_REVISION: Final = re.compile(r'^revision = "(\w+)"', re.MULTILINE)
_FOLLOWS: Final = re.compile(r'^down_revision = "(\w+)"', re.MULTILINE)


async def upgrade(database: Database, revision: str = "head") -> None:
    if revision == "head" and await current_revision(database) == newest_revision():
        return
    await database.run_sync_ddl(lambda connection: _run(connection, revision))


async def current_revision(database: Database) -> str | None:
    found: list[str | None] = []
    await database.run_sync_ddl(lambda connection: found.append(_noted(connection)), read_only=True)
    return found[0]


def newest_revision() -> str:
    """The one that no other follows, as the files themselves say: Alembic would import every one of them to tell."""
    files = [file.read_text(encoding="utf-8") for file in (MIGRATIONS / "versions").glob("*.py")]
    follows: dict[str, list[str]] = {_REVISION.findall(file)[0]: _FOLLOWS.findall(file) for file in files}
    [newest] = follows.keys() - {before for each in follows.values() for before in each}
    return newest


def _noted(connection: Any) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    noted: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return noted


def _run(connection: Any, revision: str) -> None:
    statements = _newest_form() if revision == "head" and _is_new_file(connection) else []
    for statement in statements:
        connection.exec_driver_sql(statement)
    if not statements:
        _migrate(connection, revision)
    connection.commit()


def _is_new_file(connection: Any) -> bool:
    return connection.dialect.name == "sqlite" and _noted(connection) is None


def _newest_form() -> list[str]:
    """Statement by statement; nothing where a migration came after it was written down, and has to be run."""
    head, _, statements = NEWEST_SQLITE.read_text(encoding="utf-8").partition("\n\n")
    return statements.split("\n\n") if newest_revision() in head else []


def _migrate(connection: Any, revision: str) -> None:
    # Whoever finds the newest form, or makes it in a new file, is spared Alembic and the 12 MB that it brings along.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_POSTGRESQL_LOCK})")
    command.upgrade(config, revision)
