"""Backups and restores that are killed at every step: the database and each backup stay whole."""

import asyncio
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

from sqlalchemy import insert, select

from mailwright.app.backups import audit_of
from mailwright.domain.clock import ManualClock, SystemClock
from mailwright.outbox.audit import audit
from mailwright.outbox.sending_hold import find_hold
from mailwright.storage.database import Database
from mailwright.storage.tables import campaign_attachments, metadata, schema_revisions, sessions, workers
from tests.builders import Bench, a_bench, a_message
from tests.faults.figures import Figures
from tests.faults.stage import Stage
from tests.standins.provider import ScriptedProvider
from tests.warm import warm_command

BACKUP_POINTS: Final = (
    "table 0",
    "table 20",
    "before _write_images",
    "before finish",
    "before audit_of",
    "sqlite rows 2",
    "after audit_of",
    "before link",
    "after link",
    "before record_backup",
)
RESTORE_POINTS: Final = {
    "sqlite": (
        "sqlite rows 0",
        "sqlite rows 2",
        "sqlite rows 5",
        "after load_tables",
        "before replace_file",
        "after link",
        "after replace_file",
        "before _restore_images",
        "before _acknowledge",
        "after _acknowledge",
    ),
    "postgresql": (
        "before back_up",
        "table 20",
        "after back_up",
        "postgresql rows 0",
        "postgresql rows 2",
        "postgresql rows 5",
        "before _finish",
        "before _restore_images",
        "before _acknowledge",
        "after _acknowledge",
    ),
}
# The points after which the restored content is there.
RESTORED: Final = ("after replace_file", "before _restore_images", "before _acknowledge", "after _acknowledge")

# Runs a backup or restore in a process that kills itself at the given point.
_KILLED: Final = """
import asyncio, inspect, os, signal, sys
from functools import wraps
from pathlib import Path
from mailwright.app import backups, restoring
from mailwright.domain.clock import SystemClock
from mailwright.ops.settings import load
from mailwright.storage import sqlite_file
from mailwright.storage.backup_file import BackupWriter
from mailwright.storage.database import Database

command, url, file, point = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]

def reach(name):
    if name == point:
        os.kill(os.getpid(), signal.SIGKILL)

def watch(owner, name):
    function = getattr(owner, name)
    @wraps(function)
    def watched(*arguments, **options):
        reach(f"before {name}")
        result = function(*arguments, **options)
        if not inspect.iscoroutine(result):
            reach(f"after {name}")
            return result
        async def awaited():
            value = await result
            reach(f"after {name}")
            return value
        return awaited()
    setattr(owner, name, watched)

def counted_tables(writer, *arguments, start_table=BackupWriter.start_table):
    reach(f"table {len(writer.contents.rows)}")
    start_table(writer, *arguments)

def counted_rows(connection, parts, load_tables=backups.load_tables):
    def until(parts):
        for number, part in enumerate(parts):
            yield part
            reach(f"{connection.dialect.name} rows {number}")
    load_tables(connection, until(parts))

BackupWriter.start_table = counted_tables
backups.load_tables = counted_rows
for owner, names in (
    (backups, ("_write_images", "audit_of", "record_backup", "load_tables")),
    (BackupWriter, ("finish",)),
    (os, ("link",)),
    (restoring, ("back_up", "replace_file", "_restore_images", "_acknowledge", "_finish")),
):
    for name in names:
        watch(owner, name)
settings = load(database_url=url, images=file.parent / "images", state=file.parent / "state")

async def back_up():
    database = Database(url)
    await backups.back_up(settings, database, SystemClock(), file)

async def restore():
    await restoring.restore(settings, SystemClock(), file, key=None, verify=False)

asyncio.run({"backup": back_up, "restore": restore}[command]())
"""

# Changes that a backup or a restore makes after the content was copied.
_NOT_COPIED: Final = ("sending_hold", "sequence", "advanced_at", "last_backup", "server_history")


async def fill(bench: Bench) -> None:
    await bench.accept(*[a_message() for _ in range(7)])
    await bench.drain(ScriptedProvider())
    await bench.accept(*[a_message(to=f"zoë{number}@exämple.com") for number in range(3)])
    async with bench.database.write() as tx:
        attachment = {"attachment_id": "x", "tenant_id": 1, "campaign_key": 1, "filename": "a.bin", "created_at": 1}
        attachment |= {"content_type": "application/octet-stream", "size_bytes": 256, "content": bytes(range(256))}
        await tx.execute(insert(campaign_attachments).values(**attachment))


