"""Measure tracked links and open pixels: CPU time without the HTTP server, and response times of redirects with it."""

import asyncio
import random
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import uvloop
from fastapi import FastAPI

from bench import mailwright
from bench.children import NotMeasured
from bench.in_process import answer
from bench.migrated import migrated
from bench.stage import Stage
from mailwright.app.wiring import Engine, open_engine
from mailwright.domain.ids import uuid7s
from mailwright.domain.tracking_tokens import TrackingTokens, day_of, link_id_of
from mailwright.ops.settings import load
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, get_or_create_secret
from mailwright.outbox.tracked_links import store_links
from mailwright.pipeline.tracking import PATH
from mailwright.web.app import create_app

# Requests before the measured ones: they open connections and load modules.
WARM_UP_SECONDS = 2
TARGET = "https://harbour.example/offers?colour=red&size=4"
BROWSER = b"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36"


def milliseconds_per_request(database_url: str, spool: Path, count: int) -> float:
    """Processor time per request; every second request is an open, the others are clicks."""
    return asyncio.run(_measure(database_url, spool, count))


async def _measure(database_url: str, spool: Path, count: int) -> float:
    settings = load(database_url=await migrated(database_url), tracking="individual", tracking_spool=spool)
    async with open_engine(settings) as engine:
        paths = await _paths(engine, count, is_open=(False, True))
        await engine.redirects.warm()
        app = create_app(engine)
        await _get(app, paths[0])
        started = time.process_time()
        for path in paths:
            await _get(app, path)
        return (time.process_time() - started) * 1000 / count


async def _paths(engine: Engine, count: int, is_open: tuple[bool, ...] = (False,)) -> list[str]:
    now, link_id = engine.clock.now(), link_id_of(1, TARGET)
    await store_links(engine.database, {link_id: (1, TARGET)}, now)
    tokens = TrackingTokens(await get_or_create_secret(engine.database, UNSUBSCRIBE_SECRET))
    shared = [tokens.open(day_of(now), 1) if each else tokens.link(day_of(now), 1, link_id) for each in is_open]
    return [
        f"{PATH}{shared[number % len(shared)]}{tokens.recipient(outbox_id)}"
        for number, outbox_id in enumerate(uuid7s(now, count))
    ]


async def _get(app: FastAPI, path: str) -> None:
    status, _ = await answer(app, "GET", path, headers=[(b"user-agent", BROWSER)])
    if status not in (200, 302):
        raise NotMeasured(f"{path} answered {status}")


@dataclass(frozen=True, slots=True)
class ResponseTimes:
    """Response times of redirects in milliseconds."""

    p50: float
    p99: float
    longest: float


def redirect_times(stage: Stage, database_url: str, rate: int, seconds: int) -> ResponseTimes:
    """Request redirects of `serve` at random times, `rate` per second on average, whether it keeps up or not."""
    spool = stage.scratch / "redirects"
    paths = asyncio.run(_stored_paths(database_url, spool, rate * (seconds + WARM_UP_SECONDS)))
    more = {"MAILWRIGHT_TRACKING": "individual", "MAILWRIGHT_TRACKING_SPOOL": str(spool)}
    with mailwright.serving(stage, database_url, more) as service:
        address = urlsplit(service.url)
        load = _OpenLoad(str(address.hostname), address.port or 80, rate)
        taken = uvloop.run(load.run(paths))[rate * WARM_UP_SECONDS :]
    cuts = statistics.quantiles(taken, n=100)
    return ResponseTimes(cuts[49] * 1000, cuts[98] * 1000, max(taken) * 1000)


async def _stored_paths(database_url: str, spool: Path, count: int) -> list[str]:
    settings = load(database_url=await migrated(database_url), tracking="individual", tracking_spool=spool)
    async with open_engine(settings) as engine:
        return await _paths(engine, count)


@dataclass
class _OpenLoad:
    """Requests that do not wait for each other: a new connection opens if all others wait for a response."""

    host: str
    port: int
    rate: int
    _idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    async def run(self, paths: list[str]) -> list[float]:
        """Return the seconds from each request to its response, in the order of the requests."""
        times, clock = random.Random(1), time.perf_counter
        started = due = clock()
        requests = []
        for path in paths:
            due += times.expovariate(self.rate)
            while (pause := due - clock()) > 0:
                await asyncio.sleep(pause)
            requests.append(asyncio.create_task(self._redirect(path)))
        if clock() - started > 1.05 * len(paths) / self.rate:
            raise NotMeasured(f"the client could not send {self.rate:,} requests per second")
        taken = await asyncio.gather(*requests)
        for _, writer in self._idle:
            writer.close()
        return taken

    async def _redirect(self, path: str) -> float:
        started = time.perf_counter()
        # The server closes connections that were idle for some seconds.
        while self._idle and self._idle[-1][0].at_eof():
            self._idle.pop()[1].close()
        reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection(self.host, self.port)
        writer.write(b"GET %b HTTP/1.1\r\nHost: bench\r\nUser-Agent: %b\r\n\r\n" % (path.encode(), BROWSER))
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 302") or b"content-length: 0\r\n" not in head.lower():
            raise NotMeasured(f"{path} answered {head[:200]!r}")
        self._idle.append((reader, writer))
        return time.perf_counter() - started
