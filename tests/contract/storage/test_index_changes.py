"""Revisions change indexes of PostgreSQL while writes go on, and a killed upgrade continues."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text

from mailwright.storage.database import Database
from mailwright.storage.migrate import create_schema, upgrade
from mailwright.storage.revision import index
from mailwright.storage.schema_state import SchemaStatus, load_schema
from tests.engines import PostgresServer

LOCK = "LOCK TABLE messages IN ROW EXCLUSIVE MODE"  # The lock that an insert takes.
BUILDING = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock'"
KILL = BUILDING.replace("SELECT 1", "SELECT pg_terminate_backend(pid)")
REPORTER = """
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'reporting') THEN CREATE ROLE reporting; END IF;
END $$
"""


@pytest.fixture
async def released(postgres_server: PostgresServer) -> AsyncIterator[Database]:
    """A database with the schema of release 0.2.0."""
    url = await postgres_server.create_empty()
    database = Database(url)
    await create_schema(database, "0001")
    yield database
    await database.close()
    await postgres_server.drop_empty(url)


@asynccontextmanager
async def upgrade_that_waits(database: Database) -> AsyncIterator["asyncio.Task[None]"]:
    """Run an upgrade that waits for a transaction, which ends with the block, before it builds an index."""
    other = Database(database.url.render_as_string(hide_password=False))
    try:
        async with database.write() as tx:
            await tx.execute(text(LOCK))
            running = asyncio.create_task(upgrade(other))
            async with asyncio.timeout(30):
                while not await is_building(database):
                    assert not running.done(), running
            yield running
    finally:
        await other.close()


async def is_building(database: Database) -> bool:
    async with database.read() as tx:
        return bool(await tx.execute(text(BUILDING)))


async def is_valid(database: Database, name: str) -> bool | None:
    async with database.read() as tx:
        rows = await tx.execute(text(f"SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{name}')"))
    return rows[0].indisvalid if rows else None


async def test_messages_are_written_while_an_index_is_built(released: Database) -> None:
    async with upgrade_that_waits(released) as running:
        assert (await load_schema(released)).status is SchemaStatus.UNFINISHED
        async with released.write() as tx:
            await tx.execute(text("SET LOCAL lock_timeout = 2000"))  # An index built otherwise would block this.
            await tx.execute(text(LOCK))
        assert not running.done()
    await running
    assert (await load_schema(released)).status is SchemaStatus.CURRENT
    assert await is_valid(released, "ix_messages_by_time")
    assert await is_valid(released, "ix_messages_reported") is None


async def test_killed_upgrade_continues(released: Database) -> None:
    async with upgrade_that_waits(released) as running:
        async with released.write() as tx:
            await tx.execute(text(KILL))
        with pytest.raises(Exception, match=r"terminat|closed|lost"):
            await running
    assert await is_valid(released, "ix_messages_by_time") is False
    assert (await load_schema(released)).status is SchemaStatus.UNFINISHED
    await upgrade(released)
    assert (await load_schema(released)).status is SchemaStatus.CURRENT
    assert await is_valid(released, "ix_messages_by_time")


async def test_second_upgrade_waits_for_the_index_of_the_first(released: Database) -> None:
    async with upgrade_that_waits(released) as running:
        second = asyncio.create_task(upgrade(released))
        await asyncio.sleep(0)
    await asyncio.gather(running, second)
    assert (await load_schema(released)).status is SchemaStatus.CURRENT
    assert await is_valid(released, "ix_messages_by_time")


async def test_replaced_view_keeps_its_readers(released: Database) -> None:
    async with released.write() as tx:
        await tx.execute(text(REPORTER))
        await tx.execute(text("GRANT SELECT ON email_logs TO reporting"))
        await tx.execute(text('CREATE VIEW of_an_operator AS SELECT id, "sesMessageId" FROM email_logs'))
    await upgrade(released)
    async with released.read() as tx:
        [(may_read,)] = await tx.execute(text("SELECT has_table_privilege('reporting', 'email_logs', 'SELECT')"))
        assert await tx.execute(text("SELECT * FROM of_an_operator")) == []
    assert may_read


async def test_planner_knows_that_there_are_few_tenants(released: Database) -> None:
    await upgrade(released)
    async with released.read() as tx:
        [(found,)] = await tx.execute(text("SELECT reltuples FROM pg_class WHERE oid = 'tenants'::regclass"))
    assert found == 1


def test_index_change_is_a_statement_about_one_index() -> None:
    assert index("CREATE UNIQUE INDEX a ON b (c)").postgresql == "CREATE UNIQUE INDEX CONCURRENTLY a ON b (c)"
    assert index("DROP INDEX a").postgresql == "DROP INDEX CONCURRENTLY IF EXISTS a"
    assert index("DROP INDEX a").sqlite == "DROP INDEX a"
    with pytest.raises(ValueError, match="not a change of an index"):
        index("DROP TABLE a")
