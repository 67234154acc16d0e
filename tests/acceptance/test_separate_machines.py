"""Servers and workers on machines that share PostgreSQL and no folder: what one of them stores, all of them find."""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.commands import Commands, until
from tests.engines import PostgresServer
from tests.pictures import a_png

PEOPLE = b"email,name\nada@example.com,Ada\nnobody\ngrace@example.com,Grace\n"


@dataclass(frozen=True)
class Server:
    address: str
    key: str
    folder: Path

    async def call(
        self, path: str, body: bytes | None = None, kind: str = "application/json", method: str | None = None
    ) -> bytes:
        """Send a request; with a body it is a POST."""
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": kind}
        request = urllib.request.Request(f"{self.address}{path}", body, headers, method=method)
        return await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=60).read())

    async def json(self, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
        return json.loads(await self.call(path, body, kind))


@asynccontextmanager
async def machines(tmp_path: Path, url: str) -> AsyncIterator[tuple[Server, Server]]:
    """Start two servers and two workers, each in a folder of its own."""
    given = {"MAILWRIGHT_DATABASE_URL": url, "MAILWRIGHT_SECRET_KEY": "a secret key for all machines, long enough"}
    every = []
    for number in range(4):
        (tmp_path / f"machine-{number}").mkdir()
        every.append(Commands(tmp_path / f"machine-{number}", given))
    await every[0].ok("db", "upgrade")
    key = (await every[0].ok("key", "create")).out.strip()
    async with AsyncExitStack() as stack:
        servers = []
        for commands in every[:2]:
            service = await stack.enter_async_context(commands.service("serve", "--no-worker", MAILWRIGHT_PORT="0"))
            servers.append(Server((await service.logged("api_started"))["address"], key, commands.folder))
        for commands in every[2:]:
            worker = await stack.enter_async_context(commands.service("worker"))
            await worker.logged("worker_started")
        first, second = servers
        yield first, second


async def test_machines_without_a_shared_folder_find_images_and_imports(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    url = await postgres_server.create_empty()
    async with machines(tmp_path, url) as (first, second):
        image = await first.json("/v1/images?name=logo.png", a_png(), "image/png")
        path = f"/images/{image['url'].rpartition('/')[2]}"
        assert await second.call(path) == await first.call(path)

        begun = await first.json("/v1/contacts/imports?fileName=people.csv", PEOPLE, "text/csv")
        place = f"/v1/contacts/imports/{begun['importId']}"
        while not (await second.json(place))["finishedAt"]:
            await asyncio.sleep(0.05)
        report = await second.call(f"{place}/report")
        assert [line.split(b",")[2] for line in report.splitlines()] == [b"outcome", b"added", b"refused", b"added"]

        await second.call("/v1/contacts/ada@example.com", method="DELETE")
        assert await first.call(f"{place}/report") == report.replace(b"ada@example.com", b"*" * len("ada@example.com"))

        message = b'{"to": "grace@example.com", "subject": "From a worker", "html": "<p>It works.</p>"}'
        sent = (await second.json("/v1/email/send", message))["outboxId"]
        emails = [tmp_path / f"machine-{number}/var/mailbox/new/{sent}.mailwright" for number in (2, 3)]
        await until(lambda: any(email.exists() for email in emails), "a worker sends the email")
        for server in (first, second):
            assert not [each for each in (server.folder / "var").rglob("*") if each.suffix in (".png", ".csv", ".part")]
    await postgres_server.drop_empty(url)
