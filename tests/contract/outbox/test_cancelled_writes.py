"""Writes whose caller is cancelled leave no data and no lock behind, on both engines."""

import asyncio

from sqlalchemy import func, insert, select

from mailwright.outbox.sending_hold import FIND_HOLD
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.tables import mailout_recipients

ROUNDS = 60


async def test_cancelled_write_never_blocks_other_writes(database: Database) -> None:
    """This also holds while a task keeps a reference to the cancelled write."""
    remembered: list[object] = []
    for turns in range(ROUNDS):
        writing = asyncio.create_task(_write(database, 2 * turns))
        for _ in range(20 * turns):
            await asyncio.sleep(0)
        writing.cancel()
        remembered += [writing, *await asyncio.gather(writing, return_exceptions=True)]
        await _write(database, 2 * turns + 1)
    async with database.read() as tx:
        counted = select(mailout_recipients.c.mailout_key, func.count()).group_by(mailout_recipients.c.mailout_key)
        rows = [tuple(row) for row in await tx.execute(counted)]
    assert {count for _, count in rows} == {20}
    assert {key for key, _ in rows} >= {2 * turns + 1 for turns in range(ROUNDS)}


async def _write(database: Database, key: int) -> None:
    async with database.write() as tx:
        for number in range(20):
            row = {"mailout_key": key, "email": f"reader{number}@example.com"}
            await tx.execute(insert(mailout_recipients).values(**row).returning(mailout_recipients))
            await tx.execute(select(mailout_recipients))


async def test_hot_write_cancelled_at_its_end_keeps_no_lock(database: Database) -> None:
    """The cancelled write ends in its thread while the next one, in another thread, waits for the same lock."""

    async def work(tx: Runner) -> None:
        await tx.run(FIND_HOLD)

    for _ in range(50):
        hot = asyncio.create_task(database.transact(work))
        await asyncio.sleep(0)
        hot.cancel()
        async with database.write() as tx:
            await tx.run(FIND_HOLD)
        await asyncio.wait([hot])
