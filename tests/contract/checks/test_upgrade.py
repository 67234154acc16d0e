"""`upgrade --check` describes an update before it happens, and changes nothing."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from mailwright import __version__
from mailwright.app.backups import back_up
from mailwright.checks.upgrade import UpgradeCheck, check_upgrade
from mailwright.domain.clock import DAY, Clock, ManualClock
from mailwright.ops import release_files, released_settings
from mailwright.ops.released_settings import ChangedDefault
from mailwright.storage import pending_migrations
from mailwright.storage.database import Database
from mailwright.storage.migrate import create_schema, current_revision, upgrade
from mailwright.storage.pending_migrations import describe_statement
from mailwright.storage.revision import list_names
from tests.builders import settings_for
from tests.engines import PostgresServer
from tests.schema_versions import MOTTO, add_revisions

pytestmark = pytest.mark.promise("upgrade-foretold")

MOTTOS = f'{MOTTO}, sql("CREATE TABLE mottos (id INTEGER)"), sql("CREATE INDEX ix_mottos ON mottos (id)")'
MESSAGES = """
INSERT INTO messages (id, outbox_id, tenant_id, source, request_id, to_email, subject, payload, retry_policy, on_doubt,
  is_bulk, created_at)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
SELECT i, 'm' || i, 1, 'api', '', '', '', '{}', '', '', FALSE, i FROM n
"""
STORED = """
INSERT INTO stored_settings (name, value, updated_at, updated_by) VALUES ('{name}', '{value}', 1, 'ada')
"""
BATCHES = 'batches("messages", "UPDATE messages SET subject = payload WHERE id > :after AND id <= :until")'
INDEX = 'sql("CREATE INDEX ix_messages_subject ON messages (subject)"), sql("UPDATE messages SET subject = \'\'")'


@pytest.fixture(params=["sqlite", "postgresql"])
async def empty(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/empty.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = await server.create_empty()
    database = Database(url)
    yield database
    await database.close()


@pytest.fixture(autouse=True)
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings of the releases: those of this version, until a test changes one."""
    folder = tmp_path / "releases"
    folder.mkdir()
    monkeypatch.setattr(release_files, "FOLDER", folder)
    release(folder)
    return folder


def release(folder: Path, version: str = __version__, **changed: Any) -> None:
    defaults = released_settings.current_defaults() | changed
    (folder / f"{version}.json").write_text(json.dumps(defaults))


async def checked(database: Database, clock: Clock | None = None, **environment: str) -> UpgradeCheck:
    settings = settings_for(database.url.render_as_string(hide_password=False))
    return await check_upgrade(settings, database, clock or ManualClock(), environment)


def names_of(found: UpgradeCheck) -> list[str]:
    return [each.name for each in found.changed_defaults]


async def test_current_database_needs_nothing(empty: Database) -> None:
    await upgrade(empty)
    found = await checked(empty)
    assert (found.schema.pending, found.needs_attention, found.backup) == ((), False, None)


