"""A scheduled message whose time passed while no worker ran waits for a person, as a campaign does."""

import pytest

from mailwright.domain.clock import DAY, HOUR, MINUTE
from mailwright.domain.states import EventType, Status
from mailwright.outbox.message_records import dead_letters
from mailwright.outbox.operations import Operations
from tests.builders import DEFAULT_TENANT, Bench, a_message, the_event
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("schedule-past")


async def scheduled(bench: Bench, hours: int) -> str:
    (outbox_id,) = await bench.accept(a_message(scheduled_at=bench.clock.now() + hours * HOUR))
    return outbox_id


@pytest.mark.parametrize("has_run", [True, False], ids=["after a stop", "first start"])
async def test_message_over_a_day_late_waits_for_a_person(bench: Bench, has_run: bool) -> None:
    provider = ScriptedProvider()
    if has_run:
        await bench.drain(provider)
    overdue = await scheduled(bench, 1)
    bench.clock.advance(399 * DAY)
    (other,) = await bench.accept(a_message())
    await bench.drain(provider)
    assert provider.outbox_ids == [other]
    record = await bench.record(overdue)
    assert (record.summary.status, record.summary.error_code) == (Status.FAILED, "SCHEDULE_OVERDUE")
    assert "no worker ran" in the_event(record, EventType.FAILED).metadata["errorMessage"]
    assert [each.outbox_id for each in await dead_letters(bench.database, DEFAULT_TENANT, limit=5)] == [overdue]
    await Operations(bench.database, bench.clock).requeue(overdue, tenant_id=DEFAULT_TENANT)
    await bench.drain(provider)
    assert provider.outbox_ids == [other, overdue]


async def test_message_within_a_day_is_sent(bench: Bench) -> None:
    outbox_id = await scheduled(bench, 1)
    bench.clock.advance(DAY)
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.outbox_ids == [outbox_id]


async def test_message_that_limits_delayed_is_sent(bench: Bench) -> None:
    """A worker ran when it became due, so its lateness is known."""
    provider = ScriptedProvider()
    outbox_id = await scheduled(bench, 1)
    bench.clock.advance(HOUR - MINUTE)
    worker = await bench.worker(provider, runs_source_duties=False)
    await worker.parts.absence.record()
    bench.clock.advance(2 * MINUTE)
    await worker.parts.absence.record()
    for _ in range(3):
        bench.clock.advance(DAY // 2)
        await worker.parts.absence.record()
    await bench.drain(provider)
    assert provider.outbox_ids == [outbox_id]


async def test_unscheduled_message_is_sent_however_old(bench: Bench) -> None:
    (outbox_id,) = await bench.accept(a_message())
    bench.clock.advance(30 * DAY)
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.outbox_ids == [outbox_id]
