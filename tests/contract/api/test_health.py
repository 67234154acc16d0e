"""Health checks and durability: a 202 is always stored, and the API recovers by itself."""

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import asyncpg
import pytest
import uvicorn

from mailwright import __version__
from mailwright.access.roles import Role
from mailwright.app.schema import prepare
from mailwright.checks.health import check_health
from mailwright.domain.clock import MINUTE, ManualClock
from mailwright.domain.errors import DatabaseDamaged, DatabaseNotReady, NotDurable
from mailwright.domain.findings import Verdict
from mailwright.outbox import message_records
from mailwright.outbox.queue_gauges import FRESH
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.outbox.write_probe import PROBE_TTL
from mailwright.storage.database import Database
from mailwright.web.app import create_app
from tests.api import Api, a_request, an_api, an_engine, client_of, socket_client
from tests.builders import a_message
from tests.conftest import DatabaseAddress
from tests.engines import PostgresServer, Valkey
from tests.pages import PASSWORD, a_visit
from tests.schema_versions import MOTTO, add_revisions
from tests.standins.stalling_proxy import stalling_proxy


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


@asynccontextmanager
async def unwritable(engine: DatabaseAddress) -> AsyncIterator[None]:
    """Hold the write lock of SQLite; make PostgreSQL read-only and cut its connections."""
    if engine.name == "sqlite":
        with _locked(engine.url.removeprefix("sqlite:///")):
            yield
    else:
        await _read_only(engine.url, "on")
        try:
            yield
        finally:
            await _read_only(engine.url, "off")


@contextmanager
def _locked(file: str) -> Iterator[None]:
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.close()


async def _read_only(url: str, value: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("SET default_transaction_read_only = off")
    name = await connection.fetchval("SELECT quote_ident(current_database())")
    await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {value}")
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await connection.close()


@pytest.mark.promise("accept-durable")
@pytest.mark.promise("health-true")
async def test_unreachable_database_is_503_until_it_recovers(
    api: Api, engine: DatabaseAddress, clock: ManualClock
) -> None:
    async with unwritable(engine):
        answer = await api.client.post("/v1/email/send", json=a_request())
        assert (answer.status_code, answer.json()["code"]) == (503, "NOT_DURABLE"), answer.text
        assert answer.headers["Retry-After"] == "5"
        assert answer.headers["content-type"] == "application/problem+json"
        readiness = await api.anonymous.get("/readyz")
        assert (readiness.status_code, readiness.json()["parts"]["database"]) == (503, "not_writable")
        clock.advance(PROBE_TTL)
    for _ in range(20):  # The pool can hold several connections that the server has cut.
        answer = await api.client.post("/v1/email/send", json=a_request())
        if answer.status_code == 202:
            break
    assert answer.status_code == 202
    assert (await api.anonymous.get("/readyz")).status_code == 200
    assert len(await message_records.search(api.engine.database, 1, message_records.MessageSearch(), limit=10)) == 1


async def test_unknown_url_is_page_for_browsers_and_problem_for_programs(api: Api) -> None:
    told = await api.anonymous.get("/nowhere")
    assert (told.status_code, told.json()["code"]) == (404, "NOT_FOUND")
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Language": "pt"}
    shown = await api.anonymous.get("/nowhere", headers=browser)
    assert (shown.status_code, shown.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "Página não encontrada" in shown.text


async def test_liveness_needs_no_database(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Database, "read")
    monkeypatch.delattr(Database, "write")
    answer = await api.anonymous.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.promise("health-true")
async def test_ready_when_database_is_migrated(api: Api) -> None:
    answer = await api.anonymous.get("/readyz")
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "status": "ready",
            "version": __version__,
            "parts": {"database": "ok", "schema": "ok"},
            "providers": {},
            "sendingHeld": None,
        },
    )


