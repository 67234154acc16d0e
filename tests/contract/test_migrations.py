"""Migrations, on both engines: they make the tables that the code speaks of, and may run again."""

from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from mailwright.storage.database import Database
from mailwright.storage.migrate import MIGRATIONS, current_revision, newest_revision, upgrade
from mailwright.storage.tables import metadata
from tests.engines import PostgresServer


@pytest.mark.promise("migrate-matches")
async def test_the_migrations_make_the_tables_that_the_code_speaks_of(database: Database) -> None:
    differences: list[Any] = []
    await database.run_sync_ddl(
        lambda connection: differences.extend(compare_metadata(MigrationContext.configure(connection), metadata))
    )
    # Partitions of the events table are PostgreSQL's own affair.
    assert [each for each in differences if "events_" not in str(each)] == []


@pytest.mark.promise("migrate-again")
async def test_upgrading_again_changes_nothing(database: Database) -> None:
    before = await current_revision(database)
    await upgrade(database)
    await upgrade(database, newest_revision())  # the long way: Alembic itself looks
    assert await current_revision(database) == before == newest_revision()


@pytest.mark.promise("migrate-again")
async def test_the_newest_form_is_the_one_that_alembic_would_bring(database: Database) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [newest_revision()]
    noted: list[str | None] = []
    await database.run_sync_ddl(
        lambda connection: noted.append(MigrationContext.configure(connection).get_current_revision())
    )
    assert noted == [await current_revision(database)]


BEFORE_LISTS = """
INSERT INTO contacts (contact_id, tenant_id, email, created_at) VALUES ('c-1', 1, 'ada@example.com', 1);
INSERT INTO suppressions (tenant_id, email, reason, source, created_at) VALUES (1, 'ada@example.com', 'left', 'cli', 7);
INSERT INTO messages (outbox_id, tenant_id, source, request_id, to_email, subject, payload, retry_policy, on_doubt,
  is_bulk, created_at)
VALUES ('o-1', 1, 'api', 'r-1', 'ada@example.com', 's', '{}', 'standard', 'resend', false, 1),
       ('o-2', 1, 'campaign', 'r-2', 'ada@example.com', 's', '{}', 'standard', 'hold', true, 1)
"""


@pytest.mark.promise("migrate-data")
@pytest.mark.parametrize("engine_name", ["sqlite", "postgresql"])
async def test_what_was_there_before_lists_keeps_its_meaning(
    engine_name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine_name == "sqlite":
        url = f"sqlite:///{tmp_path}/old.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = await server.create_empty()
    database = Database(url)
    try:
        await upgrade(database, "0001")
        async with database.write() as tx:
            for statement in BEFORE_LISTS.split(";"):
                await tx.execute(text(statement))
        await upgrade(database)
        async with database.write() as tx:
            [entry] = await tx.execute(text("SELECT * FROM suppressions"))
            listed = await tx.execute(text("SELECT list_key FROM messages ORDER BY id"))
            [person] = await tx.execute(text("SELECT status, status_updated_at FROM contacts"))
            # A second scope of the same address has a place now.
            await tx.execute(
                text(
                    "INSERT INTO suppressions (tenant_id, email, reason, source, created_at, list_key) "
                    "VALUES (1, 'ada@example.com', 'left', 'cli', 8, 'news')"
                )
            )
    finally:
        await database.close()
    assert (entry.email, entry.reason, entry.created_at, entry.list_key) == ("ada@example.com", "left", 7, "*")
    assert [row.list_key for row in listed] == [None, "general"]
    assert (person.status, person.status_updated_at) == ("active", None)
