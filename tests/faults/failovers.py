"""The primary of two PostgreSQL servers dies, and its synchronous standby takes over."""

import asyncio
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.engines import PostgresServer
from tests.faults.books import compare, standing
from tests.faults.figures import Figures
from tests.faults.outages import Load
from tests.faults.processes import until
from tests.faults.stage import Stage

MAX_SECONDS = 10


class Pair:
    """A primary and a standby that confirms every commit."""

    def __init__(self, primary: PostgresServer, folder: Path) -> None:
        self.primary = primary
        self.standby = primary.copy(folder)

    async def wait_for_standby(self) -> None:
        """Let each commit wait for the standby from now on."""
        await self.primary.command("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await self.primary.command("SELECT pg_reload_conf()")

    def url(self, name: str) -> str:
        sockets = [parse_qs(urlsplit(each.url(name)).query)["host"][0] for each in (self.primary, self.standby)]
        return f"postgresql://postgres@/{name}?host={','.join(sockets)}"

    async def fail_over(self) -> None:
        await asyncio.to_thread(self.primary.stop_at_once)
        await self.standby.command("SELECT pg_promote()")


async def run(stage: Stage, pair: Pair, *, bulk: int, transactional: int) -> Figures:
    figures, messages = Figures(), bulk + transactional
    await stage.open_sink(latency_seconds=0.02)
    credential = await stage.credential()
    api, port = await stage.api("--no-worker")
    await stage.accept_each(bulk, transactional)
    workers = [await stage.working(), await stage.working()]
    load = Load(port, credential)
    loading = asyncio.create_task(load.run())
    await until(lambda: sum(stage.received().values()) > messages // 5, 60, "the first messages")
    await pair.fail_over()
    began, before = time.monotonic(), sum(stage.received().values())
    await until(lambda: sum(stage.received().values()) > before, 60, "the next message")
    waited = time.monotonic() - began
    await asyncio.sleep(1)
    load.is_over = True
    await loading
    await stage.all_done(seconds=60)
    alive = [process.exit_code for process in (api, *workers)]
    for worker in workers:
        worker.kill()

    rows = await standing(stage)
    figures.note("answers", dict(load.statuses))
    figures.at_most("seconds until sending went on", round(waited, 1), MAX_SECONDS)
    strange = [status for status in load.statuses if status not in ("200", "202", "503")]
    figures.none("answers other than 202, its replay, and 503", strange)
    figures.none("answered with 202 but not stored", [each for each in load.told.values() if each not in rows])
    expected = len(load.told) + messages
    figures.expect("messages", len(rows), f"{expected} accepted", when=len(rows) == expected)
    figures.none("processes that did not survive", [str(code) for code in alive if code is not None])
    await compare(stage, figures)
    return figures
