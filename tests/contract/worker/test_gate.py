"""The gate with the worker: limits are kept, deferrals have reasons and end in time."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select

from mailwright.domain.campaign import PAUSED
from mailwright.domain.clock import DAY, HOUR, SECOND, ManualClock
from mailwright.domain.lanes import Lane, lane_number
from mailwright.domain.states import Priority, Status
from mailwright.outbox import tenants
from mailwright.outbox.audit import audit
from mailwright.outbox.defer import defer_lane
from mailwright.storage.tables import lane_deferrals
from tests.builders import (
    DEFAULT_TENANT,
    LOCK_TTL,
    Bench,
    a_bench,
    a_message,
    a_message_with,
    a_newsletter,
    a_tenant,
    change_tenant,
    deliveries_of,
    suppress,
)
from tests.conftest import DatabaseAddress
from tests.engines import Valkey
from tests.standins.provider import ScriptedProvider


@pytest.fixture(params=["database", "valkey"])
async def bench(request: pytest.FixtureRequest, engine: DatabaseAddress, clock: ManualClock) -> AsyncIterator[Bench]:
    with_valkey: Valkey | None = request.getfixturevalue("valkey") if request.param == "valkey" else None
    async with a_bench(engine.url, clock, redis_url=with_valkey.url if with_valkey else None) as bench:
        yield bench
        assert (await audit(bench.database)).ok


async def held_lanes(bench: Bench) -> list[tuple[int, str, int]]:
    """Return priority, reason and remaining time of each deferral."""
    async with bench.database.read() as tx:
        rows = await tx.execute(select(lane_deferrals).where(lane_deferrals.c.deferred_until > bench.clock.now()))
    return [(Lane(row.lane).priority, row.defer_reason, row.deferred_until - bench.clock.now()) for row in rows]


async def under_lock(bench: Bench) -> int:
    return sum(row.locked_by is not None for row in await deliveries_of(bench.database))


@pytest.mark.promise("limits-never-exceeded")
async def test_hourly_limit_sends_the_rest_in_the_next_hour(bench: Bench) -> None:
    """The test clock begins at 1,800,000,000,000, which is a full hour."""
    await change_tenant(bench.database, rate_per_hour=100)
    await bench.accept(*(a_newsletter() for _ in range(150)))
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert len(provider.messages) == 100
    assert await held_lanes(bench) == [(Priority.BULK, "rate_per_hour", HOUR)]
    rows = await deliveries_of(bench.database)
    assert {(row.attempts, row.claims, row.locked_by) for row in rows if row.status == Status.PENDING} == {(0, 0, None)}

    bench.clock.advance(HOUR - 1)
    await bench.drain(provider)
    assert len(provider.messages) == 100
    bench.clock.advance(1)
    await bench.drain(provider)
    assert len(set(provider.outbox_ids)) == len(provider.messages) == 150
    assert await bench.statuses() == {Status.SENT: 150}


@pytest.mark.promise("limits-never-exceeded")
async def test_two_workers_share_one_limit(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=100)
    await bench.accept(*(a_newsletter() for _ in range(150)))
    provider = ScriptedProvider()
    workers = [await bench.worker(provider, name, window=7) for name in ("a", "b")]
    await asyncio.gather(*(worker.run(drain=True) for worker in workers))
    assert len(provider.messages) <= 100
    bench.clock.advance(HOUR)
    await bench.drain(provider)
    assert await bench.statuses() == {Status.SENT: 150}
    assert len(set(provider.outbox_ids)) == len(provider.messages) == 150


@pytest.mark.promise("limits-never-exceeded")
async def test_permits_of_unsent_messages_are_given_back(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=10)
    await bench.accept(*(a_message_with(html="<script>") for _ in range(9)))
    provider = ScriptedProvider()
    await bench.drain(provider)
    await bench.accept(*(a_message() for _ in range(15)))
    await bench.drain(provider)
    assert len(provider.messages) == 10


@pytest.mark.promise("limits-never-exceeded")
async def test_stopped_worker_gives_its_permits_back(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=10)
    await bench.accept(*(a_message() for _ in range(10)))
    provider = ScriptedProvider()
    provider.hold()
    worker = await bench.worker(provider, window=2)
    run = asyncio.create_task(worker.run())
    await provider.has(2)
    worker.stop()
    provider.let_go()
    await run
    await bench.drain(provider)
    assert len(provider.messages) == 10


@pytest.mark.promise("limits-never-exceeded")
async def test_permits_of_a_killed_worker_return_with_its_leases(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=40, daily_limit=60)
    await bench.accept(*(a_newsletter() for _ in range(50)))
    dead = await bench.worker(ScriptedProvider(), "dead")
    assert len(await dead.parts.gate.admit(dead.parts.claims, await dead.parts.claims.claim(25))) == 25
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert len(provider.messages) == 15
    bench.clock.advance(LOCK_TTL)
    await bench.drain(provider)
    assert len(provider.messages) == 40
    bench.clock.advance(HOUR)
    await bench.drain(provider)
    assert len(set(provider.outbox_ids)) == len(provider.messages) == 50


@pytest.mark.promise("limits-never-exceeded")
async def test_frozen_worker_returns_no_permit_twice(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=10)
    await bench.accept(*(a_newsletter() for _ in range(20)))
    frozen = await bench.worker(ScriptedProvider(), "frozen")
    admitted = await frozen.parts.gate.admit(frozen.parts.claims, await frozen.parts.claims.claim(6))
    bench.clock.advance(LOCK_TTL)
    provider = ScriptedProvider()
    for _ in range(2):  # the messages of the lost worker, then the others
        await bench.drain(provider)
    assert len(provider.messages) == 10
    await frozen.parts.gate.give_back(message.claimed for message in admitted)
    await bench.drain(provider)
    assert len(provider.messages) == 10


@pytest.mark.promise("limits-never-exceeded")
async def test_limit_of_one_tenant_does_not_defer_another(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=1)
    other = await a_tenant(bench.database, "other")
    await bench.accept(*(a_newsletter() for _ in range(5)), *(a_newsletter(tenant_id=other) for _ in range(5)))
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert len(provider.messages) == 6


async def test_rate_per_second_spaces_messages_evenly(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_second=4)
    await bench.accept(*(a_message() for _ in range(3)))
    provider = ScriptedProvider()
    sent = []
    for _ in range(4):
        await bench.drain(provider)
        sent.append(len(provider.messages))
        bench.clock.advance(SECOND // 4 + 20)
    assert sent == [1, 2, 3, 3]


@pytest.mark.promise("limits-never-exceeded")
async def test_daily_limit_reopens_the_next_morning(bench: Bench) -> None:
    """Run from 8:00 to 9:00 on the next day in the tenant's zone."""
    await change_tenant(bench.database, daily_limit=3, timezone="UTC")
    await bench.accept(*(a_newsletter() for _ in range(5)))
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert len(provider.messages) == 3
    assert await held_lanes(bench) == [(Priority.BULK, "daily_limit", DAY + HOUR)]
    bench.clock.advance(DAY + HOUR)
    await bench.drain(provider)
    assert len(provider.messages) == 5


