"""Revisions change the rows of large tables in batches while a worker sends, and a killed upgrade continues."""

import asyncio
import signal
import sqlite3
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from mailwright.outbox.audit import audit
from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade
from mailwright.storage.revision import batches
from mailwright.storage.schema_state import SchemaStatus, load_schema
from tests.builders import Bench, a_message
from tests.schema_versions import add_revisions
from tests.standins.provider import ScriptedProvider

BATCHED = """sql("ALTER TABLE messages ADD COLUMN changes INTEGER DEFAULT 0 NOT NULL"),
  batches("messages", "UPDATE messages SET changes = changes + 1 WHERE id > :after AND id <= :until"),
  index("CREATE INDEX ix_messages_changes ON messages (changes)"),
  batches("deliveries", key="message_key", both="UPDATE deliveries SET attempts = attempts "
    "WHERE message_key > :after AND message_key <= :until")"""
STORED = 300
# The number of commits before each kill: in the first batch, between batches, and in the index.
KILLS = (0, 3, 6, 9, 4)


async def changes_of(database: Database) -> list[int]:
    async with database.read() as tx:
        return [row.changes for row in await tx.execute(text("SELECT changes FROM messages ORDER BY id"))]


async def killed_upgrade(database: Database, versions: Path, commits: int, sending: ScriptedProvider) -> int:
    """Upgrade until the kill. After each unit of work, wait until another message was sent."""
    url = database.url.render_as_string(hide_password=False)
    arguments = ("-m", "tests.killed_upgrade", url, str(versions), str(commits))
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    while await process.stdout.readline():
        sent = len(sending.messages)
        while len(sending.messages) == sent:
            await asyncio.sleep(0)
        process.stdin.write(b"\n")
    return await process.wait()


@pytest.fixture
async def sending(bench: Bench) -> AsyncIterator[ScriptedProvider]:
    """A worker that sends what is accepted all the time."""
    provider, is_over = ScriptedProvider(), asyncio.Event()
    await bench.accept(*[a_message() for _ in range(STORED)])

    async def work() -> None:
        while not is_over.is_set():
            await bench.accept(*[a_message() for _ in range(3)])
            await bench.drain(provider)

    working = asyncio.create_task(work())
    yield provider
    is_over.set()
    await working


async def test_killed_upgrades_change_each_row_once_beside_a_worker(
    bench: Bench, sending: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_revisions(tmp_path, monkeypatch, BATCHED)
    for commits in KILLS:
        ended = await killed_upgrade(bench.database, tmp_path / "versions", commits, sending)
        assert ended == -signal.SIGKILL
    assert (await load_schema(bench.database)).status is SchemaStatus.UNFINISHED
    await upgrade(bench.database)
    assert (await load_schema(bench.database)).status is SchemaStatus.CURRENT
    changed = await changes_of(bench.database)
    assert set(changed[:STORED]) == {1}
    assert set(changed) <= {0, 1}  # Messages that were accepted after the last batch have the default.
    assert len(set(sending.outbox_ids)) == len(sending.outbox_ids)
    assert (await audit(bench.database)).ok


async def test_other_processes_write_to_a_sqlite_file_after_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(f"sqlite:///{tmp_path}/mailwright.db")
    await upgrade(database)
    other = sqlite3.connect(str(database.url.database), timeout=0, isolation_level=None, check_same_thread=False)
    for number in range(5):
        other.execute("INSERT INTO tenants (name, created_at) VALUES (?, 0)", (f"tenant {number}",))
    batch = 'batches("tenants", "UPDATE tenants SET weight = weight + 1 WHERE id > :after AND id <= :until")'
    add_revisions(tmp_path, monkeypatch, batch)
    monkeypatch.setattr("mailwright.storage.batched_changes.BATCH_ROWS", 1)

    def write(_seconds: float) -> None:
        other.execute("UPDATE tenants SET created_at = created_at + 1")

    monkeypatch.setattr("mailwright.storage.migrate._pause", write)
    await upgrade(database)
    [(writes,)] = other.execute("SELECT min(created_at) FROM tenants")
    assert writes > 5
    other.close()
    await database.close()


def test_change_without_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="between :after and :until"):
        batches("messages", "UPDATE messages SET subject = ''")
