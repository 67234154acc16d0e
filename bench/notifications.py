"""Notifications per second from a SQLite queue, from the row to its recorded result, while the producer writes to it.

Runs as its own process."""

import argparse
import asyncio
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from bench.migrated import migrated
from mailwright.app.notification_queue import make_fanout, open_configured_queue
from mailwright.app.notifications import MAX_ROWS_PER_CLAIM, RECORD_SECONDS
from mailwright.app.wiring import make_worker, open_engine
from mailwright.domain.clock import Instant
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult, sent
from mailwright.ops import logs
from mailwright.ops.settings import load
from mailwright.providers.protocol import ProviderCheck
from mailwright.sources.notifications.queue import create_queue
from mailwright.sources.notifications.statuses import FanoutStatus
from mailwright.storage.database import Database

EVENTS = 100
PENDING, SENT = FanoutStatus.PENDING.value, FanoutStatus.SENT.value
PAYLOAD = '{"courseTitle": "Data Structures", "sectionNumber": "01"}'


@dataclass(frozen=True, slots=True)
class FannedOut:
    notifications: int
    seconds: float
    cpu_seconds: float  # CPU time of all threads of the process, which does not grow on a busy machine.
    messages: int
    refused: int  # Writes of the other program that failed because the file was locked.

    @property
    def per_second(self) -> float:
        return self.notifications / self.seconds


class Counting:
    """A provider that accepts everything at once and counts."""

    name = "counting"
    reports_events = False
    capacity = bulk_capacity = 64

    def __init__(self) -> None:
        self.messages: list[str] = []

    async def send(self, message: OutgoingMessage) -> SendResult:
        self.messages.append(message.outbox_id)
        return sent(self.name, message.outbox_id)

    async def check(self) -> ProviderCheck:
        return ProviderCheck(True, "counting")

    async def close(self, grace: Instant = 0) -> None:
        """Nothing to close."""


def measured(notifications: int) -> FannedOut:
    words = [sys.executable, "-m", "bench.notifications", str(notifications)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return FannedOut(**json.loads(done.stdout))


async def fan_out(folder: Path, notifications: int) -> FannedOut:
    queue_file, url = folder / "queue.db", f"sqlite:///{folder}/mailwright.db"
    theirs = Database(f"sqlite:///{queue_file}")
    await create_queue(theirs, None)
    await theirs.close()
    readers = notifications // EVENTS
    fill(queue_file, readers)
    await migrated(url)
    settings = load(database_url=url, notify_database_url=f"sqlite:///{queue_file}", sender="shop@example.com")
    provider = Counting()
    async with open_engine(settings) as engine, open_configured_queue(settings, engine.database) as queue:
        fanout = await make_fanout(settings, engine.database, engine.clock, engine.templates, queue)
        worker = await make_worker(engine, provider)
        working = asyncio.create_task(worker.run())
        began, cpu_began = time.perf_counter(), time.process_time()
        producing = asyncio.create_task(asyncio.to_thread(produce, queue_file))
        is_over = False
        while not is_over:
            is_written = producing.done()
            taken = await fanout.claim_due(MAX_ROWS_PER_CLAIM)
            if taken:
                engine.wake.set()
            told = await fanout.record_results()
            is_over = is_written and not taken and not told and not (await queue.count_by_status()).get(PENDING)
            if not taken:
                await asyncio.sleep(RECORD_SECONDS)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        worker.stop()
        await working
        refused = await producing
        fanned_out = (await queue.count_by_status()).get(SENT, 0)
    return FannedOut(fanned_out, seconds, cpu_seconds, len(provider.messages), refused)


def fill(file: Path, readers: int) -> None:
    with closing(sqlite3.connect(file)) as queue:
        queue.executemany(
            "INSERT INTO subscriptions (term_id, campus_code, index_number, contact_type, contact_value, status,"
            " unsubscribe_token) VALUES ('92026', 'NB', '10001', 'email', ?, 'active', ?)",
            [(f"reader{number}@example.com", f"token-{number}") for number in range(readers)],
        )
        queue.commit()


def produce(file: Path) -> int:
    """Write event by event with the driver's default timeout, and return how often the database was locked."""
    refused = 0
    with closing(sqlite3.connect(file)) as queue:
        for number in range(EVENTS):
            now, key = datetime.now(UTC).isoformat(), f"event-{number}"
            try:
                made = queue.execute(
                    "INSERT INTO open_events (term_id, campus_code, index_number, status_before, status_after,"
                    " event_at, dedupe_key, payload, created_at)"
                    " VALUES ('92026', 'NB', '10001', 'Closed', 'Open', ?, ?, ?, ?)",
                    (now, key, PAYLOAD, now),
                )
                queue.execute(
                    "INSERT INTO open_event_notifications (open_event_id, subscription_id, dedupe_key, created_at)"
                    " SELECT ?, subscription_id, ?, ? FROM subscriptions",
                    (made.lastrowid, key, now),
                )
                queue.commit()
            except sqlite3.OperationalError:
                refused += 1
                queue.rollback()
    return refused


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m bench.notifications", description=__doc__)
    reader.add_argument("notifications", type=int, nargs="?", default=10_000)
    asked = reader.parse_args()
    logs.configure("ERROR", "console")
    with tempfile.TemporaryDirectory(prefix="mwfanout") as folder:
        json.dump(asdict(uvloop.run(fan_out(Path(folder), asked.notifications))), sys.stdout)


if __name__ == "__main__":
    main()
