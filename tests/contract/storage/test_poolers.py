"""PgBouncer before the database: its pool modes, and what Mailwright leaves in its connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from mailwright.checks.health import check_health
from mailwright.domain.clock import ManualClock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid, NotDurable
from mailwright.outbox.accept import Acceptor
from mailwright.outbox.audit import audit
from mailwright.storage.database import Database
from mailwright.storage.migrate import current_revision, newest_revision, upgrade
from mailwright.storage.statements import Statement
from tests.builders import a_message, ignore_wake, settings_for
from tests.engines import PostgresServer
from tests.pgbouncer import needs_pgbouncer, pgbouncer

pytestmark = needs_pgbouncer

# What another pooler configuration lets through: start-up parameters are dropped instead of refused.
DROPPED = (
    "ignore_startup_parameters = extra_float_digits,synchronous_commit,jit,enable_seqscan,enable_hashjoin,"
    "enable_mergejoin,tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count,tcp_user_timeout"
)
IN_EFFECT = (
    "SELECT current_setting('synchronous_commit') || current_setting('jit') || current_setting('enable_seqscan')"
)


# From 1.21 on, PgBouncer keeps statements of its clients under names of its own.
PREPARED = "SELECT name FROM pg_prepared_statements WHERE name <> '' AND name NOT LIKE 'PGBOUNCER_%'"


@pytest.fixture
async def url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    url = await postgres_server.create()
    yield url
    await postgres_server.drop(url)


async def settings_in_effect(database: Database) -> tuple[str, str]:
    """Return the settings that statements have, with SQLAlchemy and on the hot path."""

    async def hot(runner: Any) -> str:
        [row] = await runner.run(Statement("settings", f"{IN_EFFECT} AS found"))
        return str(row.found)

    async with database.write() as tx:
        [row] = await tx.execute(text(IN_EFFECT))
    return str(row[0]), await database.transact(hot)


@pytest.mark.parametrize("further", ["", DROPPED])
@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_settings_apply_behind_a_pooler(url: str, mode: str, further: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER ROLE postgres SET synchronous_commit = off")
    try:
        with pgbouncer(url, mode, further=further) as address:
            database = Database(address)
            try:
                assert await settings_in_effect(database) == ("onoffon", "onoffoff")
                assert database.has_pooler
            finally:
                await database.close()
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER ROLE postgres RESET synchronous_commit")


async def test_direct_connection_is_recognised(url: str) -> None:
    database = Database(url)
    try:
        assert await settings_in_effect(database) == ("onoffon", "onoffoff")
        assert not database.has_pooler
    finally:
        await database.close()


async def test_no_setting_and_no_statement_stays_in_a_shared_connection(url: str) -> None:
    """Another program that uses the same pool gets the connection as the server opened it."""
    with pgbouncer(url, "transaction", size=1) as address:
        database = Database(address)
        try:
            await settings_in_effect(database)
            with psycopg.connect(address, autocommit=True, prepare_threshold=None) as other:
                [[seqscan]] = other.execute("SELECT current_setting('enable_seqscan')")
                prepared = other.execute(PREPARED).fetchall()
        finally:
            await database.close()
    assert (seqscan, prepared) == ("on", [])


async def test_statement_mode_is_refused(url: str) -> None:
    with pgbouncer(url, "statement") as address:
        database = Database(address)
        try:
            with pytest.raises(ConfigurationInvalid, match="set `pool_mode = transaction`"):
                await audit(database)
        finally:
            await database.close()


async def test_transactions_take_turns_with_a_single_connection(url: str) -> None:
    with pgbouncer(url, "transaction", size=1) as address:
        databases = [Database(address) for _ in range(3)]
        try:
            acceptors = [Acceptor(each, SystemClock(), ignore_wake) for each in databases]
            await asyncio.gather(*(each.accept([a_message()]) for each in acceptors * 10))
            found = await audit(databases[0])
            assert found.ok
            assert found.accepted == 30
        finally:
            for each in databases:
                await each.close()


async def test_schema_is_created_through_a_pooler(postgres_server: PostgresServer) -> None:
    url = await postgres_server.create_empty()
    try:
        with pgbouncer(url, "transaction") as address:
            database = Database(address)
            try:
                await upgrade(database)
                await upgrade(database)
                assert await current_revision(database) == newest_revision()
            finally:
                await database.close()
    finally:
        await postgres_server.drop_empty(url)


async def test_failed_statement_is_rolled_back(url: str) -> None:
    with pgbouncer(url, "transaction", size=1) as address:
        database = Database(address)
        try:
            with suppress(ZeroDivisionError):
                async with database.write() as tx:
                    await tx.execute(text("UPDATE tenants SET created_at = 7"))
                    raise ZeroDivisionError
            async with database.read() as tx:
                assert not await tx.execute(text("SELECT 1 FROM tenants WHERE created_at = 7"))
        finally:
            await database.close()


async def test_lost_pooler_is_an_outage(url: str) -> None:
    with pgbouncer(url, "transaction") as address:
        database = Database(address)
        await audit(database)
    with pytest.raises(NotDurable):
        await audit(database)
    await database.close()


@pytest.mark.parametrize(
    ("settings", "effects"),
    [
        ({}, "half second instead of being woken, restores are refused"),
        ({"redis_url": "redis://127.0.0.1:1/0"}, "connection pooler: restores are refused"),
        ({"database_direct_url": "postgresql://127.0.0.1:1/x"}, "connection pooler"),
    ],
)
async def test_health_shows_what_a_pooler_switches_off(
    url: str, settings: dict[str, str], effects: str, clock: ManualClock
) -> None:
    with pgbouncer(url, "transaction") as address:
        database = Database(address)
        findings = await check_health(settings_for(address, **settings), database, clock)
        [finding] = [each for each in findings if each.name == "pooler"]
        assert effects in str(finding.summary)
        assert (finding.advice is None) == ("database_direct_url" in settings)
        await database.close()
