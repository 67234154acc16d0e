"""Kill queue workers while another program writes: every row gets one result, and no message is duplicated
unless it is recorded as resent."""

import asyncio
import random
import sqlite3
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import orjson

from tests.faults.books import standing
from tests.faults.figures import Figures
from tests.faults.processes import Process
from tests.faults.stage import Stage
from tests.notifications import FOREIGN_DDL

SEED = 20_270_115
LONGEST_SECONDS = 300
# Log events of a worker whose own or external database was unavailable.
TROUBLES = ("is locked", "periodic_work_postponed", "database_unavailable")
PAYLOAD = orjson.dumps({"courseTitle": "Data Structures", "sectionNumber": "01"}).decode()


async def run(stage: Stage, *, kills: int, events: int, readers: int) -> Figures:
    """Create `events` × `readers` notifications."""
    figures, chance = Figures(), random.Random(SEED)
    await stage.open_sink(latency_seconds=0.005)
    file = stage.folder / "queue.db"
    _make(file, readers)
    workers = [_worker(stage, file), _worker(stage, file)]
    for worker in workers:
        await worker.says("queue_opened")
    started = time.monotonic()
    producing = asyncio.create_task(asyncio.to_thread(_produce, file, events))
    everyone = list(workers)
    for _ in range(kills):
        await asyncio.sleep(chance.uniform(0.2, 0.6))
        chosen = chance.randrange(len(workers))
        workers[chosen].kill()
        workers[chosen] = _worker(stage, file)
        everyone.append(workers[chosen])
    refused = await producing
    await _all_told(file, events * readers)
    seconds = time.monotonic() - started

    rows, received = await standing(stage), stage.received()
    told = _rows(file)
    sent_once = Counter(subscriber for subscriber, _, _ in _timeline(file))
    figures.note("kills", kills)
    figures.note("notifications a second, with everything else", round(events * readers / seconds))
    figures.note("resent after a doubt", sum(row.resends for row in rows.values()))
    figures.none("lost", [key for key, row in rows.items() if row.status == "SENT" and not received[key]])
    figures.none("unreported duplicates", [key for key, times in received.items() if times > 1 + rows[key].resends])
    figures.expect("messages", len(rows), f"{events * readers}", when=len(rows) == events * readers)
    figures.none("rows that are not sent", [row for row in told if row[1] != "sent"])
    figures.none("rows whose attempts are not one", [row for row in told if row[2] != 1])
    figures.none("subscribers notified of more or fewer events", [s for s, n in sent_once.items() if n != events])
    figures.none("lock errors that the other program saw", refused)
    figures.none("lock errors that a worker saw", [line for each in everyone for line in _troubles(each.said)])
    figures.none("audits that did not add up", int(not await stage.identity_holds()))
    return figures


def _troubles(said: str) -> list[str]:
    return [line for line in said.splitlines() if any(each in line for each in TROUBLES)]


def _worker(stage: Stage, file: Path) -> Process:
    return stage.start("notify", ["notify", "run", "--database", f"sqlite:///{file}"])


def _make(file: Path, readers: int) -> None:
    with closing(sqlite3.connect(file)) as queue:
        queue.execute("PRAGMA journal_mode = WAL")
        queue.executescript(FOREIGN_DDL)
        queue.executemany(
            "INSERT INTO subscriptions (term_id, campus_code, index_number, contact_type, contact_value, status,"
            " unsubscribe_token) VALUES ('92026', 'NB', '10001', 'email', ?, 'active', ?)",
            [(f"reader{number}@example.com", f"token-{number}") for number in range(readers)],
        )
        queue.commit()


def _produce(file: Path, events: int) -> list[str]:
    """Write event by event, as the other program would, with its driver's default timeouts."""
    refused = []
    with closing(sqlite3.connect(file)) as queue:
        for number in range(events):
            now = datetime.now(UTC).isoformat()
            key = f"event-{number}"
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
            except sqlite3.OperationalError as error:
                refused.append(str(error))
                queue.rollback()
            time.sleep(0.01)
    return refused


async def _all_told(file: Path, expected: int) -> None:
    async with asyncio.timeout(LONGEST_SECONDS):
        while sum(row[1] == "sent" for row in await asyncio.to_thread(_rows, file)) < expected:
            await asyncio.sleep(0.2)


def _rows(file: Path) -> list[tuple[int, str, int]]:
    with closing(sqlite3.connect(file)) as queue:
        query = "SELECT notification_id, fanout_status, fanout_attempts FROM open_event_notifications"
        return queue.execute(query).fetchall()


def _timeline(file: Path) -> list[tuple[int, str, str]]:
    with closing(sqlite3.connect(file)) as queue:
        return queue.execute("SELECT subscription_id, event_type, payload FROM subscription_events").fetchall()
