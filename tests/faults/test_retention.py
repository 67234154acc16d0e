"""Retention that is killed at any point continues, and neither loses nor repeats a row of its export."""

import asyncio
import gzip
import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from mailwright.domain.clock import ManualClock
from mailwright.domain.retention import RetentionKind
from mailwright.outbox.audit import audit
from mailwright.outbox.retention_rules import list_rules, set_rule
from tests.builders import DEFAULT_TENANT, SECRET_KEY, Bench, a_bench, a_message
from tests.conftest import DatabaseAddress
from tests.faults.processes import Process
from tests.faults.supervised import PATIENCE_SECONDS
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("retention-safe")

LONG_AGO = 1_700_000_000_000
MESSAGES = 400
KILLS = 2


def start_run(url: str, folder: Path) -> Process:
    settings = {"MAILWRIGHT_DATABASE_URL": url, "MAILWRIGHT_RETENTION_EXPORT": str(folder)}
    environment = {**os.environ, **settings, "MAILWRIGHT_SECRET_KEY": SECRET_KEY}
    return Process(["retention", "run", "--json"], environment, folder.with_suffix(".log"), folder.parent)


async def deleted(bench: Bench) -> int:
    return (await list_rules(bench.database))[0].rows


async def kill_after_progress(bench: Bench, url: str, folder: Path) -> None:
    """Kill the process as soon as it has deleted another batch, or let it end."""
    before = await deleted(bench)
    process = start_run(url, folder)
    while process.exit_code is None and await deleted(bench) == before:
        await asyncio.sleep(0.005)
    process.kill()


def exported(folder: Path) -> list[dict[str, Any]]:
    contents = [gzip.decompress(file.read_bytes()) for file in folder.iterdir()]
    return [orjson.loads(line) for content in contents for line in content.splitlines()]


async def test_killed_retention_continues_without_loss(engine: DatabaseAddress, tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    async with a_bench(engine.url, ManualClock(LONG_AGO)) as bench:
        ids = await bench.accept(*(a_message() for _ in range(MESSAGES)))
        await bench.drain(ScriptedProvider())
        await set_rule(
            bench.database, bench.clock, DEFAULT_TENANT, RetentionKind.MESSAGES, days=30, exports=True, actor="ada"
        )
        for _ in range(KILLS):
            await kill_after_progress(bench, engine.url, folder)
            assert (await audit(bench.database)).ok
        last = start_run(engine.url, folder)
        assert await last.ended(PATIENCE_SECONDS) == 0, last.said
        found = await audit(bench.database)
        assert (found.ok, found.sent, found.deleted) == (True, MESSAGES, MESSAGES)
        lines = exported(folder)
        assert sorted(line["outbox_id"] for line in lines if line["table"] == "messages") == sorted(ids)
        assert await bench.statuses() == {}
