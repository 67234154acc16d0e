"""A notification queue for tests: the tables of another program on each engine, and what it writes."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from sqlalchemy import Table, func, insert, select, text, update

from mailwright.app.notification_queue import make_fanout, open_configured_queue
from mailwright.domain.clock import Instant, ManualClock, isoformat
from mailwright.providers.protocol import Provider
from mailwright.sources.notifications.fanout import NotificationFanout
from mailwright.sources.notifications.queue import NotificationQueue
from mailwright.sources.notifications.tables import contract_tables
from mailwright.storage.database import Database
from tests.builders import Bench, a_bench
from tests.engines import PostgresServer

MOST = 10_000
PLACES = ["sqlite", "postgresql", "shared"]

# The tables as the other program creates them.
FOREIGN_DDL = """
CREATE TABLE open_event_notifications (
  notification_id INTEGER PRIMARY KEY AUTOINCREMENT, open_event_id INTEGER NOT NULL, subscription_id INTEGER NOT NULL,
  dedupe_key TEXT NOT NULL, fanout_status TEXT NOT NULL DEFAULT 'pending', fanout_attempts INTEGER NOT NULL DEFAULT 0,
  last_attempt_at TEXT, locked_by TEXT, locked_at TEXT, error TEXT, created_at TEXT NOT NULL,
  UNIQUE (open_event_id, subscription_id));
CREATE TABLE open_events (
  open_event_id INTEGER PRIMARY KEY AUTOINCREMENT, section_id INTEGER, term_id TEXT, campus_code TEXT,
  index_number TEXT, status_before TEXT, status_after TEXT, seat_delta INTEGER, event_at TEXT, detected_by TEXT,
  snapshot_id INTEGER, dedupe_key TEXT, trace_id TEXT, payload TEXT, created_at TEXT);
CREATE TABLE subscriptions (
  subscription_id INTEGER PRIMARY KEY AUTOINCREMENT, section_id INTEGER, term_id TEXT, campus_code TEXT,
  index_number TEXT, contact_type TEXT, contact_value TEXT, contact_hash TEXT, locale TEXT, status TEXT,
  is_verified INTEGER, created_at TEXT, updated_at TEXT, last_notified_at TEXT, last_known_section_status TEXT,
  unsubscribe_token TEXT, metadata TEXT);
CREATE TABLE subscription_events (
  event_id INTEGER PRIMARY KEY AUTOINCREMENT, subscription_id INTEGER NOT NULL, event_type TEXT NOT NULL,
  section_status_snapshot TEXT, payload TEXT, created_at TEXT);
CREATE TABLE sections (
  section_id INTEGER PRIMARY KEY, course_id INTEGER, section_number TEXT, index_number TEXT, subject_code TEXT,
  open_status TEXT, meeting_mode_summary TEXT);
CREATE TABLE courses (course_id INTEGER PRIMARY KEY, course_string TEXT, title TEXT);
CREATE TABLE section_meetings (
  section_id INTEGER, meeting_day TEXT, start_minutes INTEGER, end_minutes INTEGER, campus_abbrev TEXT,
  building_code TEXT, room_number TEXT);
