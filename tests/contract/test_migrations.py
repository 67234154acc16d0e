"""Migrations, on both engines: they make the tables that the code speaks of, and may run again."""

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from mailwright.storage.database import Database
from mailwright.storage.migrate import current_revision, newest_revision, upgrade
from mailwright.storage.tables import metadata


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
    assert await current_revision(database) == before == newest_revision()
