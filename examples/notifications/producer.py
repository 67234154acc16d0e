"""A small producer of notifications: a program without Mailwright that writes the queue with sqlite3.

    python examples/notifications/producer.py queue.db

makes the tables of the contract where they are not there yet, a few subscribers, and one event: a seat has opened.
`mailwright notify run --database sqlite:///queue.db --drain` sends what came of it.
"""

import json
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

DATA = Path(__file__).with_name("sample.json")

TABLES = """
CREATE TABLE IF NOT EXISTS open_events (
  open_event_id INTEGER PRIMARY KEY, section_id INTEGER, term_id TEXT, campus_code TEXT, index_number TEXT,
  status_before TEXT, status_after TEXT, seat_delta INTEGER, event_at TEXT, detected_by TEXT, snapshot_id INTEGER,
  dedupe_key TEXT, trace_id TEXT, payload TEXT, created_at TEXT);
CREATE TABLE IF NOT EXISTS open_event_notifications (
  notification_id INTEGER PRIMARY KEY, open_event_id INTEGER NOT NULL, subscription_id INTEGER NOT NULL,
  dedupe_key TEXT NOT NULL, fanout_status TEXT NOT NULL DEFAULT 'pending', fanout_attempts INTEGER NOT NULL DEFAULT 0,
  last_attempt_at TEXT, locked_by TEXT, locked_at TEXT, error TEXT, created_at TEXT NOT NULL,
  UNIQUE (open_event_id, subscription_id));
CREATE TABLE IF NOT EXISTS subscriptions (
  subscription_id INTEGER PRIMARY KEY, section_id INTEGER, term_id TEXT, campus_code TEXT, index_number TEXT,
  contact_type TEXT, contact_value TEXT, contact_hash TEXT, locale TEXT, status TEXT, is_verified INTEGER,
  created_at TEXT, updated_at TEXT, last_notified_at TEXT, last_known_section_status TEXT, unsubscribe_token TEXT,
  metadata TEXT);
CREATE TABLE IF NOT EXISTS subscription_events (
  event_id INTEGER PRIMARY KEY, subscription_id INTEGER NOT NULL, event_type TEXT NOT NULL,
  section_status_snapshot TEXT, payload TEXT, created_at TEXT);
"""


def main() -> None:
    with closing(sqlite3.connect(sys.argv[1])) as queue:
        queue.executescript(TABLES)
        produce(queue, json.loads(DATA.read_text(encoding="utf-8")))


def produce(queue: sqlite3.Connection, sample: dict[str, list[dict[str, object]]]) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    with queue:
        for subscriber in sample["subscriptions"]:
            insert(queue, "subscriptions", {"created_at": now, **subscriber})
        for event in sample["events"]:
            row = {"event_at": now, "created_at": now, "detected_by": "sample producer", **event}
            event_id = insert(queue, "open_events", row)
            queue.execute(
                "INSERT INTO open_event_notifications (open_event_id, subscription_id, dedupe_key, created_at)"
                " SELECT ?, subscription_id, ?, ? FROM subscriptions WHERE index_number = ? AND status = 'active'",
                (event_id, event["dedupe_key"], now, event["index_number"]),
            )


def insert(queue: sqlite3.Connection, table: str, values: dict[str, object]) -> int | None:
    row = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in values.items()}
    places = ", ".join("?" * len(row))
    return queue.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})",  # noqa: S608 - names of the sample file
        list(row.values()),
    ).lastrowid


if __name__ == "__main__":
    main()