async def content(url: str) -> dict[str, Any]:
    """Return every row of every table that a backup holds, except what the backup and a restore add afterwards."""
    database = Database(url)
    found = {}
    try:
        async with database.read() as tx:
            for table in metadata.sorted_tables:
                if table not in (sessions, workers, schema_revisions):
                    rows = await tx.execute(select(table).order_by(*table.primary_key))
                    found[table.name] = [tuple(row) for row in rows if row[0] not in _NOT_COPIED]
    finally:
        await database.close()
    return found


async def killed(command: str, url: str, file: Path, point: str) -> bool:
    """Run a backup or restore until it kills itself. Return False if it never reached the point."""
    arguments = (*warm_command(), "-c", _KILLED, command, url, str(file), point)
    process = await asyncio.create_subprocess_exec(*arguments, stderr=subprocess.DEVNULL)
    return await process.wait() == -signal.SIGKILL


async def run(stage: Stage, *, points: int) -> Figures:
    figures = Figures()
    file = stage.folder / "a.mwbackup"
    image = stage.folder / "images" / "ab12.png"
    image.parent.mkdir()
    image.write_bytes(b"\x89PNG")
    async with a_bench(stage.url, ManualClock(SystemClock().now() - 3_600_000)) as bench:
        await fill(bench)
    await killed("backup", stage.url, file, "none")  # The first one gives the database an ID.
    await _kill_backups(figures, stage, file, BACKUP_POINTS[:points])
    file.unlink(missing_ok=True)
    await killed("backup", stage.url, file, "none")
    _require_clean(figures, "after a complete backup", stage)
    image.unlink()
    engine = "sqlite" if stage.url.startswith("sqlite") else "postgresql"
    await _kill_restores(figures, stage, file, RESTORE_POINTS[engine][:points])
    await killed("restore", stage.url, file, "none")
    _require_clean(figures, "after a complete restore", stage)
    figures.expect("images restored", image.read_bytes(), "whole", when=image.read_bytes() == b"\x89PNG")
    return figures


async def _kill_backups(figures: Figures, stage: Stage, file: Path, points: tuple[str, ...]) -> None:
    before = await content(stage.url)
    missed, changed, damaged = [], [], []
    for point in points:
        file.unlink(missing_ok=True)
        if not await killed("backup", stage.url, file, point):
            missed.append(point)
        if await content(stage.url) != before or not await _is_audit_true(stage.url):
            changed.append(point)
        if file.exists() and not (await audit_of(file, None)).ok:
            damaged.append(point)
    figures.note("backups killed", len(points))
    figures.none("points not reached", missed)
    figures.none("databases changed", changed)
    figures.none("damaged backups", damaged)


async def _kill_restores(figures: Figures, stage: Stage, file: Path, points: tuple[str, ...]) -> None:
    backed_up = await content(stage.url)
    missed, mixed, sending = [], [], []
    for point in points:
        async with a_bench(stage.url, ManualClock(SystemClock().now() - 3_600_000)) as bench:
            await bench.accept(a_message())  # Not in the backup.
        current = await content(stage.url)
        if not await killed("restore", stage.url, file, point):
            missed.append(point)
        expected = backed_up if point in RESTORED else current
        if await content(stage.url) != expected or not await _is_audit_true(stage.url):
            mixed.append(point)
        if point in RESTORED and not await _is_held(stage.url):
            sending.append(point)
    figures.note("restores killed", len(points))
    figures.none("points not reached", missed)
    figures.none("databases neither old nor new", mixed)
    figures.none("restored and not held", sending)


async def _is_audit_true(url: str) -> bool:
    database = Database(url)
    try:
        return (await audit(database)).ok
    finally:
        await database.close()


async def _is_held(url: str) -> bool:
    database = Database(url)
    try:
        return await find_hold(database) is not None
    finally:
        await database.close()


def _require_clean(figures: Figures, when: str, stage: Stage) -> None:
    folders = [stage.folder]
    if stage.url.startswith("sqlite"):
        folders.append(Path(stage.url.removeprefix("sqlite:///")).parent)
    left = [each.name for folder in folders for each in folder.glob(".mailwright-*")]
    figures.none(f"unfinished files {when}", left)
