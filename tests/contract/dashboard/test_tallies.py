"""Tallies count each event once per minute, on both engines."""

import asyncio

from sqlalchemy import insert, select

from mailwright.domain.clock import HOUR, MINUTE, ManualClock
from mailwright.outbox.tallies import EventTallier, load_buckets
from mailwright.storage.database import Database
from mailwright.storage.tables import events, tallies

PLAIN = {"message_key": 1, "metadata": "{}"}


async def happen(database: Database, *rows: tuple[str, int], tenant_id: int = 1) -> None:
    plain = {**PLAIN, "tenant_id": tenant_id}
    async with database.write() as tx:
        await tx.execute(insert(events), [{**plain, "type": name, "created_at": at} for name, at in rows])


async def tallied(database: Database) -> dict[str, int]:
    async with database.read() as tx:
        rows = await tx.execute(select(tallies))
    found: dict[str, int] = {}
    for row in rows:
        found[row.type] = found.get(row.type, 0) + row.events
    return found


async def add_all_up(*counting: EventTallier) -> None:
    await asyncio.gather(*(each.add_existing() for each in counting))


async def test_each_event_is_counted_once(database: Database, clock: ManualClock) -> None:
    now = clock.now()
    await happen(database, *[("SENT", now + number) for number in range(40)], *[("RECEIVED", now)] * 5)
    await add_all_up(*(EventTallier(database, clock, batch_size=7) for _ in range(3)))
    await happen(database, ("FAILED", now), ("SENT", now + MINUTE))
    await add_all_up(*(EventTallier(database, clock, batch_size=7) for _ in range(2)))
    assert await tallied(database) == {"SENT": 41, "FAILED": 1}


async def test_tallies_include_empty_intervals(database: Database, clock: ManualClock) -> None:
    began = clock.now() - clock.now() % HOUR
    await happen(database, ("SENT", began + 1), ("SENT", began + 2 * MINUTE), ("bounce", began + 2 * MINUTE))
    await happen(database, ("SENT", began), tenant_id=2)
    await add_all_up(EventTallier(database, clock))
    found = await load_buckets(database, tenant_id=1, since=began, until=began + 4 * MINUTE)
    assert [dict(each.counts) for each in found] == [{"SENT": 1}, {}, {"SENT": 1, "bounce": 1}, {}]
    [hour] = await load_buckets(database, tenant_id=None, since=began, until=began + HOUR, length=HOUR)
    assert hour.counts == {"SENT": 3, "bounce": 1}


async def test_tallying_waits_for_open_transactions(database: Database, clock: ManualClock) -> None:
    await happen(database, ("SENT", clock.now()))
    async with database.write() as tx:
        await tx.execute(insert(events), [{**PLAIN, "tenant_id": 1, "type": "FAILED", "created_at": clock.now()}])
        adding = asyncio.create_task(EventTallier(database, clock).add_existing())
        if database.dialect == "postgresql":  # SQLite has one writer, so the tallies wait for it anyway.
            await EventTallier(database, clock).add_existing(patience_seconds=0)
            assert await tallied(database) == {}
    await adding
    assert (await tallied(database))["SENT"] == 1
