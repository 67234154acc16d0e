"""The envelope sender carries the message id, so that a bounce that quotes nothing is attributed."""

import pytest
from sqlalchemy import select

from mailwright.domain.clock import ManualClock
from mailwright.events.bounce_mail import BounceMailRecorder
from mailwright.events.reports import Reports
from mailwright.storage.tables import suppressions
from tests.builders import a_bench, a_message
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider

NOTIFICATION_ID = "5d3c1f62-8a54-5b43-9a38-6d0b7c0b2c11"  # version 5, like the ids of notifications


@pytest.mark.promise("bounce-attributed")
@pytest.mark.parametrize("outbox_id", [None, NOTIFICATION_ID])
async def test_bounce_to_the_tagged_address_suppresses(
    engine: DatabaseAddress, clock: ManualClock, outbox_id: str | None
) -> None:
    message = a_message(to="ann@reader.example", **({"outbox_id": outbox_id} if outbox_id else {}))
    provider = ScriptedProvider(name="smtp")
    async with a_bench(engine.url, clock, bounce_address="bounces@example.com") as bench:
        await bench.accept(message)
        await bench.drain(provider)
        [sent] = provider.messages
        assert sent.sender == f"bounces+{message.outbox_id}@example.com"
        bounce = (
            f"From: MAILER-DAEMON@mx.example\nTo: {sent.sender}\nSubject: failure notice\n\n"
            "Your message could not be delivered:\n550 5.1.1 user unknown\n"
        )
        recorded = await BounceMailRecorder(Reports(bench.database, clock), clock).record(bounce.encode())
        assert recorded.counts.new == 1
        async with bench.database.read() as tx:
            rows = await tx.execute(select(suppressions.c.email))
    assert [row.email for row in rows] == ["ann@reader.example"]


@pytest.mark.parametrize(
    ("settings", "sender"),
    [
        ({}, "shop@example.com"),
        ({"bounce_address": "bounces@example.com", "bounce_tag": False}, "bounces@example.com"),
        # A local part has at most 64 characters.
        ({"bounce_address": f"{'b' * 40}@example.com"}, f"{'b' * 40}@example.com"),
    ],
)
async def test_sender_is_not_tagged(
    engine: DatabaseAddress, clock: ManualClock, settings: dict[str, str], sender: str
) -> None:
    provider = ScriptedProvider(name="smtp")
    async with a_bench(engine.url, clock, **settings) as bench:
        await bench.accept(a_message())
        await bench.drain(provider)
    assert [message.sender for message in provider.messages] == [sender]


async def test_unexplained_permanent_failure_counts_as_soft(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with a_bench(engine.url, clock, bounce_address="bounces@example.com") as bench:
        recorder = BounceMailRecorder(Reports(bench.database, clock), clock)
        for number in range(3):
            [outbox_id] = await bench.accept(a_message(to="ann@reader.example"))
            await bench.drain(ScriptedProvider(name="smtp"))
            bounce = (
                f"From: MAILER-DAEMON@mx.example\nTo: bounces+{outbox_id}@example.com\nSubject: failure notice\n"
                f"Message-ID: <{number}@mx.example>\n\nYour message could not be delivered to ann@reader.example.\n"
            )
            await recorder.record(bounce.encode())
        async with bench.database.read() as tx:
            rows = await tx.execute(select(suppressions.c.email))
    assert [row.email for row in rows] == ["ann@reader.example"]
