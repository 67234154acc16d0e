"""Services: they start, serve, and end in order on a signal."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from sqlalchemy import text

from mailwright.domain.clock import SystemClock
from mailwright.domain.ids import uuid7
from mailwright.storage.database import Database
from tests.acceptance.commands import STARTED, Commands
from tests.api import socket_client
from tests.builders import a_message, an_acceptor
from tests.conftest import DatabaseAddress
from tests.engines import PostgresServer, on_sqlite
from tests.standins.smtp_sink import SmtpSink, Step

CLOCK = SystemClock()


@pytest.fixture
def commands(engine: DatabaseAddress, tmp_path: Path) -> Commands:
    return Commands(tmp_path, {"MAILWRIGHT_DATABASE_URL": engine.url})


@pytest.fixture
async def sink() -> AsyncIterator[SmtpSink]:
    async with SmtpSink() as sink:
        yield sink


def through(sink: SmtpSink) -> dict[str, str]:
    return {"MAILWRIGHT_PROVIDER": "smtp", "MAILWRIGHT_SMTP_URL": f"{sink.url}?tls=none"}


async def accept(database: Database, count: int = 1) -> list[str]:
    messages = [a_message(outbox_id=uuid7(CLOCK.now())) for _ in range(count)]
    return [one.outbox_id for one in await an_acceptor(database, CLOCK).accept(messages)]  # type: ignore[arg-type]


async def empty(url: str) -> None:
    database = Database(url)
    async with database.write() as tx:
        await tx.execute(text("DROP SCHEMA public CASCADE"))
        await tx.execute(text("CREATE SCHEMA public"))
    await database.close()


@on_sqlite
async def test_agent_creates_a_draft_over_standard_streams(commands: Commands) -> None:
    await commands.ok("db", "upgrade")
    await commands.ok("list", "create", "news")
    environment = {**os.environ, **commands.settings}
    command, *arguments = commands.program
    server = StdioServerParameters(
        command=command,
        args=[*arguments, "mcp", "--name", "drafter"],
        env=environment,
        cwd=commands.folder,
    )
    content = {"subject": "News", "body": '<p>Hello</p><a href="{{ unsubscribe_url }}">Unsubscribe</a>'}
    async with Client(stdio_client(server)) as client:
        assert "start_campaign" not in {tool.name for tool in (await client.list_tools()).tools}
        draft = {"name": "January", "content": content, "lists": ["news"]}
        result = await client.call_tool("create_campaign_draft", draft)
        assert not result.is_error, result.content
    [entry] = json.loads((await commands.ok("audit-log", "--json", "--limit", "1")).out)
    assert (entry["actor"], entry["action"]) == ("api:drafter", "campaign.create")


async def test_serve_accepts_sends_and_stops_gracefully(commands: Commands, engine: DatabaseAddress) -> None:
    key = (await commands.ok("key", "create", "--tenant", "default")).out.strip()
    started = replace(commands, program=STARTED) if engine.name == "sqlite" else commands
    async with started.service("serve", "--port", "0") as service:
        address = (await service.logged("api_started"))["address"]
        async with socket_client(address, headers={"Authorization": f"Bearer {key}"}) as client:
            assert (await client.get("/readyz")).json()["parts"]["worker"] == "ok"
            body = {"to": "ada@example.com", "subject": "Hello", "html": "<p>Hello</p>"}
            sent = (await client.post("/v1/email/send", json=body)).json()["outboxId"]
            while (await client.get(f"/v1/email/{sent}")).json()["status"] != "SENT":
                await asyncio.sleep(0.05)
        service.signal(signal.SIGTERM)
        await service.logged("api_stopped")
        assert await service.ended() == 0
    assert (await commands.ok("audit", "--json")).json["sent"] == 1


@on_sqlite
async def test_serve_without_a_worker_sends_nothing(commands: Commands) -> None:
    key = (await commands.ok("key", "create")).out.strip()
    async with commands.service("serve", "--port", "0", "--no-worker") as service:
        address = (await service.logged("api_started"))["address"]
        async with socket_client(address, headers={"Authorization": f"Bearer {key}"}) as client:
            assert "worker" not in (await client.get("/readyz")).json()["parts"]
            body = {"to": "ada@example.com", "subject": "Hello", "html": "<p>Hello</p>"}
            outbox_id = (await client.post("/v1/email/send", json=body)).json()["outboxId"]
        told = (await commands.ok("message", "explain", outbox_id, "--json")).json
        assert told["state"] == "no_worker"
        service.signal(signal.SIGINT)
        assert await service.ended() == 0


@on_sqlite
async def test_links_of_other_processes_use_the_server_address(commands: Commands, tmp_path: Path) -> None:
    async with commands.service("serve", "--port", "0", "--no-worker") as service:
        address = (await service.logged("api_started"))["address"]
        made = await a_letter_started(commands)
        await commands.ok("worker", "--drain")
        assert (await commands.ok("archive", "publish", made)).out.startswith(f"{address}/archive/")
        told = {"MAILWRIGHT_BASE_URL": "https://mail.example.com"}
        [issue] = (await commands.ok("archive", "list", "readers", "--json", **told)).json
        assert issue["urls"][0].startswith("https://mail.example.com/archive/")
        service.signal(signal.SIGTERM)
        assert await service.ended() == 0
    [message] = (tmp_path / "var/mailbox/new").iterdir()
    assert f"List-Unsubscribe: <{address}/unsubscribe" in message.read_text()


async def test_worker_adopts_the_address_of_a_later_server(commands: Commands, tmp_path: Path) -> None:
    told = {"MAILWRIGHT_BASE_URL": "https://mail.example.com"}
    async with commands.service("worker") as worker, commands.service("worker", **told) as other:
        await worker.logged("worker_started")
        await other.logged("worker_started")
        async with commands.service("serve", "--port", "0", "--no-worker") as server:
            address = (await server.logged("api_started"))["address"]
            assert (await worker.logged("settings_changed"))["address"] == address
            await worker.logged("worker_started")
            other.signal(signal.SIGTERM)
            await other.logged("worker_stopped")
            assert "settings_changed" not in [line["event"] for line in other.lines]
            await a_letter_started(commands)
            while not (emails := list((tmp_path / "var/mailbox/new").glob("*"))):
                await asyncio.sleep(0.05)
        worker.signal(signal.SIGTERM)
        assert (await worker.ended(), await other.ended()) == (0, 0)
    assert f"List-Unsubscribe: <{address}/unsubscribe" in emails[0].read_text()


async def a_letter_started(commands: Commands) -> str:
    """Start a campaign to one recipient."""
    await commands.ok("list", "create", "readers")
    await commands.ok("list", "subscribe", "readers", "ada@example.com")
    (commands.folder / "news.md").write_text("# Dear reader\n\n[Leave]({{ unsubscribe_url }}), 12 Byron Street\n")
    campaign = ("--name", "News", "--subject", "Hello", "--markdown", "news.md", "--list", "readers")
    made = (await commands.ok("campaign", "create", *campaign)).out.strip()
    await commands.ok("campaign", "start", made)
    return made


async def test_drained_worker_exits_when_nothing_is_due(commands: Commands, database: Database) -> None:
    await accept(database, 20)
    drained = await commands.ok("worker", "--drain", "--concurrency", "4")
    logged = [json.loads(line)["event"] for line in drained.err.splitlines()]
    # The test server runs without fsync, which is reported.
    begin, *settled, end = [event for event in logged if event != "unsafe_database_setting"]
    assert (begin, settled, end) == ("worker_started", ["message_settled"] * 20, "worker_stopped")
    assert (await commands.ok("audit", "--json")).json["sent"] == 20


@pytest.mark.parametrize("arguments", [("worker",), ("serve", "--port", "0")])
async def test_service_finishes_sends_in_flight_before_exit(
    commands: Commands, database: Database, sink: SmtpSink, arguments: tuple[str, ...]
) -> None:
    held = sink.hold(Step.DOT, nth=1)
    await accept(database)
    async with commands.service(*arguments, **through(sink)) as service:
        await held.reached.wait()
        service.signal(signal.SIGTERM)
        await service.logged("stopping")
        held.release()
        assert await service.ended() == 0
    figures = (await commands.ok("audit", "--json")).json
    assert (figures["sent"], figures["in_doubt"], figures["open"]) == (1, 0, 0)


@on_sqlite
async def test_second_signal_stops_a_service_at_once(commands: Commands, database: Database, sink: SmtpSink) -> None:
    held = sink.hold(Step.DOT, nth=1)
    await accept(database)
    # The test ends long before the grace period.
    async with commands.service("worker", **through(sink), SHUTDOWN_GRACE_SECONDS="3600") as service:
        await held.reached.wait()
        service.signal(signal.SIGTERM)
        await service.logged("stopping")
        service.signal(signal.SIGTERM)
        assert await service.ended() == 128 + signal.SIGTERM
    held.release()


async def test_services_create_sqlite_and_refuse_an_empty_postgresql(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    await Commands(tmp_path).ok("worker", "--drain")
    assert (tmp_path / "mailwright.db").exists()
    url = await postgres_server.create()
    await empty(url)
    commands = Commands(tmp_path, {"MAILWRIGHT_DATABASE_URL": url})
    refused = await commands.run("serve", "--port", "0")
    assert (refused.code, "mailwright db upgrade" in refused.err) == (3, True)
    await commands.ok("db", "upgrade")
    await commands.ok("worker", "--drain")
    await postgres_server.drop(url)


async def test_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = await Commands(tmp_path, program=STARTED).run("serve", "--port", str(taken.getsockname()[1]))
    assert ended.code == 2
    assert "address already in use" in ended.err
    assert not (tmp_path / "mailwright.db").exists()
    assert "--port" in ended.err