async def test_pending_migrations_are_described(
    empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await upgrade(empty)
    before = await current_revision(empty)
    first, second = add_revisions(tmp_path, monkeypatch, MOTTOS, INDEX)
    found = await checked(empty)
    assert [(each.revision, each.title, each.is_safe) for each in found.schema.pending] == [
        (first, "Add mottos.", True),
        (second, "Add mottos.", False),
    ]
    assert [(each.table, each.is_safe) for each in found.schema.pending[0].changes] == [
        ("tenants", True),
        ("mottos", True),
    ]
    assert [each.table for each in found.schema.pending[1].changes] == ["messages", "messages"]
    assert not found.is_safe_during_traffic
    assert await current_revision(empty) == before


async def test_safe_migration_needs_no_stop(empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await upgrade(empty)
    add_revisions(tmp_path, monkeypatch, MOTTO)
    assert (await checked(empty)).is_safe_during_traffic


async def test_new_index_of_a_release_is_described_with_its_rows(empty: Database) -> None:
    await create_schema(empty, "0001")
    async with empty.write() as tx:
        await tx.execute(text(MESSAGES))
        await tx.execute(text("ANALYZE messages"))
    changes = (await checked(empty)).schema.pending[0].changes
    view = ("email_logs", "new or replaced view; locks no table", True)
    if empty.dialect == "postgresql":
        built = ("messages", "index, built while writes go on (about 300 rows)", True)
        deleted = ("ix_messages_reported", "old index, deleted while writes go on", True)
    else:
        built = ("messages", "index; blocks writes while it is built (about 300 rows)", False)
        deleted = ("ix_messages_reported", "old index, deleted; locks its table for a moment", True)
    assert [(each.table, each.effect, each.is_safe) for each in changes] == [built, view, deleted]


async def test_empty_database_gets_all_migrations(empty: Database) -> None:
    found = await checked(empty)
    assert (found.schema.found.revision, len(found.schema.pending)) == (None, len(list_names()))
    assert (found.is_empty, found.compared_release, found.changed_defaults) == (True, None, ())
    assert found.schema.pending[0].is_safe
    assert await current_revision(empty) is None


async def test_newer_database_is_recognised(empty: Database) -> None:
    await upgrade(empty)
    async with empty.write() as tx:
        insert = "INSERT INTO schema_revisions VALUES ('9042', '9.0', '9042', 1, 1, 1, NULL)"
        await tx.execute(text(insert))
    found = await checked(empty)
    assert (found.schema.is_newer, found.schema.found.revision, found.needs_attention) == (True, "9042", True)
    assert "revision 9042, which this version of Mailwright does not know" in str(found.problem)


async def test_removed_settings_are_listed(empty: Database) -> None:
    await upgrade(empty)
    found = await checked(empty, MAILWRIGHT_DATABSE_URL="x")
    assert [each.name for each in found.settings] == ["MAILWRIGHT_DATABSE_URL"]
    assert found.needs_attention


async def test_old_backup_is_not_fresh(empty: Database, tmp_path: Path) -> None:
    await upgrade(empty)
    clock = ManualClock()
    settings = settings_for(empty.url.render_as_string(hide_password=False))
    await back_up(settings, empty, clock, tmp_path / "a.mwbackup")
    assert (await checked(empty, clock)).has_fresh_backup
    clock.advance(2 * DAY)
    assert not (await checked(empty, clock)).has_fresh_backup


async def test_changed_default_of_an_unset_setting_is_named(empty: Database, released: Path) -> None:
    await upgrade(empty)
    release(released, MAILWRIGHT_CONCURRENCY=7, MAILWRIGHT_DAILY_LIMIT=500, MAILWRIGHT_DATABASE_URL="sqlite:///a.db")
    found = await checked(empty)  # Its settings state the database.
    assert found.changed_defaults == (
        ChangedDefault("MAILWRIGHT_CONCURRENCY", "7", "64"),
        ChangedDefault("MAILWRIGHT_DAILY_LIMIT", "500", None),
    )
    assert (found.compared_release, found.needs_attention) == (__version__, True)


async def test_changed_default_of_a_stored_setting_does_not_matter(empty: Database, released: Path) -> None:
    await upgrade(empty)
    release(released, MAILWRIGHT_DAILY_LIMIT=500)
    async with empty.write() as tx:
        await tx.execute(text(STORED.format(name="daily_limit", value="100")))
    assert names_of(await checked(empty)) == []


async def test_changed_default_of_an_unused_provider_does_not_matter(empty: Database, released: Path) -> None:
    await upgrade(empty)
    release(released, POSTMARK_MESSAGE_STREAM="broadcast")
    assert names_of(await checked(empty)) == []
    async with empty.write() as tx:
        await tx.execute(text(STORED.format(name="provider", value="postmark")))
    assert names_of(await checked(empty)) == ["POSTMARK_MESSAGE_STREAM"]


async def test_defaults_are_compared_with_the_last_version_that_upgraded(empty: Database, released: Path) -> None:
    await upgrade(empty)
    async with empty.write() as tx:
        await tx.execute(text("UPDATE schema_revisions SET mailwright_version = '0.1.7'"))
    release(released, "0.1.0", MAILWRIGHT_CONCURRENCY=7)
    found = await checked(empty)
    assert (found.compared_release, names_of(found)) == ("0.1.0", ["MAILWRIGHT_CONCURRENCY"])
    await upgrade(empty)
    found = await checked(empty)
    assert (found.compared_release, names_of(found)) == (__version__, [])


async def test_removed_setting_is_named_with_its_last_release(empty: Database, released: Path) -> None:
    await upgrade(empty)
    release(released, MAILWRIGHT_PARCEL_DEPTH=3)
    async with empty.write() as tx:
        await tx.execute(text(STORED.format(name="parcel_depth", value="3")))
    given, stored = (await checked(empty, MAILWRIGHT_PARCEL_DEPTH="4")).settings
    assert given.problem.startswith(f"was a setting until {__version__} and has no effect any more")
    assert (stored.name, "no effect" in stored.problem) == ("parcel_depth", True)


async def test_long_migration_is_estimated_by_its_rows(
    empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await upgrade(empty)
    add_revisions(tmp_path, monkeypatch, MOTTO, INDEX)
    async with empty.write() as tx:
        await tx.execute(text(MESSAGES))
        await tx.execute(text("ANALYZE messages"))
    rates = pending_migrations.ROWS_PER_SECOND[empty.dialect]
    monkeypatch.setitem(pending_migrations.ROWS_PER_SECOND, empty.dialect, dict.fromkeys(rates, 100))
    found = await checked(empty)
    assert [each.seconds for each in found.schema.pending] == [0, 2 * 300 / 100]
    assert [each.is_safe for each in found.schema.pending] == [True, False]


async def test_changes_in_batches_let_sending_go_on(
    empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await upgrade(empty)
    add_revisions(tmp_path, monkeypatch, BATCHES)
    [change] = (await checked(empty)).schema.pending[0].changes
    assert (change.table, change.effect, change.is_safe) == (
        "messages",
        "changes rows in batches, while writes go on (about 0 rows)",
        True,
    )


async def test_table_that_was_never_analyzed_is_estimated_by_its_size(
    empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await upgrade(empty)
    add_revisions(tmp_path, monkeypatch, INDEX)
    async with empty.write() as tx:
        await tx.execute(text(MESSAGES))
    assert (await checked(empty)).schema.pending[0].seconds > 0


@pytest.mark.parametrize(
    ("sql", "is_safe"),
    [
        ("ALTER TABLE messages ADD COLUMN a TEXT", True),
        ("ALTER TABLE messages ADD COLUMN a TEXT DEFAULT '' NOT NULL", True),
        ("ALTER TABLE messages ADD COLUMN a TEXT NOT NULL", False),
        ("ALTER TABLE messages ADD COLUMN a UUID DEFAULT gen_random_uuid()", False),
        ("ALTER TABLE messages ALTER COLUMN subject TYPE VARCHAR(10)", False),
        ("ALTER TABLE messages ALTER COLUMN subject SET NOT NULL", False),
        ("ALTER TABLE messages ALTER COLUMN subject DROP NOT NULL", True),
        ("ALTER TABLE messages ADD CONSTRAINT c CHECK (id > 0)", False),
        ("ALTER TABLE messages ADD CONSTRAINT c CHECK (id > 0) NOT VALID", True),
        ("ALTER TABLE messages VALIDATE CONSTRAINT c", True),
        ("ALTER TABLE messages DROP COLUMN subject", False),
        ("ALTER TABLE messages RENAME COLUMN subject TO title", False),
        ("ALTER TABLE messages SET LOGGED", False),
        ("CREATE UNIQUE INDEX i ON messages (subject)", False),
        ("CREATE INDEX CONCURRENTLY i ON messages (subject)", True),
        ("DROP INDEX CONCURRENTLY IF EXISTS messages", True),
        ("CREATE OR REPLACE VIEW messages AS SELECT 1", True),
        ("DROP VIEW messages", False),
        ("DELETE FROM messages", False),
        ("DROP TABLE messages", False),
    ],
)
def test_statement_is_judged_by_its_lock(sql: str, *, is_safe: bool) -> None:
    [found] = describe_statement(sql, set())
    assert (found.table, found.is_safe) == ("messages", is_safe)
