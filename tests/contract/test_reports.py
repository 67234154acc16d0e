"""Reports of providers, on both engines: written once, bound to their tenant, and the end of a doubt."""

import pytest
from sqlalchemy import select

from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import NotFound
from mailwright.domain.states import EventType, OnDoubt, Status
from mailwright.events.reports import Report, Reports
from mailwright.outbox.audit import audit
from mailwright.outbox.doubt import Doubts
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries, events
from tests.builders import LOCK_TTL, a_message, an_intake, claims_of, settling_of


async def a_doubt(database: Database, clock: ManualClock, on_doubt: OnDoubt = OnDoubt.HOLD) -> str:
    """A message whose worker died after the mark."""
    message = a_message(on_doubt=on_doubt)
    await an_intake(database, clock).accept([message])
    claimed = await claims_of(database, clock).claim(1)
    await settling_of(database, clock).exchange([], claimed)
    clock.advance(LOCK_TTL)
    assert await Doubts(database, clock, grace=600_000).take_over() == 1
    return message.outbox_id


async def state(database: Database) -> tuple[str, list[str]]:
    async with database.read() as tx:
        [row] = await tx.execute(select(deliveries.c.status))
        types = await tx.execute(select(events.c.type).order_by(events.c.id))
    return row.status, [each.type for each in types]


@pytest.mark.promise("doubt-report-settles")
@pytest.mark.parametrize("type_", [EventType.DELIVERED, EventType.BOUNCED, EventType.COMPLAINED])
async def test_a_report_proves_that_the_mail_was_sent(database: Database, clock: ManualClock, type_: EventType) -> None:
    outbox_id = await a_doubt(database, clock)
    report = Report(outbox_id, type_, clock.now(), "queue-1", {"recipient": "ada@example.com"})
    assert await Reports(database, clock).record(report, tenant_id=1)
    assert await state(database) == (
        Status.SENT,
        ["RECEIVED", "VALIDATED", "SENT_ATTEMPT", "IN_DOUBT", type_, "SENT"],
    )
    found = await audit(database)
    assert found.ok
    assert found.sent == 1


@pytest.mark.promise("doubt-report-settles")
async def test_a_report_stops_a_resend_that_has_not_begun(database: Database, clock: ManualClock) -> None:
    outbox_id = await a_doubt(database, clock, OnDoubt.RESEND)
    clock.advance(600_000)
    assert await Doubts(database, clock, grace=600_000).decide() == 1
    await Reports(database, clock).record(Report(outbox_id, EventType.DELIVERED, clock.now()), tenant_id=1)
    assert await claims_of(database, clock).claim(1) == []


@pytest.mark.promise("report-once")
async def test_a_report_that_comes_twice_is_written_once(database: Database, clock: ManualClock) -> None:
    outbox_id = await a_doubt(database, clock)
    reports = Reports(database, clock)
    report = Report(outbox_id, EventType.DELIVERED, clock.now(), metadata={"id": "e-1"})
    assert [await reports.record(report, tenant_id=1) for _ in range(3)] == [True, False, False]
    assert (await state(database))[1].count("delivered") == 1


@pytest.mark.promise("report-tenant")
async def test_a_report_of_another_tenant_finds_nothing(database: Database, clock: ManualClock) -> None:
    outbox_id = await a_doubt(database, clock)
    with pytest.raises(NotFound):
        await Reports(database, clock).record(Report(outbox_id, EventType.DELIVERED, clock.now()), tenant_id=2)
    assert (await state(database))[0] == Status.IN_DOUBT


@pytest.mark.promise("doubt-late-result")
async def test_a_worker_that_never_sent_it_takes_the_doubt_back(database: Database, clock: ManualClock) -> None:
    await an_intake(database, clock).accept([a_message(on_doubt=OnDoubt.HOLD)])
    frozen = claims_of(database, clock)
    claimed = await frozen.claim(1)
    await settling_of(database, clock).exchange([], claimed)
    clock.advance(LOCK_TTL)
    await Doubts(database, clock, grace=0).take_over()
    await frozen.release((each, 0) for each in claimed)
    assert (await state(database))[0] == Status.PENDING
    again = await claims_of(database, clock, "heir").claim(1)
    assert [(each.claims, each.attempts) for each in again] == [(1, 0)]
    assert (await audit(database)).ok
