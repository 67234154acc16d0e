"""Migrations, on both engines: they make the tables that the code speaks of, and may run again."""

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from mailwright.outbox.tallies import TemplateResults, results_by_template
from mailwright.storage import migrate
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


async def test_upgrading_again_changes_nothing(database: Database) -> None:
    before = await current_revision(database)
    await upgrade(database)
    await upgrade(database, newest_revision())  # the long way: Alembic itself looks
    assert await current_revision(database) == before == newest_revision()


async def test_the_newest_form_is_the_one_that_alembic_would_bring(database: Database) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [newest_revision()]
    noted: list[str | None] = []
    await database.run_sync_ddl(
        lambda connection: noted.append(MigrationContext.configure(connection).get_current_revision())
    )
    assert noted == [await current_revision(database)]


async def test_a_new_file_of_sqlite_holds_what_the_migrations_make_of_an_empty_one(tmp_path: Path) -> None:
    at_once = await _file(tmp_path / "at-once.db")
    step_by_step = await _file(tmp_path / "step-by-step.db", newest_revision())
    assert at_once == step_by_step
    assert any("CREATE TABLE messages" in statement for statement in at_once)


async def test_a_new_file_of_sqlite_misses_no_migration_that_was_not_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "NEWEST_SQLITE", tmp_path / "older.sql")
    (tmp_path / "older.sql").write_text("-- Form 0001 of SQLite\n\nCREATE TABLE half (id INTEGER);\n")
    assert await _file(tmp_path / "new.db") == await _file(tmp_path / "step-by-step.db", newest_revision())


async def _file(file: Path, revision: str = "head") -> list[str]:
    """Everything in it, as statements; but for blanks, and for when each row was made."""
    database = Database(f"sqlite:///{file}")
    await upgrade(database, revision)
    await database.close()
    with closing(sqlite3.connect(file)) as connection:
        return [re.sub(r"\s+|\b\d{13}\b", " ", statement) for statement in connection.iterdump()]


BEFORE_LISTS = """
INSERT INTO contacts (contact_id, tenant_id, email, created_at) VALUES ('c-1', 1, 'ada@example.com', 1);
INSERT INTO suppressions (tenant_id, email, reason, source, created_at) VALUES (1, 'ada@example.com', 'left', 'cli', 7);
INSERT INTO messages (outbox_id, tenant_id, source, request_id, to_email, subject, payload, retry_policy, on_doubt,
  is_bulk, created_at)
VALUES ('o-1', 1, 'api', 'r-1', 'ada@example.com', 's', '{}', 'standard', 'resend', false, 1),
       ('o-2', 1, 'campaign', 'r-2', 'ada@example.com', 's', '{}', 'standard', 'hold', true, 1)
"""


@pytest.fixture(params=["sqlite", "postgresql"])
async def unmigrated(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """One without any tables."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/old.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = await server.create_empty()
    database = Database(url)
    yield database
    await database.close()


async def _run_all(database: Database, statements: str) -> None:
    async with database.write() as tx:
        for statement in statements.split(";"):
            await tx.execute(text(statement))


async def test_what_was_there_before_lists_keeps_its_meaning(unmigrated: Database) -> None:
    await upgrade(unmigrated, "0001")
    await _run_all(unmigrated, BEFORE_LISTS)
    await upgrade(unmigrated)
    async with unmigrated.write() as tx:
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
    assert (entry.email, entry.reason, entry.created_at, entry.list_key) == ("ada@example.com", "left", 7, "*")
    assert [row.list_key for row in listed] == [None, "general"]
    assert (person.status, person.status_updated_at) == ("active", None)


# Two campaigns, one of them with versions; the last click is not added up yet.
BEFORE_VERSIONS = """
INSERT INTO campaigns (id, campaign_id, tenant_id, name, status, definition, created_at, updated_at)
VALUES (1, 'k-1', 1, 'n', 'SENDING', '{"name":"n","experiment":{"testPercent": 20}}', 1, 1),
       (2, 'k-2', 1, 'n', 'SENDING', '{"name": "n"}', 1, 1);
INSERT INTO messages (id, outbox_id, tenant_id, source, request_id, to_email, subject, payload, retry_policy, on_doubt,
  is_bulk, created_at, campaign_key, template_key)
VALUES (1, 'o-1', 1, 'campaign', 'k-1', 'a@example.com', 's', '{}', 'standard', 'hold', true, 1, 1, 7),
       (2, 'o-2', 1, 'campaign', 'k-1', 'b@example.com', 's', '{}', 'standard', 'hold', true, 1, 1, 8),
       (3, 'o-3', 1, 'campaign', 'k-2', 'b@example.com', 's', '{}', 'standard', 'hold', true, 1, 2, 9);
INSERT INTO events (id, message_key, tenant_id, type, created_at, metadata)
VALUES (1, 1, 1, 'SENT', 1800000000000, '{}'), (2, 2, 1, 'SENT', 1800000000000, '{}'),
       (3, 3, 1, 'SENT', 1800000000000, '{}'), (4, 1, 1, 'open', 1800000000000, '{}'),
       (5, 2, 1, 'click', 1800000000000, '{}'), (6, 2, 1, 'click', 1800000000000, '{}'),
       (7, 1, 1, 'click', 1800000000000, '{}');
INSERT INTO installation (name, value) VALUES ('campaigns_tallied_up_to', '6')
"""


async def test_what_was_added_up_before_versions_were_is_counted_once(unmigrated: Database) -> None:
    await upgrade(unmigrated, "0012")
    await _run_all(unmigrated, BEFORE_VERSIONS)
    await upgrade(unmigrated)
    async with unmigrated.read() as tx:
        assert await results_by_template(tx, 1) == {7: TemplateResults(1, 1, 1), 8: TemplateResults(1, 1, 1)}
        tallied = await tx.execute(text("SELECT template_key, sent, opened, clicked FROM version_tallies ORDER BY 1"))
    assert [tuple(row) for row in tallied] == [(7, 1, 1, 0), (8, 1, 1, 1)]
