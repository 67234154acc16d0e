"""Migrations: brings a database to the newest form. Safe to run again and from several processes at once."""

import re
from pathlib import Path
from typing import Any, Final

from sqlalchemy import inspect, text

from mailwright.storage.database import Database

MIGRATIONS: Final = Path(__file__).parent / "migrations"
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
    await database.run_sync_ddl(lambda connection: found.append(_noted(connection)))
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
    # Whoever finds the newest form already is spared Alembic, and the 6 MB that it brings along.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_POSTGRESQL_LOCK})")
    command.upgrade(config, revision)
    connection.commit()
