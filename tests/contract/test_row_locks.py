"""Writers that meet at the same rows. SQLite has one writer at a time: only PostgreSQL can show two at once."""

import asyncio
from typing import Any

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.domain.lanes import lane_number
from mailwright.domain.states import Priority
from mailwright.outbox.claim import CLAIM_LANE
from mailwright.outbox.settle import exchange
from mailwright.sources.campaigns.conductor import CANCEL_LANE
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import Statement
from tests.builders import DEFAULT_TENANT, LOCK_TTL, a_message, an_intake, claims_of, deliveries_of

pytestmark = pytest.mark.parametrize("engine", ["postgresql"], indirect=True)

LANE = lane_number(Priority.TRANSACTIONAL, DEFAULT_TENANT)
LONGEST_SECONDS = 20

AT_ONCE = Statement("at_once", "SET LOCAL deadlock_timeout = '10ms'")
TOUCH = Statement("touch", "UPDATE deliveries SET duration_ms = COALESCE(duration_ms, 0) + 1 WHERE message_key = :key")
WAITING = Statement("waiting", "SELECT count(*) AS n FROM pg_locks WHERE NOT granted")


@pytest.mark.promise("writers-meet")
async def test_a_renewal_passes_over_what_is_being_written_and_waits_for_nothing(
    database: Database, clock: ManualClock
) -> None:
    await an_intake(database, clock).accept([a_message() for _ in range(3)])
    claims = claims_of(database, clock)
    held = await claims.claim(10)
    clock.advance(LOCK_TTL // 3)
    async with asyncio.timeout(LONGEST_SECONDS), database.write() as tx:
        await exchange(tx, [], held[1:2], clock.now())
        renewed = await claims.renew(held)
    assert renewed == dict.fromkeys((held[0].message_key, held[2].message_key), clock.now() + LOCK_TTL)
    assert len(await claims.renew(held)) == 3


@pytest.mark.promise("cancel-wins")
async def test_what_a_worker_takes_while_its_lane_is_cancelled_is_the_workers(
    database: Database, clock: ManualClock
) -> None:
    await an_intake(database, clock).accept([a_message() for _ in range(2)])
    lock = {"token": 7, "worker": "worker-1", "locked_until": clock.now() + LOCK_TTL}
    async with asyncio.timeout(LONGEST_SECONDS), database.write() as claiming:
        assert await claiming.count(CLAIM_LANE, lane=LANE, limit=1, now=clock.now(), **lock) == 1
        cancelling = asyncio.create_task(_cancel(database))
        await _somebody_waits(claiming)
    assert len(await cancelling) == 1
    rows = sorted((row.status, row.locked_by) for row in await deliveries_of(database))
    assert rows == [("CANCELLED", None), ("PENDING", "worker-1")]


@pytest.mark.promise("writers-meet")
async def test_two_who_wait_for_each_others_rows_both_come_to_their_end(database: Database, clock: ManualClock) -> None:
    await an_intake(database, clock).accept([a_message() for _ in range(2)])
    one, other = [row.message_key for row in await deliveries_of(database)]
    begun = asyncio.Barrier(2)
    tries: list[int] = []

    async def touch_both(tx: Runner, first: int, second: int) -> None:
        tries.append(first)
        await tx.run(AT_ONCE)
        await tx.count(TOUCH, key=first)
        if tries.count(first) == 1:
            await begun.wait()
        await tx.count(TOUCH, key=second)

    async with asyncio.timeout(LONGEST_SECONDS):
        await asyncio.gather(
            database.transact(lambda tx: touch_both(tx, one, other)),
            database.transact(lambda tx: touch_both(tx, other, one)),
        )
    assert len(tries) == 3  # one of them was ended, and began again
    assert [row.duration_ms for row in await deliveries_of(database)] == [2, 2]


async def _cancel(database: Database) -> Any:
    async with database.write() as tx:
        return await tx.run(CANCEL_LANE, lane=LANE, limit=10)


async def _somebody_waits(tx: Transaction) -> None:
    while not (await tx.run(WAITING))[0].n:
        await asyncio.sleep(0.01)
