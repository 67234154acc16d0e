"""A worker begins only what its providers can carry now, and transactional messages come first."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mailwright.domain.campaign import CANCELLED, INDEFINITELY, PAUSED
from mailwright.domain.clock import MINUTE, SECOND
from mailwright.domain.errors import NotDurable
from mailwright.domain.lanes import lane_number
from mailwright.domain.message import Admitted
from mailwright.domain.states import Priority, Status
from mailwright.outbox.claim import MAX_LEASE
from mailwright.outbox.defer import defer_lane
from mailwright.worker.queues import Backoff
from tests.builders import (
    DEFAULT_TENANT,
    LOCK_TTL,
    Bench,
    a_message,
    a_newsletter,
    a_tenant,
    claims_of,
    deliveries_of,
)
from tests.contract.worker.test_worker import running, until
from tests.standins.provider import ScriptedProvider

BULK_LANE = lane_number(Priority.BULK, DEFAULT_TENANT)


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once when the database is unavailable."""

    async def at_once(_backoff: Backoff, _error: NotDurable) -> None:
        await asyncio.sleep(0.001)

    monkeypatch.setattr(Backoff, "wait", at_once)


def a_holding_provider(capacity: int) -> ScriptedProvider:
    provider = ScriptedProvider(capacity=capacity)
    provider.hold()
    return provider


async def _marked(bench: Bench) -> int:
    return (await bench.statuses()).get(Status.SENT_ATTEMPT, 0)


def _is_built(worker: Any, count: int) -> Callable[[], bool]:
    return lambda: len(worker.queues.ready) >= count


@pytest.mark.promise("transactional-first")
async def test_transactional_messages_use_connections_beyond_those_for_bulk(bench: Bench) -> None:
    await bench.accept(*(a_newsletter() for _ in range(60)))
    provider = a_holding_provider(capacity=20)
    provider.bulk_capacity = 10
    worker = await bench.worker(provider)
    async with running(worker):
        await provider.has(9)
        urgent = await bench.accept(*(a_message() for _ in range(11)))
        await provider.has(20)  # The relay has not replied to any newsletter.
        assert sorted(provider.outbox_ids[9:]) == sorted(urgent)
        provider.let_go()
        worker.stop()


@pytest.mark.promise("transactional-first")
async def test_worker_begins_only_attempts_with_a_connection(bench: Bench) -> None:
    await bench.accept(*(a_message() for _ in range(60)))
    provider = a_holding_provider(capacity=4)
    worker = await bench.worker(provider)
    async with running(worker):
        await provider.has(4)
        await until(_is_built(worker, 30))
        assert await _marked(bench) == len(provider.messages) == 4
        provider.let_go()
        await provider.has(60)
    assert provider.most_under_way == 4


@pytest.mark.promise("transactional-first")
async def test_transactional_message_overtakes_claimed_bulk(bench: Bench) -> None:
    other = await a_tenant(bench.database, "other")
    await bench.accept(*(a_newsletter() for _ in range(300)))
    provider = a_holding_provider(capacity=20)
    worker = await bench.worker(provider)
    async with running(worker):
        await provider.has(18)
        await until(lambda: len(worker.queues.ready) + len(worker.queues.admitted) > 100)
        urgent = await bench.accept(a_message(), a_message(tenant_id=other))
        await provider.has(20)  # The relay has not replied to any newsletter.
        assert provider.outbox_ids[18:] in (urgent, urgent[::-1])
        (third,) = await bench.accept(a_message())
        await until(lambda: any(ready.claimed.outbox_id == third for ready in worker.queues.ready))
        provider.let_go()
        await provider.has(21)
        assert provider.outbox_ids[20] == third
        worker.stop()


@pytest.mark.promise("transactional-first")
async def test_bulk_leaves_connections_free_for_transactional(bench: Bench) -> None:
    await bench.accept(*(a_newsletter() for _ in range(60)))
    provider = ScriptedProvider(capacity=10)
    await bench.drain(provider)
    assert provider.most_under_way == 9


