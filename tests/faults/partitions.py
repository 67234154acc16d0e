"""The network between a worker, the server or all processes and their database is cut: bytes vanish, nothing closes."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from tests.campaigns import address_of, join
from tests.faults.books import compare, standing
from tests.faults.campaigns import start_campaign
from tests.faults.figures import Figures
from tests.faults.outages import Load
from tests.faults.stage import Stage

MAX_SECONDS: Final = 10
WORKER, SERVER, REST = "worker", "server", "rest"
# What is cut, by the name of the partition.
PARTITIONS: Final = {"worker": (WORKER,), "server": (SERVER,), "database": (WORKER, SERVER, REST)}


class Link:
    """A network path to a PostgreSQL server. While it is cut, it takes bytes of both sides and passes nothing on.

    What was sent meanwhile arrives afterwards, as TCP repeats it.
    """

    def __init__(self, url: str) -> None:
        self._socket = Path(parse_qs(urlsplit(url).query)["host"][0]) / ".s.PGSQL.5432"
        self._name = urlsplit(url).path
        self._passes = asyncio.Event()
        self._passes.set()
        self._writers: list[asyncio.StreamWriter] = []
        self.url = ""

    async def open(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{port}{self._name}?sslmode=disable"
        return server

    def cut(self) -> None:
        self._passes.clear()

    def heal(self) -> None:
        self._passes.set()

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        await self._passes.wait()
        there, here = await asyncio.open_unix_connection(self._socket)
        self._writers.append(here)
        await asyncio.gather(self._pass_on(reader, here), self._pass_on(there, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while content := await reader.read(65_536):
                await self._passes.wait()
                writer.write(content)
                await writer.drain()
            await self._passes.wait()
        writer.close()


@contextlib.asynccontextmanager
async def links_to(url: str) -> AsyncIterator[dict[str, Link]]:
    links = {name: Link(url) for name in (WORKER, SERVER, REST)}
    servers = [await each.open() for each in links.values()]
    try:
        yield links
    finally:
        for server in servers:
            server.close()
        for link in links.values():
            link.close()


async def run(
    stage: Stage,
    *,
    readers: int,
    seconds: float,
    partitions: tuple[str, ...] = tuple(PARTITIONS),
    max_seconds: float = MAX_SECONDS,
) -> Figures:
    """Cut each of the partitions for some time, while two workers send a campaign and what clients of the API post.

    `max_seconds` is how long accepting and sending may take to go on.
    """
    figures = Figures()
    await stage.open_sink(latency_seconds=0.02)
    credential = await stage.credential()
    await join(stage.database, [address_of(number) for number in range(readers)])
    async with links_to(stage.url) as links:
        api, port = await stage.api("--no-worker", MAILWRIGHT_DATABASE_URL=links[SERVER].url)
        workers = [await stage.working(MAILWRIGHT_DATABASE_URL=links[name].url) for name in (WORKER, REST)]
        load = Load(port, credential)
        loading = asyncio.create_task(load.run())
        await start_campaign(stage)
        for partition in partitions:
            await asyncio.sleep(1)
            for name in PARTITIONS[partition]:
                links[name].cut()
            await asyncio.sleep(seconds)
            for name in PARTITIONS[partition]:
                links[name].heal()
            waited = round(await _time_to_resume(stage, load), 1)
            figures.at_most(f"seconds until accepting and sending went on ({partition})", waited, max_seconds)
        await asyncio.sleep(1)
        load.is_over = True
        await loading
        expected = len(load.told) + readers
        async with asyncio.timeout(120):
            while len(await standing(stage)) < expected:
                await asyncio.sleep(0.2)
        await stage.all_done(seconds=60)
        alive = [process.exit_code for process in (api, *workers)]
        for process in (api, *workers):
            process.kill()

    rows = await standing(stage)
    figures.note("answers", dict(load.statuses))
    strange = [status for status in load.statuses if status not in ("200", "202", "503")]
    figures.none("answers other than 202, its replay, and 503", strange)
    figures.none("answered with 202 but not stored", [each for each in load.told.values() if each not in rows])
    figures.expect("messages", len(rows), f"{expected} accepted", when=len(rows) == expected)
    figures.none("processes that did not survive", [str(code) for code in alive if code is not None])
    await compare(stage, figures)
    return figures


async def _time_to_resume(stage: Stage, load: Load) -> float:
    """Return the seconds until the API accepts and the sink receives another message."""
    began, sent, accepted = time.monotonic(), stage.received().total(), len(load.told)
    async with asyncio.timeout(60):
        while stage.received().total() <= sent or len(load.told) <= accepted:
            await asyncio.sleep(0.02)
    return time.monotonic() - began
