"""Waking workers through a real Valkey, and logging its loss once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from redis.asyncio.client import PubSub

from mailwright.app.databases import valkey_client
from mailwright.worker import wake
from mailwright.worker.wake import Wake
from tests.engines import Valkey, valkey_server

LOSSES = ("valkey_lost", "valkey_back")


@asynccontextmanager
async def a_wake(url: str) -> AsyncIterator[Wake]:
    client = valkey_client(url)
    assert client is not None
    async with aclosing(client):
        made = Wake(client)
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
