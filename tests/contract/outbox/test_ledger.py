"""The ledger never exceeds a limit, on both engines, with and without Valkey."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from mailwright.app.databases import valkey_client
from mailwright.domain.clock import HOUR, ManualClock
from mailwright.domain.permits import Limits, LimitWindow
from mailwright.outbox.ledger import DatabaseLedger, Ledger
from mailwright.outbox.valkey import ValkeyLedger, block_name
from mailwright.policies.rates import windows
from mailwright.storage.database import Database
from tests.conftest import DatabaseAddress
from tests.engines import Valkey, valkey_server


@asynccontextmanager
async def a_client(url: str) -> AsyncIterator[Redis]:
    client = valkey_client(url)
    assert client is not None
    async with aclosing(client):
        yield client


@pytest.fixture(params=["database", "valkey"])
async def ledger(
    request: pytest.FixtureRequest, database: Database, clock: ManualClock
) -> AsyncIterator[DatabaseLedger | ValkeyLedger]:
    ground = DatabaseLedger(database, clock)
    if request.param == "database":
        yield ground
    else:
        valkey: Valkey = request.getfixturevalue("valkey")
        async with a_client(valkey.url) as client:
            yield ValkeyLedger(client, ground, clock)


def hourly(limit: int, clock: ManualClock, tenant_id: int = 1) -> tuple[LimitWindow, ...]:
    return windows(Limits(rate_per_hour=limit), tenant_id, clock.now())


async def reserved(ledger: Ledger, windows: tuple[LimitWindow, ...], wanted: int, times: int) -> int:
    """Return the number of permits that concurrent callers get."""
    return sum(grant.count for grant in await asyncio.gather(*(ledger.reserve(windows, wanted) for _ in range(times))))


@pytest.mark.promise("limits-never-exceeded")
async def test_concurrent_reservations_never_exceed_the_limit(ledger: Ledger, clock: ManualClock) -> None:
    assert await reserved(ledger, hourly(100, clock), 7, 30) == 100


@pytest.mark.promise("limits-never-exceeded")
async def test_partial_grant_states_the_window_and_time(ledger: Ledger, clock: ManualClock) -> None:
    needed = windows(Limits(rate_per_second=50, rate_per_hour=10, daily_limit=30), 1, clock.now())
    grant = await ledger.reserve(needed, 12)
    assert grant.count == 10
    assert grant.blocked_by is not None
    assert (grant.blocked_by.reason, grant.blocked_by.deferred_until % HOUR) == ("rate_per_hour", 0)
    assert (await ledger.reserve((), 12)).count == 12


@pytest.mark.promise("limits-never-exceeded")
async def test_returned_permits_can_be_reserved_again(ledger: Ledger, clock: ManualClock) -> None:
    needed = hourly(10, clock)
    assert (await ledger.reserve(needed, 10)).count == 10
    assert (await ledger.reserve(needed, 1)).count == 0
    await ledger.give_back(needed, 4)
    assert await reserved(ledger, needed, 1, 10) == 4


@pytest.mark.promise("limits-never-exceeded")
async def test_new_hour_has_all_its_permits(ledger: Ledger, clock: ManualClock) -> None:
    assert await reserved(ledger, hourly(5, clock), 5, 2) == 5
    clock.advance(HOUR)
    assert await reserved(ledger, hourly(5, clock), 5, 2) == 5


@pytest.mark.promise("limits-never-exceeded")
async def test_permits_return_to_their_own_hour(ledger: Ledger, clock: ManualClock) -> None:
    before = hourly(5, clock)
    await ledger.reserve(before, 5)
    clock.advance(HOUR)
    assert (await ledger.reserve(hourly(5, clock), 5)).count == 5
    await ledger.give_back(before, 5)
    assert (await ledger.reserve(hourly(5, clock), 5)).count == 0


@pytest.mark.promise("limits-never-exceeded")
async def test_tenants_do_not_share_permits(ledger: Ledger, clock: ManualClock) -> None:
    assert (await ledger.reserve(hourly(5, clock, tenant_id=1), 5)).count == 5
    assert (await ledger.reserve(hourly(5, clock, tenant_id=2), 5)).count == 5


@pytest.mark.promise("limits-never-exceeded")
async def test_reserving_and_returning_do_not_deadlock(ledger: Ledger, clock: ManualClock) -> None:
    """Three counters in one transaction each: taken in different orders, they would deadlock."""
    needed = windows(Limits(rate_per_second=1_000, rate_per_hour=1_000, daily_limit=1_000), 1, clock.now())
    await ledger.reserve(needed, 100)
    await asyncio.gather(
        *(ledger.give_back(needed, 1) for _ in range(60)), *(ledger.reserve(needed, 1) for _ in range(60))
    )
    assert await reserved(ledger, needed, 1_000, 2) == 1_000 - 100


# Faults of Valkey.


@pytest.mark.promise("limits-never-exceeded")
async def test_database_counts_while_valkey_is_down(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    needed = hourly(1_000, clock)
    with valkey_server(tmp_path) as server:
        async with a_client(server.url) as client:
            ledger = ValkeyLedger(client, DatabaseLedger(database, clock), clock)
            before = sum([(await ledger.reserve(needed, 3)).count for _ in range(20)])
            server.kill()
            after = await reserved(ledger, needed, 3, 20)
            assert (before, after) == (60, 60)  # No message waits because of it.
            rest = await reserved(ledger, needed, 1_000, 3)
            # Permits in Valkey, less than one block, are lost until the hour ends: too few are sent, never too many.
            assert 1_000 - 10 <= before + after + rest <= 1_000


@pytest.mark.promise("limits-never-exceeded")
async def test_flushed_valkey_never_exceeds_the_limit(database: Database, clock: ManualClock, valkey: Valkey) -> None:
    needed = hourly(500, clock)
    async with a_client(valkey.url) as client:
        ledger = ValkeyLedger(client, DatabaseLedger(database, clock), clock)
        total = 0
        for _ in range(400):
            total += (await ledger.reserve(needed, 2)).count
            if total % 50 == 0:
                valkey.flush()
        assert 400 <= total <= 500


@pytest.mark.promise("limits-never-exceeded")
async def test_unresponsive_valkey_never_exceeds_the_limit(
    database: Database, clock: ManualClock, valkey: Valkey
) -> None:
    needed = hourly(300, clock)
    async with a_client(valkey.url) as client:
        ledger = ValkeyLedger(client, DatabaseLedger(database, clock), clock)
        total = await reserved(ledger, needed, 2, 10)
        valkey.freeze(milliseconds=700)  # Longer than the timeout of the client.
        total += await reserved(ledger, needed, 2, 10)
        assert total == 40
        total += await reserved(ledger, needed, 300, 3)
        assert 290 <= total <= 300


@pytest.mark.promise("limits-never-exceeded")
async def test_valkey_restored_from_a_snapshot_reuses_no_permit(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    """A snapshot or replica may contain permits that were handed out since."""
    needed = hourly(1_000, clock)
    ground = DatabaseLedger(database, clock)
    with valkey_server(tmp_path) as server:
        async with a_client(server.url) as client:
            ledger = ValkeyLedger(client, ground, clock)
            total = await reserved(ledger, needed, 1, 1)  # The rest of its block is in Valkey.
            server.save()
            total += await reserved(ledger, needed, 1, 9)
        server.kill()
        with valkey_server(tmp_path, server.port) as awake:
            async with a_client(awake.url) as client:
                ledger = ValkeyLedger(client, ground, clock)
                total += await reserved(ledger, needed, 1, 20)
                total += await reserved(ledger, needed, 1_000, 3)
    assert total <= 1_000


@pytest.mark.promise("limits-never-exceeded")
async def test_workers_with_and_without_valkey_share_a_limit(
    engine: DatabaseAddress, database: Database, clock: ManualClock, valkey: Valkey
) -> None:
    needed = hourly(200, clock)
    elsewhere = Database(engine.url)
    try:
        async with a_client(valkey.url) as client, a_client("redis://127.0.0.1:1/0") as nobody:
            ground = DatabaseLedger(database, clock)
            ledgers = [
                ValkeyLedger(client, ground, clock),
                ValkeyLedger(client, DatabaseLedger(elsewhere, clock), clock),
                ValkeyLedger(nobody, ground, clock),
                ground,
            ]
            counts = await asyncio.gather(*(reserved(ledger, needed, 3, 30) for ledger in ledgers))
            assert sum(counts) == 200
    finally:
        await elsewhere.close()


@pytest.mark.promise("limits-never-exceeded")
async def test_block_expires_with_its_window(database: Database, clock: ManualClock, valkey: Valkey) -> None:
    needed = hourly(1_000, clock)
    async with a_client(valkey.url) as client:
        await ValkeyLedger(client, DatabaseLedger(database, clock), clock).reserve(needed, 1)
        assert 0 < await client.pttl(block_name(needed)) <= HOUR