@pytest.mark.promise("health-true")
async def test_not_ready_before_latest_migration(api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    add_revisions(tmp_path, monkeypatch, MOTTO)
    answer = await api.anonymous.get("/readyz")
    assert (answer.status_code, answer.json()) == (
        503,
        {
            "status": "not_ready",
            "version": __version__,
            "parts": {"database": "ok", "schema": "behind"},
            "providers": {},
            "sendingHeld": None,
        },
    )


@pytest.mark.promise("health-true")
async def test_not_ready_without_a_database(clock: ManualClock, engine: DatabaseAddress) -> None:
    nowhere = "sqlite:////nowhere/at/all.db" if engine.name == "sqlite" else "postgresql://localhost:1/none"
    unreachable = an_engine(Database(nowhere), clock)
    app = create_app(unreachable)
    async with client_of(app) as client:
        response = await client.get("/readyz")
        assert (response.status_code, response.json()["parts"]) == (503, {"database": "unreachable"})
        assert (await client.get("/metrics")).status_code == 200
    await app.state.finish()
    await unreachable.close()
    await unreachable.database.close()


@pytest.mark.promise("accept-durable")
async def test_read_request_reports_unreachable_database(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_database: Database, **_options: float) -> NoReturn:
        raise NotDurable("at db.internal")

    monkeypatch.setattr(Database, "read", away)
    looked = await api.client.get("/v1/email")
    assert (looked.status_code, looked.json()["code"]) == (503, "NOT_DURABLE")
    assert looked.json()["detail"] == "The database is not reachable. Try again in a few seconds."


@pytest.mark.promise("health-true")
@pytest.mark.parametrize(("is_alive", "status", "word"), [(True, 200, "ok"), (False, 503, "stopped")])
async def test_readiness_includes_the_worker_of_the_process(
    database: Database, clock: ManualClock, is_alive: bool, status: int, word: str
) -> None:
    async with an_api(database, clock, is_worker_alive=lambda: is_alive) as api:
        answer = await api.anonymous.get("/readyz")
        assert (answer.status_code, answer.json()["parts"]["worker"]) == (status, word), answer.text


async def test_unavailable_provider_does_not_affect_readiness(api: Api, clock: ManualClock) -> None:
    """Messages are still accepted: they wait, or use another provider."""
    database, until = api.engine.database, clock.now() + MINUTE
    left_alone = WorkerPresence("ses", until, "SES_AUTH: a secret reason")
    await WorkerRegistry(database, clock, "worker-1").report(left_alone, WorkerPresence("smtp", until))
    await WorkerRegistry(database, clock, "worker-2").report(left_alone, WorkerPresence("smtp"))
    answer = await api.anonymous.get("/readyz")
    assert (answer.status_code, answer.json()["providers"]) == (200, {"ses": "left_alone", "smtp": "ok"})
    assert "secret" not in answer.text


@pytest.mark.promise("health-true")
async def test_readiness_names_valkey(database: Database, clock: ManualClock, valkey: Valkey) -> None:
    async with an_api(database, clock, redis_url=valkey.url) as api:
        found = await api.anonymous.get("/readyz")
        assert (found.status_code, found.json()["parts"]["valkey"]) == (200, "ok")
        assert [each for each in await check_health(api.engine.settings, database, clock) if each.name == "redis"] == []


@pytest.mark.promise("health-true")
async def test_lost_valkey_is_named_and_stays_ready(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock, redis_url="redis://127.0.0.1:1/0") as api:
        found = await api.anonymous.get("/readyz")
        assert (found.status_code, found.json()["status"]) == (200, "ready")
        assert found.json()["parts"]["valkey"] == "unreachable"
        [finding] = [each for each in await check_health(api.engine.settings, database, clock) if each.name == "redis"]
        assert finding.verdict is Verdict.WARNING
        assert "Valkey does not respond" in str(finding.summary)


async def test_gauges_follow_the_queue(api: Api, clock: ManualClock) -> None:
    async def figures() -> str:
        answer = await api.anonymous.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        return answer.text

    await api.send()
    clock.advance(MINUTE)
    first = await figures()
    assert 'mailwright_queue_depth{state="due"} 1.0' in first
    assert "mailwright_oldest_due_age_seconds 60.0" in first
    await api.send()
    assert 'mailwright_queue_depth{state="due"} 1.0' in await figures()
    clock.advance(FRESH)
    assert 'mailwright_queue_depth{state="due"} 2.0' in await figures()


@asynccontextmanager
async def listening(api: Api) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(api.app, port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await serving


async def test_api_works_over_a_real_socket(api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.key}"}
    async with listening(api) as url, socket_client(url, headers=headers) as client:
        accepted = await client.post("/v1/email/send", json=a_request(), headers={"X-Request-Id": "mine"})
        assert (accepted.status_code, accepted.headers["X-Request-Id"]) == (202, "mine")
        shown = await client.get(f"/v1/email/{accepted.json()['outboxId']}")
        assert shown.json()["requestId"] == "mine"
        too_large = await client.post(
            "/v1/email/send", content=b" " * (17 * 1024 * 1024), headers={"Content-Type": "application/json"}
        )
        assert too_large.status_code == 413
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/")).json()["service"] == "Mailwright"


async def test_health_checks_share_one_write(api: Api, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    probes = 0
    transact = Database.transact

    async def count_and_transact(database: Database, *arguments: Any, **options: Any) -> Any:
        nonlocal probes
        probes += 1
        return await transact(database, *arguments, **options)

    monkeypatch.setattr(Database, "transact", count_and_transact)
    await asyncio.gather(*(api.anonymous.get("/readyz") for _ in range(5)))
    assert probes == 1
    clock.advance(PROBE_TTL)
    await api.anonymous.get("/readyz")
    assert probes == 2


@pytest.mark.promise("accept-durable")
async def test_frozen_server_refuses_every_waiting_accept_soon(
    postgres_server: PostgresServer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("outbox.accept", "outbox.write_probe", "access.api_keys", "web.api.health"):
        monkeypatch.setattr(f"mailwright.{module}.PROMPT_SECONDS", 0.2)
    monkeypatch.setattr("mailwright.storage.hot_postgresql.CONNECT_SECONDS", 1.0)
    monkeypatch.setattr("mailwright.storage.postgresql_servers.CONNECT_SECONDS", 1.0)
    url = await postgres_server.create()
    with tempfile.TemporaryDirectory() as folder:  # The path of a socket has at most 107 characters.
        async with stalling_proxy(url, Path(folder)) as (proxied, proxy):
            database = Database(proxied)
            async with an_api(database, clock) as api:
                await api.send()
                await api.anonymous.get("/readyz")
                proxy.flows.clear()
                clock.advance(MINUTE)  # The API key is looked up again, too.
                async with asyncio.timeout(30):  # Without a limit, a statement waits for 60 seconds.
                    sends = [api.client.post("/v1/email/send", json=a_request()) for _ in range(3)]
                    answers = await asyncio.gather(*sends, api.anonymous.get("/readyz"))
                    with pytest.raises(NotDurable):
                        await api.engine.acceptor.accept([a_message()])
                assert [answer.status_code for answer in answers] == [503] * 4
                proxy.flows.set()
                clock.advance(MINUTE)
                await api.send()
            await database.close()
    await postgres_server.drop(url)


async def test_pages_of_a_frozen_server_say_so_soon(
    postgres_server: PostgresServer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await postgres_server.create()
    with tempfile.TemporaryDirectory() as folder:
        async with stalling_proxy(url, Path(folder)) as (proxied, proxy):
            database = Database(proxied)
            async with an_api(database, clock) as api:
                await api.engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
                async with a_visit(api.app) as ada:
                    monkeypatch.setattr("mailwright.access.sessions.PROMPT_SECONDS", 0.2)
                    monkeypatch.setattr("mailwright.storage.postgresql_servers.CONNECT_SECONDS", 1.0)
                    proxy.flows.clear()
                    async with asyncio.timeout(30):  # Without a limit, a statement waits for 60 seconds.
                        answers = [await ada.client.get(path) for path in ("/", "/settings/health")]
                    proxy.flows.set()
                for answer in answers:
                    assert answer.status_code == 503
                    assert "The database is not reachable" in answer.text
            await database.close()
    await postgres_server.drop(url)


async def test_missing_folder_of_the_database_is_named(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/missing/mailwright.db")
    with pytest.raises(DatabaseNotReady, match="does not exist"):
        await prepare(database)
    await database.close()


async def test_damaged_file_is_reported_as_such(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "mailwright.db"
    file.write_bytes(b"This is not a database. " * 1_000)
    database = Database(f"sqlite:///{file}")
    engine = an_engine(database, clock)
    app = create_app(engine)
    async with client_of(app) as client:
        response = await client.get("/readyz")
    assert (response.status_code, response.json()["parts"]) == (503, {"database": "damaged"})
    with pytest.raises(DatabaseDamaged, match="restore the latest backup"):
        await prepare(database)
    await app.state.finish()
    await engine.close()
    await database.close()
