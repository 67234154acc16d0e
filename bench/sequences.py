"""Measure sequences with many people in them, in CPU time of this process and of its database connections.

`python -m bench.sequences DATABASE [PEOPLE]` fills an empty database and measures.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import psutil
from sqlalchemy import func, select, text, update

from bench import campaigns
from bench.children import NotMeasured
from bench.in_process import answer
from mailwright.app.wiring import Engine, open_engine
from mailwright.domain.clock import DAY, MINUTE, ManualClock, SystemClock
from mailwright.domain.ids import uuid7s
from mailwright.domain.lanes import sequence_lane
from mailwright.domain.message import NewMessage, Source
from mailwright.domain.states import OnDoubt, Priority
from mailwright.ops.settings import load
from mailwright.outbox.accept import accept
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.events import SequenceEvents
from mailwright.sources.sequences.runner import BATCH_SIZE, SequenceRunner
from mailwright.sources.sequences.watch import SequenceWatch
from mailwright.storage.database import Database
from mailwright.storage.tables import contact_events, contacts, sequence_enrolments, sequence_steps, sequences
from mailwright.web.app import create_app

TENANT, ACTOR = campaigns.TENANT, "bench"
PEOPLE = 1_000_000
ENTERING = 100_000
# People whose step is due, and events that arrive, in one measurement.
DUE = 20_000
PASSES = 100
CALLERS = 64
DOCUMENT: dict[str, Any] = {
    "name": "Bench",
    "trigger": {"event": "trial.started"},
    "list": "news",
    "goal": {"event": "order.placed"},
    "steps": [
        {"id": "hello", "send": {"template": "hello"}},
        {"id": "pause", "wait": {"days": 30}},
        {"id": "tag", "change": {"addTags": ["trial"]}},
        {"id": "rest", "wait": {"days": 30}},
        {"id": "offer", "send": {"template": "hello"}},
        {"id": "last", "wait": {"days": 30}},
    ],
}

REHEARSED: dict[str, Any] = {
    "name": "Rehearsed",
    "trigger": {"manual": True},
    "list": "late",
    "steps": [
        {"id": "hello", "send": {"template": "hello"}},
        {"id": "two-days", "wait": {"days": 2}},
        {"id": "tips", "send": {"template": "hello"}},
        {"id": "week", "waitUntil": {"weekdays": ["mon"], "time": "09:00"}},
        {"id": "offer", "send": {"template": "hello"}},
    ],
}

_ENROLMENTS = """
INSERT INTO sequence_enrolments (tenant_id, sequence_key, contact_key, run, entered_at, entered_because, node, visit,
  waits_since, due_at, events_after)
SELECT 1, CAST(:sequence AS bigint), c.id, 1, CAST(:now AS bigint), 'manual', 'pause', 1, CAST(:now AS bigint),
  CAST(:now AS bigint) + 86400000 + c.id * 7919 % 2505600000, 0
FROM contacts AS c WHERE c.id > :first AND c.id <= :last
"""
_STEPS = """
INSERT INTO sequence_steps (enrolment_key, visit, version, node, kind, at, outcome)
SELECT e.id, 1, 1, 'hello', 'send', CAST(:now AS bigint), 'sent' FROM sequence_enrolments AS e
WHERE e.contact_key > :first AND e.contact_key <= :last
"""
_LATE_LIST = """
INSERT INTO lists (tenant_id, list_key, name, is_public, created_at) VALUES (1, 'late', 'Late', true, 0)
"""
_LATE_SUBSCRIPTIONS = """
INSERT INTO subscriptions (tenant_id, contact_key, list_key, subscribed_at, source)
SELECT 1, id, 'late', 0, 'import' FROM contacts WHERE id > :people
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The CPU seconds that a number of operations took."""

    number: int
    process: float
    database: float
    clock: float  # Seconds that passed.

    @property
    def milliseconds(self) -> float:
        return (self.process + self.database) * 1000 / self.number


@dataclass(slots=True)
class Measured:
    people: int
    costs: dict[str, Cost] = field(default_factory=dict)


def measured(url: str, people: int) -> Measured:
    done = subprocess.run(
        [sys.executable, "-m", "bench.sequences", url, str(people)], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    return Measured(found["people"], {name: Cost(**each) for name, each in found["costs"].items()})


class Meter:
    """Measures the CPU time of this process and of the connections to PostgreSQL."""

    def __init__(self, database: Database, found: Measured) -> None:
        self._database = database
        self._found = found

    @asynccontextmanager
    async def measuring(self, name: str, number: int) -> AsyncIterator[None]:
        server, own, began = await self._server_seconds(), time.process_time(), time.perf_counter()
        yield
        own, took = time.process_time() - own, time.perf_counter() - began
        self._found.costs[name] = Cost(number, own, await self._server_seconds() - server, took)

    async def _server_seconds(self) -> float:
        """Return the CPU time of the server's processes for our connections, which stay open."""
        if self._database.dialect == "sqlite":
            return 0.0
        async with self._database.read() as tx:
            query = text("SELECT pid FROM pg_stat_activity WHERE application_name = 'mailwright'")
            rows = await tx.execute(query)
        return sum(sum(psutil.Process(row.pid).cpu_times()[:2]) for row in rows)


