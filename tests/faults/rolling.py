"""Upgrade the database of PostgreSQL while the previous release sends, kill the upgrade, and mix both releases."""

import asyncio
import random
import signal
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import asyncpg
import orjson

from mailwright.storage.revision import list_names
from mailwright.storage.schema_state import load_schema
from tests.faults.books import compare, standing
from tests.faults.figures import Figures
from tests.faults.outages import Load
from tests.faults.processes import Process, until
from tests.faults.stage import REPOSITORY, Stage

SEED = 20_260_106
REVISIONS = "src/mailwright/storage/migrations/versions"
UNKNOWN_SCHEMA = 4  # The exit code of a command that finds a schema of a later release.


def previous_release(folder: Path) -> Path | None:
    """Write the source of the last commit before the newest revision into `folder`; None without its history."""
    added = _git("log", "--diff-filter=A", "--format=%H", "-1", "--", f"{REVISIONS}/{list_names()[-1]}_*.py").decode()
    if not added or not _git("cat-file", "-t", f"{added.strip()}^"):
        return None
    with tarfile.open(fileobj=BytesIO(_git("archive", f"{added.strip()}^", "src"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


async def run(stage: Stage, previous: Path, *, kills: int, clients: int) -> Figures:
    figures, chance = Figures(), random.Random(SEED)
    await stage.open_sink(latency_seconds=0.02)

    stage.source = previous
    await stage.command("db", "upgrade")
    before = (await load_schema(stage.database)).revision
    key = orjson.loads(await stage.command("key", "create", "--name", "faults", "--json"))["key"]
    old_api, old_port = await stage.api("--no-worker")
    old_workers = [await stage.working(), await stage.working()]
    old_load = Load(old_port, key, name="old", clients=clients)
    loads = [asyncio.create_task(old_load.run())]
    await until(lambda: sum(stage.received().values()) > 100, 60, "the first messages")

    stage.source = None
    unfinished = 0
    for number in range(kills):
        unfinished += await _killed_upgrade(stage, chance, waits=number % 2 == 0)
    await stage.command("db", "upgrade")
    after = (await load_schema(stage.database)).revision

    # Both releases work at once. The old one is also started again, as a crashed process is.
    new_api, new_port = await stage.api("--no-worker")
    new_workers = [await stage.working(), await stage.working()]
    new_load = Load(new_port, key, name="new", clients=clients)
    loads.append(asyncio.create_task(new_load.run()))
    old_workers[0].kill()
    new_workers[0].kill()
    stage.source = previous
    old_workers[0] = await stage.working()
    downgrade = stage.start("downgrade", ["db", "upgrade"])
    refused = await downgrade.ended()
    stage.source = None
    new_workers[0] = await stage.working()
    together = sum(stage.received().values())
    await until(lambda: sum(stage.received().values()) > together + 200, 60, "messages of both releases")

    # The old processes end as in a rolling upgrade: workers first finish what they began.
    old_load.is_over = True
    await loads[0]
    alive = [each for each in (old_api, *old_workers, new_api, *new_workers) if each.exit_code is not None]
    ended = [await _stopped(each) for each in (old_api, *old_workers)]
    alone = sum(stage.received().values())
    await until(lambda: sum(stage.received().values()) > alone + 100, 60, "messages of the new release")
    new_load.is_over = True
    await loads[1]
    await stage.all_done(seconds=60)
    for worker in new_workers:
        worker.kill()

    rows, told = await standing(stage), {**old_load.told, **new_load.told}
    statuses = old_load.statuses + new_load.statuses
    figures.note("answers", dict(statuses))
    figures.expect("killed upgrades that left work", unfinished, "≥ 1", when=unfinished >= 1)
    figures.expect("schema", f"{before} → {after}", "changed", when=before != after)
    figures.none("answers other than 202 and its replay", [each for each in statuses if each not in ("200", "202")])
    figures.none("answered with 202 but not stored", [each for each in told.values() if each not in rows])
    figures.expect("messages", len(rows), f"{len(told)} keys", when=len(rows) == len(told))
    figures.none("processes that did not survive", [str(each.exit_code) for each in alive])
    figures.expect("exit codes of the old release", ended, "0", when=not any(ended))
    figures.expect("exit code of a downgrade", refused, f"{UNKNOWN_SCHEMA}", when=refused == UNKNOWN_SCHEMA)
    found = (await load_schema(stage.database)).revision
    figures.expect("schema after the downgrade", found, f"{after}", when=found == after)
    await compare(stage, figures)
    return figures


async def _killed_upgrade(stage: Stage, chance: random.Random, *, waits: bool) -> bool:
    """Kill an upgrade at a random moment, or while its index waits for an open transaction and sending goes on."""
    if (await load_schema(stage.database)).is_usable:
        return False  # The one before was faster than its kill.
    reader = await asyncpg.connect(stage.url) if waits else None
    try:
        if reader is not None:
            await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM messages LIMIT 1")
        upgrade = stage.start("upgrade", ["db", "upgrade"])
        if waits:
            await _waits_for(stage.url)
            before = sum(stage.received().values())
            await until(lambda: sum(stage.received().values()) > before + 50, 30, "messages beside the upgrade")
        else:
            await asyncio.sleep(chance.uniform(0.0, 0.3))
        upgrade.kill()
    finally:
        if reader is not None:
            await reader.close()
    return not (await load_schema(stage.database)).is_usable


async def _waits_for(url: str) -> None:
    """Wait until the upgrade waits for the open transaction."""
    connection = await asyncpg.connect(url)
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INDEX CONCURRENTLY%'"
    try:
        for _ in range(600):
            if await connection.fetchval(query):
                return
            await asyncio.sleep(0.05)
    finally:
        await connection.close()
    raise AssertionError("no upgrade waits")


async def _stopped(process: Process) -> int:
    process.signal(signal.SIGTERM)
    return await process.ended()


def _git(*words: str) -> bytes:
    """Return what git prints, and nothing if it fails: an installation need not have its history."""
    done = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""
