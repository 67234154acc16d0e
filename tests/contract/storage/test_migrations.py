"""Migrations create the tables that the code uses, on both engines, and can run repeatedly."""

import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from mailwright.app.schema import prepare
from mailwright.domain.errors import NotDurable
from mailwright.storage import migrate
from mailwright.storage.database import Database
from mailwright.storage.migrate import MIGRATIONS, UnknownSchema, current_revision, newest_revision, upgrade
from mailwright.storage.tables import metadata
from tests.engines import PostgresServer

pytestmark = pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")

NEXT_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("tenants", sa.Column("motto", sa.Text(), nullable=False, server_default="none"))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
async def empty(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A database without any tables."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/empty.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = await server.create_empty()
    database = Database(url)
    yield database
    await database.close()


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of Mailwright with one more migration."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "0002_motto.py").write_text(NEXT_MIGRATION)
    monkeypatch.setattr(migrate, "MIGRATIONS", folder)


async def differences_from_code(database: Database) -> list[Any]:
    differences: list[Any] = []
    await database.run_sync_ddl(
        lambda connection: differences.extend(compare_metadata(MigrationContext.configure(connection), metadata))
    )
    # Partitions of the events table and indexes on expressions are not in the metadata.
    left_out = re.compile(r"\bevents_(default|\d)|\bix_messages_reported\b")
    return [difference for difference in differences if not left_out.search(str(difference))]


async def test_migrations_create_the_tables_of_the_code(database: Database) -> None:
    assert await differences_from_code(database) == []


async def test_upgrading_again_changes_nothing(database: Database) -> None:
    before = await current_revision(database)
    await upgrade(database)
    assert await current_revision(database) == before == newest_revision()


async def test_alembic_reads_the_same_revisions(database: Database) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [newest_revision()]
    recorded: list[str | None] = []
    await database.run_sync_ddl(
        lambda connection: recorded.append(MigrationContext.configure(connection).get_current_revision())
    )
    assert recorded == [await current_revision(database)]


async def test_upgrade_keeps_the_rows_of_an_older_schema(empty: Database, request: pytest.FixtureRequest) -> None:
    await upgrade(empty)
    assert await current_revision(empty) == "0001"
    request.getfixturevalue("next_version")
    assert newest_revision() == "0002"
    await upgrade(empty)
    async with empty.read() as tx:
        [tenant] = await tx.execute(text("SELECT name, motto FROM tenants"))
    assert tuple(tenant) == ("default", "none")
    assert await current_revision(empty) == "0002"


@pytest.mark.usefixtures("next_version")
async def test_empty_database_gets_every_migration(empty: Database) -> None:
    await upgrade(empty)
    async with empty.read() as tx:
        assert len(await tx.execute(text("SELECT motto FROM tenants"))) == 1
    [(added, *_)] = await differences_from_code(empty)
    assert added == "remove_column"  # only the column of the second migration is unknown to the code


async def test_unknown_revision_is_refused_in_plain_words(empty: Database) -> None:
    await upgrade(empty)
    async with empty.write() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '0014'"))
    with pytest.raises(UnknownSchema, match="revision 0014, which this version of Mailwright does not know"):
        await upgrade(empty)
    with pytest.raises(UnknownSchema):
        await prepare(empty)


async def test_startup_upgrades_sqlite_and_explains_postgresql(empty: Database) -> None:
    if empty.dialect == "sqlite":
        await prepare(empty)
        assert await current_revision(empty) == newest_revision()
        return
    with pytest.raises(NotDurable) as refusal:
        await prepare(empty)
    assert str(refusal.value) == (
        "The database schema is older than this version (needs 0001). Run `mailwright db upgrade`."
    )
