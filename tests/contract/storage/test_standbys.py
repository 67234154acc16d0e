"""A real primary whose synchronous standby is gone, and what each part of Mailwright says about it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import asyncpg
import pytest
from sqlalchemy import text

from mailwright.checks.health import check_health
from mailwright.checks.installation import check
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import NotDurable
from mailwright.domain.findings import Finding, Verdict
from mailwright.storage.database import Database
from mailwright.storage.server_settings import find_standbys
from mailwright.storage.standbys import StandbyMissing, Standbys, StandbyWatch, standbys_from
from tests.api import Api, a_request, an_api
from tests.builders import settings_for
from tests.engines import PostgresServer, postgresql

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event IN ('SyncRep', 'transactionid') AND datname IS NOT NULL"
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgresql() as server:
        yield server


@pytest.fixture
async def url(server: PostgresServer) -> str:
    return await server.create()


@pytest.fixture
async def api(
    url: str, server: PostgresServer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Api]:
    for module in ("database", "postgresql", "standbys"):
        monkeypatch.setattr(f"mailwright.storage.{module}.WAIT_SECONDS", 0.2)
    monkeypatch.setattr("mailwright.outbox.write_probe.PROMPT_SECONDS", 0.4)
    monkeypatch.setattr("mailwright.outbox.accept.PROMPT_SECONDS", 0.4)
    monkeypatch.setattr("mailwright.storage.standbys._LOOK_SECONDS", 20.0)
    database = Database(url)
    async with an_api(database, clock) as api:
        yield api
    await confirm_commits(server)
    await database.close()


async def lose_standby(server: PostgresServer) -> None:
    """Let commits wait for a standby that does not exist, and return once they do."""
    await server.command("ALTER SYSTEM SET synchronous_standby_names = 'absent'")
    await server.command("SELECT pg_reload_conf()")

    async def commit() -> None:
        while True:
            await server.command("SELECT pg_logical_emit_message(true, '', '')")

    committing = asyncio.create_task(commit())
    while not await server.value(_WAITING):
        pass
    committing.cancel()
    with suppress(asyncio.CancelledError):
        await committing


async def confirm_commits(server: PostgresServer) -> None:
    await server.command("ALTER SYSTEM RESET synchronous_standby_names")
    await server.command("SELECT pg_reload_conf()")


def finding(found: list[Finding], name: str) -> Finding:
    return next(each for each in found if each.name == name)


async def test_each_part_says_that_the_standby_is_missing(
    server: PostgresServer, url: str, api: Api, clock: ManualClock
) -> None:
    database = api.engine.database
    await lose_standby(server)
    response = await api.client.post("/v1/email/send", json=a_request())
    assert (response.status_code, response.json()["code"]) == (503, "NOT_DURABLE")
    ready = await api.anonymous.get("/readyz")
    assert (ready.status_code, ready.json()["parts"]["database"]) == (503, "waits_for_standby")
    found = finding(await check_health(api.engine.settings, database, clock), "replication")
    assert found.verdict is Verdict.PROBLEM
    assert "nothing is accepted or sent, because commits wait for a synchronous standby" in str(found.summary)
    assert "'absent', required: 1, connected: 0" in str(found.summary)
    assert "set synchronous_standby_names = ''" in str(found.advice)
    checked = finding([each async for each in check(settings_for(url))], "database")
    assert "PostgreSQL does not confirm commits" in str(checked.summary)


async def test_further_writes_fail_at_once_and_leave_no_session(server: PostgresServer, api: Api) -> None:
    """Each abandoned commit would keep a session until a standby is back."""
    database = api.engine.database
    await lose_standby(server)

    async def write() -> None:
        async with database.write() as tx:
            await tx.execute(text("UPDATE tenants SET created_at = created_at + 1"))

    with pytest.raises(StandbyMissing, match=r"synchronous_standby_names = 'absent', required: 1, connected: 0"):
        await write()
    sessions = await server.value(_WAITING)
    for _ in range(5):
        with pytest.raises(StandbyMissing):
            await write()
    assert await server.value(_WAITING) == sessions


async def test_stalled_commits_that_occupy_every_connection_are_noticed(server: PostgresServer, api: Api) -> None:
    database = Database(api.engine.database.url.render_as_string(hide_password=False), connections=3)
    await lose_standby(server)

    async def write(name: str) -> None:
        async with database.write() as tx:
            await tx.execute(text("SELECT pg_logical_emit_message(true, '', :name)"), {"name": name})

    failures = await asyncio.gather(*(write(name) for name in "abcd"), return_exceptions=True)
    assert [type(each) for each in failures] == [StandbyMissing] * 4
    await database.close()


async def test_write_that_waits_for_no_standby_is_not_ended(server: PostgresServer, api: Api) -> None:
    """A restore takes long, and its standby may reconnect meanwhile."""
    await lose_standby(server)
    async with api.engine.database.write() as tx:
        await tx.execute(text("SET LOCAL synchronous_commit = local"))
        await tx.execute(text("SELECT pg_sleep(1.5)"))


def a_row(
    names: str, connected: tuple[str, ...], *, waiting: tuple[int, ...] = (), waiting_briefly: tuple[int, ...] = ()
) -> Any:
    return SimpleNamespace(names=names, connected=connected, waiting=waiting, waiting_briefly=waiting_briefly)


def watch_of(*looks: Standbys | None) -> StandbyWatch:
    """Return a watch that gets these results. None is a server that does not respond."""
    left = iter(looks)

    @asynccontextmanager
    async def read(_within: float) -> AsyncIterator[Any]:
        found = next(left)
        await asyncio.sleep(0)
        if found is None:
            raise NotDurable
        rows = [a_row(found.names, found.connected, waiting=found.waiting)]
        yield SimpleNamespace(execute=AsyncMock(return_value=SimpleNamespace(rows=rows)))

    return StandbyWatch(read)


async def test_callers_at_once_share_a_look() -> None:
    watch = watch_of(Standbys("absent"))
    assert await asyncio.gather(watch.is_missing(), watch.is_missing()) == [True, True]


async def test_look_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailwright.storage.standbys._FRESH_SECONDS", 0.0)
    watch = watch_of(None, Standbys("absent"), None, Standbys())
    assert [await watch.is_missing() for _ in range(4)] == [False, True, True, False]


async def test_only_sessions_that_wait_are_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailwright.storage.standbys._FRESH_SECONDS", 0.0)
    watch = watch_of(*[Standbys("absent", waiting=(7,))] * 3, Standbys("absent"))
    assert [await watch.is_stalled(session) for session in (7, 8, None, None)] == [True, False, True, False]


async def test_writes_go_on_when_commits_are_confirmed_again(
    server: PostgresServer, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailwright.storage.standbys._FRESH_SECONDS", 0.0)
    await lose_standby(server)
    assert (await api.client.post("/v1/email/send", json=a_request())).status_code == 503
    await confirm_commits(server)
    while await server.value(_WAITING):
        pass
    assert (await api.client.post("/v1/email/send", json=a_request())).status_code == 202


@pytest.mark.parametrize(
    ("names", "connected", "required", "synchronous"),
    [
        ("", ("a",), 0, 0),
        ("*", (), 1, 0),
        ("ANY 1 (*)", ("a", "b"), 1, 2),
        ('FIRST 2 (One, "two")', ("one", "two", "three"), 2, 2),
        ("2 (one, two)", ("one",), 2, 1),
        ("one, two", ("TWO",), 1, 1),
    ],
)
def test_required_standbys_are_counted(names: str, connected: tuple[str, ...], required: int, synchronous: int) -> None:
    found = Standbys(names, connected)
    assert (found.required, found.synchronous) == (required, synchronous)
    assert found.is_missing == (synchronous < required)


def test_commit_that_waits_for_a_connected_standby_is_stuck() -> None:
    assert Standbys("*", ("a",), waiting=(1,)).is_missing
    assert not Standbys("", ("a",), waiting=(1,)).is_missing


async def test_index_beside_writes_waits_only_if_the_standby_is_gone(
    server: PostgresServer, url: str, api: Api
) -> None:
    """The statement has several commits, each of which may just be waiting for a confirmation."""
    assert standbys_from([a_row("*", ("a",), waiting_briefly=(7,))]).waiting == ()
    assert standbys_from([a_row("*", ("a",), waiting=(8,), waiting_briefly=(7,))]).waiting == (8, 7)
    await lose_standby(server)
    connection = await asyncpg.connect(url)
    building = asyncio.create_task(connection.execute("CREATE INDEX CONCURRENTLY beside ON tenants (created_at)"))
    while connection.get_server_pid() not in (await find_standbys(api.engine.database)).waiting:
        assert not building.done()
    connection.terminate()
    with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        await building