@pytest.mark.promise("transactional-first")
@pytest.mark.parametrize("reason", [PAUSED, CANCELLED])
async def test_held_lane_finishes_only_messages_on_connections(bench: Bench, reason: str) -> None:
    await bench.accept(*(a_newsletter() for _ in range(60)))
    provider = a_holding_provider(capacity=4)
    worker = await bench.worker(provider)
    async with running(worker):
        await provider.has(4)
        await until(_is_built(worker, 30))
        await defer_lane(bench.database, BULK_LANE, reason, INDEFINITELY)
        provider.let_go()
        await until(worker.queues.is_idle)
        (urgent,) = await bench.accept(a_message())
        await provider.has(5)
    assert provider.outbox_ids[4:] == [urgent]
    assert await bench.statuses() == {Status.SENT: 5, Status.PENDING: 56}
    rows = await deliveries_of(bench.database)
    assert {(row.locked_by, row.claims) for row in rows} == {(None, 0)}


@pytest.mark.promise("transactional-first")
async def test_closing_time_stops_claimed_messages(bench: Bench) -> None:
    limited = await a_tenant(bench.database, "office", working_hours="09:00-18:00", timezone="UTC")
    day = 24 * 60 * MINUTE
    bench.clock.advance(day - bench.clock.now() % day + 18 * 60 * MINUTE - SECOND)
    await bench.accept(*(a_newsletter(tenant_id=limited) for _ in range(60)))
    provider = a_holding_provider(capacity=4)
    worker = await bench.worker(provider)
    async with running(worker):
        await provider.has(4)
        await until(_is_built(worker, 30))
        bench.clock.advance(SECOND)
        provider.let_go()
        await until(worker.queues.is_idle)
    assert len(provider.messages) == 4
    assert await bench.statuses() == {Status.SENT: 4, Status.PENDING: 56}


async def test_messages_are_given_back_when_the_database_returns(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    other = await a_tenant(bench.database, "other")
    await bench.accept(*(a_newsletter() for _ in range(8)), *(a_newsletter(tenant_id=other) for _ in range(8)))
    provider = a_holding_provider(capacity=4)
    worker = await bench.worker(provider)
    release, failures = worker.parts.claims.release, 0

    async def breaks(claims: Any) -> None:
        nonlocal failures
        failures += 1
        if failures <= 3:
            raise NotDurable
        await release(claims)

    monkeypatch.setattr(worker.parts.claims, "release", breaks)
    async with running(worker):
        await provider.has(4)
        await defer_lane(bench.database, BULK_LANE, PAUSED, INDEFINITELY)
        provider.let_go()
        await until(lambda: _is_sent(bench, other))
    assert failures > 3
    left = [row for row in await deliveries_of(bench.database) if row.status != Status.SENT]
    assert {(row.tenant_id, row.locked_by, row.claims) for row in left} == {(DEFAULT_TENANT, None, 0)}


async def _is_sent(bench: Bench, tenant_id: int) -> bool:
    rows = await deliveries_of(bench.database)
    return all(row.status == Status.SENT for row in rows if row.tenant_id == tenant_id)


@pytest.mark.promise("poison-isolated")
async def test_suspects_are_built_before_one_is_sent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that crashes the build leaves none of the messages beside it in doubt."""
    *_, poison = await bench.accept(*(a_newsletter() for _ in range(40)))
    await claims_of(bench.database, bench.clock, "dead").claim(40)
    bench.clock.advance(LOCK_TTL)
    provider = a_holding_provider(capacity=10)
    worker = await bench.worker(provider)
    prepare = worker.parts.composer.prepare

    def deadly(admitted: Admitted, now: int) -> Any:
        if admitted.claimed.outbox_id == poison:
            raise RuntimeError("crash")
        return prepare(admitted, now)

    monkeypatch.setattr(worker.parts.composer, "prepare", deadly)
    with pytest.raises(ExceptionGroup):
        await worker.run()
    assert provider.messages == []
    assert await bench.statuses() == {Status.PENDING: 40}


@pytest.mark.promise("transactional-first")
async def test_lease_ends_within_thirty_seconds(bench: Bench) -> None:
    await bench.accept(a_message())
    provider = a_holding_provider(capacity=1)
    async with running(await bench.worker(provider)):
        await provider.has(1)
        (row,) = await deliveries_of(bench.database)
        assert row.claimable_at <= bench.clock.now() + MAX_LEASE == bench.clock.now() + 30 * SECOND
        provider.let_go()
