"""Builders for sequences."""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import select

from mailwright.audience.contact_events import ContactEvents, EventStatus, NewContactEvent
from mailwright.domain.clock import Instant
from mailwright.sources.sequences.enrol import EnrolmentRecord, People
from mailwright.sources.sequences.events import SequenceEvents
from mailwright.sources.sequences.publish import Received
from mailwright.sources.sequences.runner import SequenceRunner
from mailwright.sources.sequences.watch import SequenceWatch
from mailwright.storage.tables import contacts, messages, sequence_enrolments, sequence_steps
from tests.builders import DEFAULT_TENANT, Bench, a_subscriber
from tests.campaigns import a_list

WELCOME = "welcome"
ACTOR = "console"


def an_email(step_id: str = "first", **body: Any) -> dict[str, Any]:
    return {"id": step_id, "send": {"template": WELCOME, **body}}


def a_wait(step_id: str = "pause", **duration: int) -> dict[str, Any]:
    return {"id": step_id, "wait": duration or {"days": 1}}


def a_document(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    defaults = {"name": "Welcome", "trigger": {"manual": True}, "steps": list(steps) or [an_email()]}
    return {**defaults, **changes}


class SequenceBench:
    """An installation with a template, and the actions of a user and a worker on sequences."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.engine = bench.engine
        self.clock = bench.clock
        self.database = bench.engine.database
        self.runner = self.another_runner()

    def another_runner(self) -> SequenceRunner:
        return SequenceRunner(self.database, self.clock, self.engine.templates)

    async def start(self, *steps: dict[str, Any], **changes: Any) -> str:
        """Publish a sequence, and create the template that its emails use."""
        await self.engine.templates.put(DEFAULT_TENANT, WELCOME, subject="Welcome", html="<p>Hello</p>", text=None)
        created = await self.engine.sequences.create(DEFAULT_TENANT, a_document(*steps, **changes), actor=ACTOR)
        await self.engine.sequences.publish(DEFAULT_TENANT, created.sequence_id, actor=ACTOR)
        return created.sequence_id

    async def publish(
        self,
        sequence_id: str,
        *steps: dict[str, Any],
        overdue: Any = None,
        received: Received = Received.SKIP,
        **changes: Any,
    ) -> Any:
        await self.engine.sequences.edit(
            DEFAULT_TENANT, sequence_id, a_document(*steps, **changes), revision=None, actor=ACTOR
        )
        _, plan = await self.engine.sequences.publish(
            DEFAULT_TENANT, sequence_id, overdue=overdue, received=received, actor=ACTOR
        )
        return plan

    async def people(self, *emails: str, **fields: Any) -> None:
        for email in emails:
            await a_subscriber(self.database, email, **fields)

    async def enrol(self, sequence_id: str, *emails: str) -> Any:
        return await self.engine.sequences.enrolments.enrol(
            DEFAULT_TENANT, sequence_id, People(emails=emails), actor=ACTOR
        )

    async def run(self) -> None:
        while await self.runner.tick():
            pass

    async def watch(self) -> None:
        """Compare the conditions of all sequences, as a worker does once per minute, and read all events."""
        await SequenceWatch(self.database, self.clock).tick()
        while await SequenceEvents(self.database, self.clock).tick():
            pass

    async def run_for(self, duration: Instant, every: Instant) -> None:
        """Run the worker's steps for a while."""
        end = self.clock.now() + duration
        await self.run()
        while self.clock.now() < end:
            self.clock.advance(every)
            await self.run()

    async def enrolments(self, sequence_id: str) -> list[EnrolmentRecord]:
        return await self.engine.sequences.enrolments.list_page(DEFAULT_TENANT, sequence_id, limit=1000)

    async def enrolment(self, sequence_id: str) -> EnrolmentRecord:
        [found] = await self.enrolments(sequence_id)
        return found

    async def recipients(self) -> list[str]:
        async with self.database.read() as tx:
            rows = await tx.execute(select(messages.c.to_email).order_by(messages.c.id))
        return [row.to_email for row in rows]

    async def variables(self) -> list[dict[str, Any]]:
        """Return the variables of all messages, in order."""
        async with self.database.read() as tx:
            rows = await tx.execute(select(messages.c.payload).order_by(messages.c.id))
        return [orjson.loads(row.payload)["variables"] for row in rows]

    async def history(self) -> Sequence[tuple[str, str, str, Instant]]:
        """Return everyone's address, step, outcome and time, in order."""
        e, s, c = sequence_enrolments.c, sequence_steps.c, contacts.c
        query = (
            select(c.email, s.node, s.outcome, s.at)
            .join_from(sequence_steps, sequence_enrolments, e.id == s.enrolment_key)
            .join(contacts, c.id == e.contact_key)
        )
        async with self.database.read() as tx:
            rows = await tx.execute(query.order_by(c.email, e.id, s.visit))
        return [tuple(row) for row in rows]


async def lists(bench: SequenceBench, *list_keys: str) -> None:
    for list_key in list_keys:
        await a_list(bench.database, list_key)


async def happen(
    at: SequenceBench, name: str, *emails: str, ago: Instant = 0, number: int = 0, properties: str = "{}"
) -> None:
    """Report an event of each contact that occurred some time ago."""
    now = at.clock.now()
    events = [
        NewContactEvent(DEFAULT_TENANT, f"{name}-{email}-{number}", email, name, properties, now - ago)
        for email in emails
    ]
    service = ContactEvents(at.database, at.clock)
    assert set(await service.accept(events)) == {EventStatus.ACCEPTED}
    await service.close()
