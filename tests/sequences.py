"""Builders for sequences."""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import select

from mailwright.audience.contact_events import ContactEvents, EventStatus, NewContactEvent
from mailwright.domain.clock import Instant
from mailwright.domain.states import CLAIMABLE
from mailwright.sources.sequences.enrol import EnrolmentRecord, People
from mailwright.sources.sequences.events import SequenceEvents
from mailwright.sources.sequences.publish import Received
from mailwright.sources.sequences.runner import SequenceRunner
from mailwright.sources.sequences.watch import SequenceWatch
from mailwright.storage.tables import (
    contacts,
    deliveries,
    lane_deferrals,
    messages,
    sequence_enrolments,
    sequence_steps,
)
from tests.builders import DEFAULT_TENANT, Bench, a_subscriber
from tests.campaigns import a_list
from tests.standins.provider import ScriptedProvider

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
        self.provider = ScriptedProvider()

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
        """Run the worker's steps and send emails for a while."""
        end = self.clock.now() + duration
        await self.run()
        while self.clock.now() < end:
            await self.send()
            self.clock.advance(every)
            await self.run()

    async def run_and_send(self, sequence_id: str, duration: Instant) -> None:
        """Run steps and send emails whenever something is due, moving the clock from one time to the next."""
        end = self.clock.now() + duration
        while True:
            await self.watch()
            await self.run()
            await self.send()
            due = [each.due_at for each in await self.enrolments(sequence_id) if each.due_at is not None]
            due += await self.unsent_until()
            if not due or min(due) > end:
                break
            self.clock.advance(max(min(due) - self.clock.now(), 0))

    async def send(self) -> None:
        """Send what is due now. Emails that wait for another one in flight are due a second later."""
        while min(await self.unsent_until(), default=self.clock.now() + 1) <= self.clock.now():
            await self.bench.drain(self.provider)

    async def unsent_until(self) -> list[Instant]:
        """Return when the unsent emails may be sent."""
        lane = deliveries.outerjoin(lane_deferrals, lane_deferrals.c.lane == deliveries.c.lane)
        query = select(deliveries.c.claimable_at, lane_deferrals.c.deferred_until).select_from(lane)
        async with self.database.read() as tx:
            rows = await tx.execute(query.where(deliveries.c.status.in_(CLAIMABLE)))
        return [max(row.claimable_at, row.deferred_until or 0) for row in rows]

    async def sent(self) -> list[tuple[str, Instant]]:
        """Return the steps of the emails that were sent, and when, in order."""
        s, d = sequence_steps.c, deliveries.c
        query = select(s.node, d.sent_at).join_from(sequence_steps, messages, messages.c.outbox_id == s.outbox_id)
        query = query.join(deliveries, d.message_key == messages.c.id).where(d.sent_at.is_not(None))
        async with self.database.read() as tx:
            return [tuple(row) for row in await tx.execute(query.order_by(d.sent_at, messages.c.id))]

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