async def measure(url: str, people: int) -> Measured:
    await campaigns.fill(url, people + ENTERING)
    found = Measured(people)
    clock = ManualClock(SystemClock().now())
    async with open_engine(load(database_url=url), clock) as engine:
        key, sequence_id = await _fill(engine, people)
        bench = Bench(engine, clock, Meter(engine.database, found), key, sequence_id)
        await bench.passes()
        await bench.pages()
        await bench.steps()
        await bench.rehearsal()
        await bench.enrolments(people)
        await bench.events(people)
    return found


@dataclass(frozen=True, slots=True)
class Bench:
    engine: Engine
    clock: ManualClock
    meter: Meter
    key: int
    sequence_id: str

    async def passes(self) -> None:
        """Measure the passes of a worker that finds nothing to do."""
        database = self.engine.database
        runner, events = (
            SequenceRunner(database, self.clock, self.engine.templates),
            SequenceEvents(database, self.clock),
        )
        watch = SequenceWatch(database, self.clock)
        await _repeat([runner.tick, events.tick, watch.tick], 3)
        async with self.meter.measuring("idle pass", PASSES):
            await _repeat([runner.tick, events.tick, watch.tick], PASSES)

        async def compare() -> bool:
            self.clock.advance(MINUTE)
            return await watch.tick()

        async with self.meter.measuring("comparison", 10):
            await _repeat([compare], 10)

    async def pages(self) -> None:
        """Measure the queries behind the pages of a sequence: its counts, and the explanation of one person."""
        service = self.engine.sequences
        stored = await service.find(TENANT, self.sequence_id)
        async with self.meter.measuring("counts", 1):
            await service.counts(stored)
        async with self.engine.database.read() as tx:
            [row] = await tx.execute(select(contacts.c.email).where(contacts.c.id == 1))
        async with self.meter.measuring("explain", PASSES):
            for _ in range(PASSES):
                await service.explanations.of_sequence(TENANT, self.sequence_id, row.email)

    async def steps(self) -> None:
        runner = SequenceRunner(self.engine.database, self.clock, self.engine.templates)
        await self._make_due(0, "pause")
        async with self.meter.measuring("step", DUE):
            await _exhaust(runner.tick)
        await self._make_due(DUE, "rest")
        async with self.meter.measuring("step with email", DUE):
            await _exhaust(runner.tick)
        async with self.engine.database.read() as tx:
            query = select(sequence_steps.c.node, func.count().label("steps")).group_by(sequence_steps.c.node)
            taken = {row.node: row.steps for row in await tx.execute(query)}
        if (taken.get("tag"), taken.get("offer")) != (DUE, DUE):
            raise NotMeasured(f"the steps that happened were {taken}")
        async with self.meter.measuring("email alone", DUE):
            await self._accept()

    async def _make_due(self, first: int, node: str) -> None:
        e = sequence_enrolments.c
        chosen = (e.contact_key > first, e.contact_key <= first + DUE)
        now = self.clock.now()
        values = {"node": node, "due_at": now, "waits_since": now - 30 * DAY}
        async with self.engine.database.write() as tx:
            await tx.execute(update(sequence_enrolments).where(*chosen).values(**values))

    async def _accept(self) -> None:
        """Accept the same number of emails as a step does, but without running the step."""
        async with self.engine.database.read() as tx:
            query = select(contacts.c.contact_id, contacts.c.email).where(contacts.c.id > 2 * DUE)
            rows = await tx.execute(query.order_by(contacts.c.id).limit(DUE))
            [template] = await tx.execute(text("SELECT id FROM templates"))
        now = self.clock.now()
        for start in range(0, DUE, BATCH_SIZE):
            part = rows[start : start + BATCH_SIZE]
            emails = [
                NewMessage(
                    outbox_id=outbox_id,
                    tenant_id=TENANT,
                    source=Source.SEQUENCE,
                    request_id=self.sequence_id,
                    to_email=row.email,
                    subject="Hello",
                    payload={"to": row.email, "toName": "Ann", "variables": {"city": "Rome"}},
                    recipient_id=row.contact_id,
                    external_id=row.contact_id,
                    dedupe_key=f"alone:{row.contact_id}",
                    template_key=template.id,
                    on_doubt=OnDoubt.HOLD,
                    priority=Priority.BULK,
                    is_bulk=True,
                    list_key="news",
                    lane=sequence_lane(TENANT, self.key),
                )
                for row, outbox_id in zip(part, uuid7s(now, len(part)), strict=True)
            ]
            async with self.engine.database.write() as tx:
                await accept(tx, emails, now)

    async def rehearsal(self) -> None:
        """Rehearse 30 days of a series of three emails for everyone on the list."""
        service = self.engine.sequences
        created = await service.create(TENANT, REHEARSED, actor=ACTOR)
        async with self.meter.measuring("rehearsal", 1):
            done = await service.rehearsals.rehearse(TENANT, created.sequence_id, people=People(list_key="late"))
        if (done.people, done.emails) != (ENTERING, 3 * ENTERING):
            raise NotMeasured(f"{done.people} people got {done.emails} emails in the rehearsal")

    async def enrolments(self, people: int) -> None:
        """Enrol everyone on the list who is not in the sequence, and run their first steps."""
        async with self.meter.measuring("enrolment", ENTERING):
            done = await self.engine.sequences.enrolments.enrol(
                TENANT, self.sequence_id, People(list_key="late"), actor=ACTOR
            )
        if done.enrolled != ENTERING:
            raise NotMeasured(f"{done} of {ENTERING} people and {people} others")

    async def events(self, people: int) -> None:
        """Submit single events in parallel requests and events in batches, and let the sequence read them."""
        app, token = create_app(self.engine), await self.engine.keys.create(TENANT)
        async with self.engine.database.read() as tx:
            query = select(contacts.c.email).where(contacts.c.id > people - 2 * DUE).order_by(contacts.c.id)
            emails = [row.email for row in await tx.execute(query.limit(2 * DUE))]
        single = [_event("order.placed", email) for email in emails[:DUE]]
        batches = [
            {"events": [_event("page.viewed", email) for email in emails[start : start + 500]]}
            for start in range(DUE, 2 * DUE, 500)
        ]
        for name, bodies in (("event", single), ("event of a batch", batches)):
            requests = iter([json.dumps(each).encode() for each in bodies])
            async with self.meter.measuring(name, DUE):
                await asyncio.gather(*(_submit(app, token, requests) for _ in range(CALLERS)))
        async with self.engine.database.read() as tx:
            [row] = await tx.execute(select(func.count().label("events")).select_from(contact_events))
        if row.events != 2 * DUE:
            raise NotMeasured(f"{2 * DUE} events were submitted and {row.events} are stored")
        reader = SequenceEvents(self.engine.database, self.clock)
        async with self.meter.measuring("event that ends a run", DUE):
            await _exhaust(reader.tick)