"""


def ddl(dialect: str, schema: str | None = None) -> list[str]:
    script = FOREIGN_DDL
    if dialect == "postgresql":
        script = script.replace("INTEGER PRIMARY KEY AUTOINCREMENT", "bigserial PRIMARY KEY")
    if schema is not None:
        script = script.replace("CREATE TABLE ", f"CREATE TABLE {schema}.")
    return [statement for statement in script.split(";") if statement.strip()]


_contract_tables = cache(contract_tables)


@dataclass
class QueueOwner:
    """The program that owns the queue, with a connection of its own."""

    database: Database
    schema: str | None
    clock: ManualClock
    _numbers: count = field(default_factory=lambda: count(1))

    def table(self, name: str) -> Table:
        metadata = _contract_tables(self.schema)
        return metadata.tables[f"{self.schema}.{name}" if self.schema else name]

    @property
    def now(self) -> str:
        return isoformat(self.clock.now()) or ""

    async def notification(self, **changes: Any) -> int:
        """Insert a notification. `event`, `subscription`, `payload` and `preferences` override the defaults."""
        number = next(self._numbers)
        event = changes.pop("event", None) or {}
        payload = changes.pop("payload", None)
        preferences = changes.pop("preferences", None)
        subscription = changes.pop("subscription", None) or {}
        if preferences is not None:
            subscription = {**subscription, "metadata": orjson.dumps({"preferences": preferences}).decode()}
        if "open_event_id" not in changes:
            changes["open_event_id"] = await self.event(number, payload, **event)
        if "subscription_id" not in changes:
            changes["subscription_id"] = await self.subscriber(number, **subscription)
        row = {"dedupe_key": f"dedupe-{number}", "created_at": self.now, **changes}
        return await self._insert("open_event_notifications", "notification_id", row)

    async def event(self, number: int, details: Any = None, **changes: Any) -> int:
        fields = {"courseTitle": "Data Structures", "sectionNumber": "01", **(details or {})}
        row = {
            "section_id": 7,
            "term_id": "92026",
            "campus_code": "NB",
            "index_number": f"{10_000 + number}",
            "status_before": "Closed",
            "status_after": "Open",
            "event_at": self.now,
            "detected_by": "open_sections",
            "dedupe_key": f"dedupe-{number}",
            "trace_id": f"trace-{number}",
            "payload": orjson.dumps({name: value for name, value in fields.items() if value is not None}).decode(),
            "created_at": self.now,
            **changes,
        }
        return await self._insert("open_events", "open_event_id", row)

    async def subscriber(self, number: int, **changes: Any) -> int:
        row = {
            "section_id": 7,
            "term_id": "92026",
            "campus_code": "NB",
            "index_number": f"{10_000 + number}",
            "contact_type": "email",
            "contact_value": f"reader{number}@example.com",
            "locale": "en",
            "status": "active",
            "is_verified": 1,
            "created_at": self.now,
            "unsubscribe_token": f"token-{number}",
            **changes,
        }
        return await self._insert("subscriptions", "subscription_id", row)

    async def change(self, table: str, key: int, **values: Any) -> None:
        known = self.table(table)
        column = next(iter(known.primary_key.columns))
        async with self.database.write() as tx:
            await tx.execute(update(known).where(column == key).values(**values))

    async def row(self, notification_id: int) -> Any:
        known = self.table("open_event_notifications")
        async with self.database.read() as tx:
            [row] = await tx.execute(select(known).where(known.c.notification_id == notification_id))
        return row

    async def error(self, notification_id: int) -> Any:
        """Return the parsed error column."""
        error = (await self.row(notification_id)).error
        return None if error is None else orjson.loads(error)

    async def rows(self) -> list[Any]:
        known = self.table("open_event_notifications")
        async with self.database.read() as tx:
            return list(await tx.execute(select(known).order_by(known.c.notification_id)))

    async def statuses(self) -> dict[str, int]:
        known = self.table("open_event_notifications").c
        query = select(known.fanout_status, func.count().label("rows")).group_by(known.fanout_status)
        async with self.database.read() as tx:
            return {row.fanout_status: row.rows for row in await tx.execute(query)}

    async def timeline(self, subscription_id: int | None = None) -> list[Any]:
        known = self.table("subscription_events")
        query = select(known).order_by(known.c.event_id)
        if subscription_id is not None:
            query = query.where(known.c.subscription_id == subscription_id)
        async with self.database.read() as tx:
            return list(await tx.execute(query))

    async def insert_sections(self, open_status: str = "Open") -> None:
        prefix = f"{self.schema}." if self.schema else ""
        async with self.database.write() as tx:
            for sql in (
                f"INSERT INTO {prefix}sections VALUES (7, 3, '05', '10001', '198', '{open_status}', 'Hybrid')",
                f"INSERT INTO {prefix}courses VALUES (3, '01:198:112', 'Data Structures')",
                f"INSERT INTO {prefix}section_meetings VALUES (7, 'M', 540, 600, 'BUS', 'TIL', '124')",
                f"INSERT INTO {prefix}section_meetings VALUES (7, 'TH', 780, 860, 'BUS', 'LSB', NULL)",
            ):
                await tx.execute(text(sql))

    async def _insert(self, name: str, key: str, values: dict[str, Any]) -> int:
        known = self.table(name)
        async with self.database.write() as tx:
            [inserted] = await tx.execute(insert(known).values(**values).returning(known.c[key]))
        return int(inserted[0])


@dataclass
class QueueSetup:
    """A queue and an engine that serves it, on a manual clock."""

    bench: Bench
    owner: QueueOwner
    queue: NotificationQueue

    @property
    def clock(self) -> ManualClock:
        return self.bench.clock

    async def fanout(
        self, worker: str = "worker-1", bench: Bench | None = None, *, database: "HookedDatabase | None" = None
    ) -> NotificationFanout:
        engine = (bench or self.bench).engine
        own = cast("Database", database) if database is not None else engine.database
        return await make_fanout(engine.settings, own, engine.clock, engine.templates, self.queue, worker=worker)

    async def round(self, provider: Provider, fanout: NotificationFanout | None = None) -> NotificationFanout:
        """Claim, send and record everything that is due."""
        fanout = fanout or await self.fanout()
        await fanout.claim_due(MOST)
        await self.bench.drain(provider)
        await fanout.record_results()
        return fanout

    def advance(self, duration: Instant) -> None:
        self.clock.advance(duration)


class HookedDatabase:
    """The engine's database, with a hook that is called once, before the next transaction on the hot path."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.before_transact: Callable[[], Awaitable[None]] | None = None

    async def transact(self, work: Any, **options: Any) -> Any:
        hook, self.before_transact = self.before_transact, None
        if hook is not None:
            await hook()
        return await self._database.transact(work, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


@asynccontextmanager
async def a_queue_setup(
    url: str, queue_url: str, schema: str | None, clock: ManualClock, **settings: Any
) -> AsyncIterator[QueueSetup]:
    named = {"notify_database_url": queue_url, "notify_schema": schema, "base_url": "https://seats.example"}
    theirs = Database(queue_url, is_ours=False)
    try:
        async with (
            a_bench(url, clock, **{**named, **settings}) as bench,
            open_configured_queue(bench.engine.settings, bench.database) as queue,
        ):
            yield QueueSetup(bench, QueueOwner(theirs, schema, clock), queue)
    finally:
        await theirs.close()


@asynccontextmanager
async def a_queue_setup_at(
    place: str, request: pytest.FixtureRequest, folder: Path, clock: ManualClock
) -> AsyncIterator[QueueSetup]:
    """Set up a queue in a separate database, or with `shared` in a schema of our own database."""
    if place == "sqlite":
        ours = folder / "mailwright.db"
        ours.write_bytes(request.getfixturevalue("empty_sqlite"))
        theirs = f"sqlite:///{folder}/queue.db"
        await make_tables(theirs)
        async with a_queue_setup(f"sqlite:///{ours}", theirs, None, clock) as setup:
            yield setup
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = await server.create()
    if place == "postgresql":
        theirs = await server.create_empty()
        await make_tables(theirs)
        async with a_queue_setup(url, theirs, None, clock) as setup:
            yield setup
        await server.drop_empty(theirs)
    else:
        await make_tables(url, "seats")
        async with a_queue_setup(url, url, "seats", clock) as setup:
            assert setup.queue.is_shared
            yield setup
        await drop_schema(url, "seats")
    await server.drop(url)


async def make_tables(url: str, schema: str | None = None, *, without: Sequence[str] = ()) -> None:
    """Create the tables, except the columns and tables in `without`."""
    database = Database(url, is_ours=False)
    async with database.write() as tx:
        if schema is not None:
            await tx.execute(text(f"CREATE SCHEMA {schema}"))
        for sql in ddl(database.dialect, schema):
            statement = re.sub("|".join(rf"\b{name} TEXT," for name in without) or "(?!)", "", sql)
            if not any(name in statement for name in without):
                await tx.execute(text(statement))
    await database.close()


async def drop_schema(url: str, schema: str) -> None:
    database = Database(url)
    async with database.write() as tx:
        await tx.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    await database.close()
