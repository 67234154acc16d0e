"""Reports in any order and any number of copies, on both engines: contacts and messages end in the same state."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from mailwright.domain.clock import DAY, ManualClock
from mailwright.domain.message import NewMessage
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.events.reports import ReportCounts, Reports
from mailwright.outbox.in_doubt import InDoubtHandler
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, deliveries, events, messages, suppressions
from tests.builders import LOCK_TTL, SENT, UNKNOWN, a_message, a_result, a_settler, an_acceptor, claims_of
from tests.engines import PostgresServer
from tests.examples import examples

READERS = 3
MESSAGES = 4


@dataclass(frozen=True)
class ReportCase:
    """A report to apply to one of the two installations that are compared."""

    reader: int
    message: int  # one of the contact's own messages
    type: EventType
    verdict: ContactVerdict
    day: int
    by: str  # how the report names its message
    copies: int


KINDS = [
    (EventType.DELIVERED, ContactVerdict.NOTHING),
    (EventType.BOUNCED, ContactVerdict.HARD_BOUNCE),
    (EventType.BOUNCED, ContactVerdict.SOFT_BOUNCE),
    (EventType.BOUNCED, ContactVerdict.SOFT_BOUNCE),
    (EventType.BOUNCED, ContactVerdict.SOFT_BOUNCE),
    (EventType.COMPLAINED, ContactVerdict.COMPLAINT),
    (EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE),
    (EventType.OPENED, ContactVerdict.NOTHING),
]

A_REPORT = st.builds(
    lambda reader, sent_message, kind, day, by, copies: ReportCase(reader, sent_message, *kind, day, by, copies),
    st.integers(0, READERS - 1),
    st.integers(0, MESSAGES - 1),
    st.sampled_from(KINDS),
    st.integers(0, 60),
    st.sampled_from(["outbox id", "provider id", "address"]),
    st.integers(1, 3),
)


class World:
    """Contacts, each with messages that are sent, in doubt or without a provider response yet."""

    def __init__(self, database: Database, name: str) -> None:
        self.database = database
        self.name = name
        self.clock = ManualClock()
        self.messages: list[NewMessage] = []
        self.more: list[list[NewMessage]] = []

    async def begin(self) -> None:
        self.messages = [a_message(to=f"{self.name}-{n}@example.com") for n in range(READERS)]
        await an_acceptor(self.database, self.clock).accept(self.messages)
        claimed = await claims_of(self.database, self.clock, self.name).claim(READERS)
        settling = a_settler(self.database, self.clock)
        await settling.exchange([], claimed)
        first, second, _ = claimed
        sent = replace(SENT, provider="ses", provider_message_id=f"{self.name}-id-0")
        doubted = replace(UNKNOWN, provider="ses")
        now = self.clock.now()
        await settling.exchange([a_result(first, sent, now), a_result(second, doubted, now)], [])
        self.more = [[a_message(to=message.to_email) for _ in range(MESSAGES - 1)] for message in self.messages]
        await an_acceptor(self.database, self.clock).accept(
            [message for messages_ in self.more for message in messages_]
        )
        claimed = await claims_of(self.database, self.clock, self.name).claim(READERS * (MESSAGES - 1))
        await settling.exchange([], claimed)
        await settling.exchange([a_result(each, replace(SENT, provider="smtp"), now) for each in claimed], [])

    def report(self, expected: ReportCase, number: int) -> Report:
        # The other messages went through another provider, whose reports name only our ID.
        message = [self.messages[expected.reader], *self.more[expected.reader]][expected.message]
        by = "outbox id" if expected.message else expected.by
        return Report(
            key=f"{self.name}-{number}",
            source="ses",
            type=expected.type,
            # No two reports at the same time, because then neither would be the later one.
            at=self.clock.now() + expected.day * DAY + number,
            recipient=message.to_email,
            outbox_id=message.outbox_id if by == "outbox id" else None,
            provider_message_id=f"{self.name}-id-{expected.reader}" if by == "provider id" else None,
            verdict=expected.verdict,
            bounce_type=f"type {number}",
        )

    async def end(self) -> list[Any]:
        """Return what is stored about each contact after the messages in doubt are settled."""
        self.clock.advance(LOCK_TTL)
        doubts = InDoubtHandler(self.database, self.clock, grace=0)
        await doubts.mark_lost_attempts()
        await doubts.decide_due()
        return [await self._contact_states(message) for message in self.messages]

    async def _contact_states(self, message: NewMessage) -> Any:
        async with self.database.read() as tx:
            [contact] = await tx.execute(select(contacts).where(contacts.c.email == message.to_email))
            entries = await tx.execute(select(suppressions).where(suppressions.c.email == message.to_email))
            mine = select(messages.c.id).where(messages.c.outbox_id == message.outbox_id).scalar_subquery()
            [delivery] = await tx.execute(select(deliveries.c.status).where(deliveries.c.message_key == mine))
            story = await tx.execute(select(events.c.type).where(events.c.message_key == mine))
        return (
            (contact.status, contact.status_updated_at, contact.bounce_type),
            sorted((entry.list_key, entry.reason, entry.created_at) for entry in entries),
            delivery.status,
            sorted(event.type for event in story),
        )


def shuffled(reports: Sequence[Report], copies: Sequence[int], order: random.Random) -> Iterator[list[Report]]:
    """Apply all copies in any order, in batches of any size."""
    deck = [report for report, count in zip(reports, copies, strict=True) for _ in range(count)]
    order.shuffle(deck)
    while deck:
        size = order.randint(1, 5)
        yield deck[:size]
        del deck[:size]


async def apply_reports(database: Database, expected: list[ReportCase], order: random.Random, number: int) -> None:
    in_order, in_any = World(database, f"a{number}"), World(database, f"b{number}")
    for world in (in_order, in_any):
        await world.begin()
    by_time = sorted((in_order.report(one, n) for n, one in enumerate(expected)), key=lambda report: report.at)
    first = [await Reports(database, in_order.clock).receive([report], by_address=True) for report in by_time]
    door = Reports(database, in_any.clock)
    reports = [in_any.report(one, n) for n, one in enumerate(expected)]
    calls = shuffled(reports, [one.copies for one in expected], order)
    responses = [await door.receive(call, by_address=True) for call in calls]
    assert sum(response.new for response in responses) == sum(response.new for response in first)
    assert sum(map(_all, responses)) == sum(one.copies for one in expected)
    assert await in_order.end() == await in_any.end()


def _all(response: ReportCounts) -> int:
    return response.new + response.repeated + response.unknown


@contextmanager
def opened(url: str) -> Iterator[tuple[asyncio.Runner, Database]]:
    with asyncio.Runner() as runner:
        database = Database(url)
        try:
            yield runner, database
        finally:
            runner.run(database.close())


def check(url: str, number: int) -> None:
    numbers = iter(range(10_000))

    with opened(url) as (runner, database):

        @settings(
            max_examples=examples(number),
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(reports=st.lists(A_REPORT, min_size=1, max_size=14), order=st.randoms(use_true_random=False))
        def ends_the_same(reports: list[ReportCase], order: random.Random) -> None:
            runner.run(apply_reports(database, reports, order, next(numbers)))

        ends_the_same()


@pytest.mark.promise("report-once")
@pytest.mark.many
def test_order_of_reports_does_not_matter_on_sqlite(tmp_path: Path, empty_sqlite: bytes) -> None:
    file = tmp_path / "any.db"
    file.write_bytes(empty_sqlite)
    check(f"sqlite:///{file}", 25)


@pytest.mark.promise("report-once")
@pytest.mark.many
def test_order_of_reports_does_not_matter_on_postgresql(postgres_server: PostgresServer) -> None:
    url = asyncio.run(postgres_server.create())
    try:
        check(url, 12)
    finally:
        asyncio.run(postgres_server.drop(url))