def _event(name: str, email: str) -> dict[str, Any]:
    return {
        "event": name,
        "email": email,
        "properties": {"total": 59.9, "currency": "EUR"},
        "eventId": f"{name} {email}",
    }


async def _submit(app: Any, token: str, requests: Any) -> None:
    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json")]
    for body in requests:
        status, said = await answer(app, "POST", "/v1/events", body, headers)
        if status != 202:
            raise NotMeasured(f"/v1/events answered {status}: {said!r}")


async def _repeat(ticks: Sequence[Callable[[], Awaitable[bool]]], times: int) -> None:
    for _ in range(times):
        for tick in ticks:
            await tick()


async def _exhaust(tick: Callable[[], Awaitable[bool]]) -> None:
    while await tick():
        pass


async def _fill(engine: Engine, people: int) -> tuple[int, str]:
    """Publish a sequence, let everyone wait in it, and put the people who enter later on a separate list."""
    await engine.templates.put(
        TENANT, "hello", subject="Hello", html="<p>{{ city }} {{ unsubscribe_url }}</p>", text=None
    )
    created = await engine.sequences.create(TENANT, DOCUMENT, actor=ACTOR)
    await engine.sequences.publish(TENANT, created.sequence_id, actor=ACTOR)
    now = engine.clock.now()
    size = campaigns.FILLED_AT_ONCE
    for first in range(0, people, size):
        part = {"first": first, "last": min(first + size, people), "now": now}
        async with engine.database.write() as tx:
            await tx.execute(text(_ENROLMENTS), {**part, "sequence": created.id})
            await tx.execute(text(_STEPS), part)
    async with engine.database.write() as tx:
        await tx.execute(text(_LATE_LIST))
        await tx.execute(text(_LATE_SUBSCRIPTIONS), {"people": people})
        await tx.execute(update(sequences).values(compared_at=now))
    return created.id, created.sequence_id


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m bench.sequences", description=__doc__)
    reader.add_argument("database", help="the address of an empty database")
    reader.add_argument("people", type=int, nargs="?", default=PEOPLE)
    asked = reader.parse_args()
    json.dump(asdict(asyncio.run(measure(asked.database, asked.people))), sys.stdout)


if __name__ == "__main__":
    main()
