"""The machine of the database vanishes: its packets are dropped, and no connection is closed."""

import asyncio
import os
import subprocess
import time

from tests.engines import PostgresServer
from tests.faults.books import compare, standing
from tests.faults.figures import Figures
from tests.faults.outages import Load
from tests.faults.processes import until
from tests.faults.stage import Stage

# Addresses for measurements, which no network uses.
_HERE, _THERE = "198.18.77.1", "198.18.77.2"
# A few seconds to notice, and a few to connect.
MAX_SECONDS = 10


class FarServer:
    """A network namespace for a PostgreSQL server, which is like another machine."""

    def __init__(self) -> None:
        self._name = f"mw{os.getpid()}"

    def can_be_made(self) -> bool:
        try:
            self._make()
        except (OSError, subprocess.CalledProcessError):
            self.remove()
            return False
        return True

    def _make(self) -> None:
        outer, inner = f"{self._name}a", f"{self._name}b"
        _run("ip", "netns", "add", self._name)
        _run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner)
        _run("ip", "link", "set", inner, "netns", self._name)
        _run("ip", "addr", "add", f"{_HERE}/30", "dev", outer)
        _run("ip", "link", "set", outer, "up")
        self._inside("ip", "addr", "add", f"{_THERE}/30", "dev", inner)
        self._inside("ip", "link", "set", inner, "up")

    def remove(self) -> None:
        for words in (("ip", "link", "del", f"{self._name}a"), ("ip", "netns", "del", self._name)):
            subprocess.run(words, check=False, capture_output=True)

    def url(self, server: PostgresServer, url: str) -> str:
        """Move the server into the namespace, and return the URL with its address there."""
        server.move(self._name, _THERE)
        return f"postgresql://postgres@{_THERE}/{url.partition('?')[0].rpartition('/')[2]}"

    def vanish(self) -> None:
        self._inside("ip", "route", "add", "blackhole", f"{_HERE}/32")

    def come_back(self) -> None:
        self._inside("ip", "route", "del", "blackhole", f"{_HERE}/32")

    def _inside(self, *words: str) -> None:
        _run("ip", "netns", "exec", self._name, *words)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


async def run(
    stage: Stage, far: FarServer, *, times: int, seconds: float, bulk: int = 0, transactional: int = 0
) -> Figures:
    figures = Figures()
    await stage.open_sink(latency_seconds=0.02)
    credential = await stage.credential()
    api, port = await stage.api("--no-worker")
    await stage.accept_each(bulk, transactional)
    workers = [await stage.working(), await stage.working()]
    load = Load(port, credential)
    loading = asyncio.create_task(load.run())
    waits = []
    for _ in range(times):
        await asyncio.sleep(2)
        await asyncio.to_thread(far.vanish)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(far.come_back)
        waits.append(await _time_to_next(stage))
    load.is_over = True
    await loading
    await stage.all_done(seconds=60)
    alive = [process.exit_code for process in (api, *workers)]
    for worker in workers:
        worker.kill()

    rows = await standing(stage)
    figures.note("answers", dict(load.statuses))
    figures.at_most("seconds until sending went on", round(max(waits), 1), MAX_SECONDS)
    strange = [status for status in load.statuses if status not in ("200", "202", "503")]
    figures.none("answers other than 202, its replay, and 503", strange)
    figures.none("answered with 202 but not stored", [each for each in load.told.values() if each not in rows])
    expected = len(load.told) + bulk + transactional
    figures.expect("messages", len(rows), f"{expected} accepted", when=len(rows) == expected)
    figures.none("processes that did not survive", [str(code) for code in alive if code is not None])
    await compare(stage, figures)
    return figures


async def _time_to_next(stage: Stage) -> float:
    """Return the seconds until the sink receives another message."""
    began, before = time.monotonic(), sum(stage.received().values())
    await until(lambda: sum(stage.received().values()) > before, 60, "the next message")
    return time.monotonic() - began
