"""Waking workers through a real Valkey or PostgreSQL, and logging the loss of Valkey once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import structlog
from redis.asyncio.client import PubSub

from mailwright.app.databases import valkey_client
from mailwright.storage.database import Database, parse_url
from mailwright.storage.database_signals import DatabaseSignals
from mailwright.worker import wake
from mailwright.worker.wake import DatabaseWake, ValkeyWake, Wake
from tests.engines import PostgresServer, Valkey, valkey_server
from tests.pgbouncer import needs_pgbouncer, pgbouncer

LOSSES = ("valkey_lost", "valkey_back")
CUT_LISTENERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"


@asynccontextmanager
async def a_wake(url: str) -> AsyncIterator[Wake]:
    client = valkey_client(url)
    assert client is not None
    async with aclosing(client):
        made = ValkeyWake(client)
        yield made
        await made.close()


def losses(lines: list[Any]) -> list[str]:
    return [line["event"] for line in lines if line["event"] in LOSSES]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0)


async def test_waiting_worker_is_woken_by_another_process(valkey: Valkey) -> None:
    async with a_wake(valkey.url) as here, a_wake(valkey.url) as there:
        waiting = asyncio.create_task(here.wait(60))
        while not waiting.done():  # The first signals may come before the subscription.
            await there.announce()
            await asyncio.sleep(0)


async def test_idle_worker_logs_valkey_loss_and_return_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "RECONNECT_SECONDS", 0.001)
    with valkey_server(tmp_path) as server, structlog.testing.capture_logs() as lines:
        async with a_wake(server.url) as here:
            await here.wait(0)
            server.kill()
            await until(lambda: losses(lines) == ["valkey_lost"])
            await here.announce()
            with valkey_server(tmp_path, server.port):
                await until(lambda: len(losses(lines)) > 1)
                assert losses(lines) == [*LOSSES]


@pytest.mark.parametrize("error", [ConnectionError("reset"), RuntimeError("the handler is closed")])
async def test_worker_listens_again_after_a_broken_connection(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(wake, "RECONNECT_SECONDS", 0.001)
    subscribe, errors = PubSub.subscribe, [error]

    async def subscribe_at_second_try(self: PubSub, *channels: Any) -> None:
        if errors:
            raise errors.pop()
        await subscribe(self, *channels)

    monkeypatch.setattr(PubSub, "subscribe", subscribe_at_second_try)
    with structlog.testing.capture_logs() as lines:
        async with a_wake(valkey.url) as here:
            await here.wait(0)
            await until(lambda: losses(lines) == [*LOSSES])


async def test_close_ends_if_the_client_swallows_cancellation(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    listens = asyncio.Event()

    async def get_message(*_: object, **__: object) -> None:
        listens.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    monkeypatch.setattr(PubSub, "get_message", get_message)
    async with asyncio.timeout(60), a_wake(valkey.url) as here:
        await here.wait(0)
        await listens.wait()


async def test_accepting_process_logs_valkey_loss_once() -> None:
    with structlog.testing.capture_logs() as lines:
        async with a_wake("redis://127.0.0.1:1/0") as here:
            await here.announce()
            await until(lambda: losses(lines) == ["valkey_lost"])
            await here.announce()
    assert losses(lines) == ["valkey_lost"]


# Through PostgreSQL.


class CountedSignals(DatabaseSignals):
    count = 0

    async def publish(self) -> None:
        await super().publish()
        self.count += 1


@asynccontextmanager
async def a_database_wake(url: str, direct_url: str | None = None) -> AsyncIterator[DatabaseWake]:
    database = Database(url)
    made = DatabaseWake(DatabaseSignals(database, parse_url(direct_url) if direct_url else None), pause_seconds=0)
    try:
        async with database.read():  # The first connection finds out whether there is a pooler.
            pass
        yield made
    finally:
        await made.close()
        await database.close()


async def announce_until_woken(there: Wake, here: Wake) -> None:
    waiting = asyncio.create_task(here.wait(60))
    while not waiting.done():  # The first signals may come before the other one listens.
        await there.announce()
        await asyncio.sleep(0)


@pytest.fixture
async def url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    url = await postgres_server.create()
    yield url
    await postgres_server.drop(url)


async def test_postgresql_wakes_a_worker_of_another_process(url: str) -> None:
    async with a_database_wake(url) as here, a_database_wake(url) as there:
        await announce_until_woken(there, here)


async def test_worker_listens_again_after_postgresql_closed_the_connection(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "RECONNECT_SECONDS", 0.001)
    signals: list[None] = []
    with structlog.testing.capture_logs() as lines:
        async with a_database_wake(url) as here:
            with here.listening(lambda: signals.append(None)):
                await until(lambda: len(signals) == 1)  # It listens.
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute(CUT_LISTENERS)
                await until(lambda: len(signals) == 2)
    assert [line["event"] for line in lines].count("workers_poll") == 1


@needs_pgbouncer
async def test_worker_behind_a_pooler_polls_and_says_so(url: str) -> None:
    with pgbouncer(url, "transaction") as address, structlog.testing.capture_logs() as lines:
        async with a_database_wake(address) as here, a_database_wake(address) as there:
            await here.wait(0)
            await until(lambda: any(line["event"] == "workers_poll" for line in lines))
            await there.announce()


@needs_pgbouncer
async def test_direct_address_wakes_workers_behind_a_pooler(url: str) -> None:
    with pgbouncer(url, "transaction") as address:
        async with a_database_wake(address, url) as here, a_database_wake(address, url) as there:
            await announce_until_woken(there, here)


async def test_many_accepts_share_a_signal(url: str) -> None:
    database = Database(url)
    signals = CountedSignals(database)
    busy = DatabaseWake(signals, pause_seconds=3_600)
    try:
        await busy.announce()
        await until(lambda: signals.count == 1)
        for _ in range(100):
            await busy.announce()
            await asyncio.sleep(0)
        assert signals.count == 1
        await busy.close()
        assert signals.count == 2
    finally:
        await busy.close()
        await database.close()


async def test_accepting_process_survives_an_unreachable_database() -> None:
    database = Database("postgresql://postgres@127.0.0.1:1/none")
    here = DatabaseWake(DatabaseSignals(database))
    await here.announce()
    await here.close()
    await database.close()
