"""Mailwright behind PgBouncer, and with the fewest connections."""

from collections.abc import AsyncIterator

import pytest

from tests.engines import PostgresServer
from tests.faults import poolers
from tests.faults.stage import a_stage
from tests.pgbouncer import needs_pgbouncer, pgbouncer

FEWEST = 4
DEFAULT = 12
PROCESSES = 3
LISTENING = 2  # Each worker has one more connection, which signals wake it through.


@pytest.fixture
async def url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    url = await postgres_server.create()
    yield url
    await postgres_server.drop(url)


@needs_pgbouncer
@pytest.mark.promise("never-lost")
async def test_messages_pass_through_a_pooler_in_transaction_mode(url: str) -> None:
    """All processes together share four connections of the server."""
    with pgbouncer(url, "transaction", size=4) as address:
        async with a_stage(address) as stage:
            figures = await poolers.run(stage, url, bulk=100, transactional=100, connections=12, most_sessions=4)
            assert figures.misses == []


@needs_pgbouncer
async def test_messages_pass_through_a_pooler_in_session_mode(url: str) -> None:
    with pgbouncer(url, "session", size=40) as address:
        async with a_stage(address) as stage:
            figures = await poolers.run(stage, url, bulk=100, transactional=100, connections=12, most_sessions=40)
            assert figures.misses == []


@pytest.mark.parametrize("connections", [FEWEST, DEFAULT])
async def test_processes_open_no_more_connections_than_set(url: str, connections: int) -> None:
    async with a_stage(url) as stage:
        figures = await poolers.run(
            stage,
            url,
            bulk=100,
            transactional=100,
            connections=connections,
            most_sessions=connections * PROCESSES + LISTENING,
        )
        assert figures.misses == []