@pytest.mark.promise("hours-zone")
async def test_only_newsletters_wait_outside_working_hours(bench: Bench) -> None:
    await change_tenant(bench.database, working_hours="09:00-18:00", timezone="UTC")
    (receipt, *_) = await bench.accept(a_message(), a_newsletter(), a_newsletter())
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.outbox_ids == [receipt]
    assert await held_lanes(bench) == [(Priority.BULK, "outside_hours", HOUR)]
    bench.clock.advance(HOUR)
    await bench.drain(provider)
    assert len(provider.messages) == 3


@pytest.mark.promise("limits-never-exceeded")
async def test_raised_limit_takes_effect(bench: Bench) -> None:
    await change_tenant(bench.database, DEFAULT_TENANT, rate_per_second=1)
    await bench.accept(*(a_message() for _ in range(5)))
    provider = ScriptedProvider()
    await bench.drain(provider)
    await change_tenant(bench.database, DEFAULT_TENANT, rate_per_second=None)
    bench.clock.advance(SECOND)
    await bench.drain(provider)
    assert len(provider.messages) == 5


@pytest.mark.promise("limits-never-exceeded")
async def test_changed_limit_ends_its_deferral_but_not_a_manual_one(
    bench: Bench,
) -> None:
    other, paused = await a_tenant(bench.database, "other"), lane_number(Priority.BULK, DEFAULT_TENANT, 7)
    await change_tenant(bench.database, daily_limit=1)
    await change_tenant(bench.database, other, daily_limit=1)
    await defer_lane(bench.database, paused, PAUSED, bench.clock.now() + DAY)
    await bench.accept(*(make(tenant_id=to) for make in (a_message, a_newsletter) for to in (1, other) for _ in "ab"))
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert len(provider.messages) == 2
    await tenants.change(bench.database, tenants.DEFAULT, daily_limit=None)
    async with bench.database.read() as tx:
        rows = await tx.execute(select(lane_deferrals))
    assert {(Lane(row.lane).tenant_id, row.defer_reason) for row in rows} == {(1, PAUSED), (other, "daily_limit")}
    await bench.drain(provider)
    assert len(provider.messages) == 5


@pytest.mark.promise("limits-never-exceeded")
async def test_unsubscribed_recipient_uses_no_permit(bench: Bench) -> None:
    await change_tenant(bench.database, daily_limit=4)
    gone = [f"gone{number}@example.com" for number in range(4)]
    for address in gone:
        await suppress(bench.database, address)
    await bench.accept(*(a_message(to=address) for address in gone), *(a_message() for _ in range(6)))
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert len(provider.messages) == 4
    assert await bench.statuses() == {Status.FAILED: 4, Status.SENT: 4, Status.PENDING: 2}


@pytest.mark.promise("limits-never-exceeded")
async def test_returned_permits_are_used_before_their_window_ends(bench: Bench) -> None:
    """Only building shows that a message is invalid: until then its permit is missing for the lane."""
    await change_tenant(bench.database, daily_limit=4)
    await bench.accept(*(a_message_with(html="<script>") for _ in range(4)), *(a_message() for _ in range(6)))
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert len(provider.messages) == 4


@pytest.mark.promise("limits-never-exceeded")
async def test_permits_reserved_under_a_higher_limit_expire_with_it(bench: Bench) -> None:
    await change_tenant(bench.database, rate_per_hour=1_000)
    await bench.accept(a_message())
    provider = ScriptedProvider()
    await bench.drain(provider)
    await change_tenant(bench.database, rate_per_hour=5)
    await bench.accept(*(a_message() for _ in range(9)))
    await bench.drain(provider)
    assert 1 <= len(provider.messages) <= 5
