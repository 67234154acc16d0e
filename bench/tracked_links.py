"""Measure the CPU time of tracked links and open pixels per request, without the HTTP server."""

import asyncio
import time
from pathlib import Path

from fastapi import FastAPI

from bench.children import NotMeasured
from bench.in_process import answer
from bench.migrated import migrated
from mailwright.app.wiring import Engine, open_engine
from mailwright.domain.ids import uuid7s
from mailwright.domain.tracking_tokens import TrackingTokens, day_of, link_id_of
from mailwright.ops.settings import load
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, get_or_create_secret
from mailwright.outbox.tracked_links import store_links
from mailwright.pipeline.tracking import PATH
from mailwright.web.app import create_app

TARGET = "https://harbour.example/offers?colour=red&size=4"
BROWSER = b"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36"


def milliseconds_per_request(database_url: str, spool: Path, count: int) -> float:
    """Processor time per request; every second request is an open, the others are clicks."""
    return asyncio.run(_measure(database_url, spool, count))


async def _measure(database_url: str, spool: Path, count: int) -> float:
    settings = load(database_url=await migrated(database_url), tracking="individual", tracking_spool=spool)
    async with open_engine(settings) as engine:
        paths = await _paths(engine, count)
        await engine.redirects.warm()
        app = create_app(engine)
        await _get(app, paths[0])
        started = time.process_time()
        for path in paths:
            await _get(app, path)
        return (time.process_time() - started) * 1000 / count


async def _paths(engine: Engine, count: int) -> list[str]:
    now, link_id = engine.clock.now(), link_id_of(1, TARGET)
    await store_links(engine.database, {link_id: (1, TARGET)}, now)
    tokens = TrackingTokens(await get_or_create_secret(engine.database, UNSUBSCRIBE_SECRET))
    shared = [tokens.link(day_of(now), 1, link_id), tokens.open(day_of(now), 1)]
    return [
        f"{PATH}{shared[number % 2]}{tokens.recipient(outbox_id)}"
        for number, outbox_id in enumerate(uuid7s(now, count))
    ]


async def _get(app: FastAPI, path: str) -> None:
    status, _ = await answer(app, "GET", path, headers=[(b"user-agent", BROWSER)])
    if status not in (200, 302):
        raise NotMeasured(f"{path} answered {status}")
