"""Kill workers under an hourly limit: it is never exceeded, and permits of killed workers are used after all."""

import asyncio
import random

from sqlalchemy import func, select

from mailwright.domain.clock import HOUR, MINUTE, SystemClock
from mailwright.domain.states import Status
from mailwright.storage.tables import deliveries
from tests.faults.figures import Figures
from tests.faults.stage import Stage

SEED = 20_261_118
# A run must not cross a full hour, after which the limit counts again.
LONGEST_RUN = 5 * MINUTE
SECONDS_WITHOUT_PROGRESS = 30


async def run(stage: Stage, *, kills: int, limit: int) -> Figures:
    figures, chance = Figures(), random.Random(SEED)
    await _wait_for_a_new_hour()
    await stage.open_sink(latency_seconds=0.05)
    stage.settings |= {"MAILWRIGHT_RATE_PER_HOUR": str(limit), "MAILWRIGHT_RESERVE_PERCENT": "0"}
    await stage.accept(limit + 100, bulk_share=1.0)
    workers = [stage.worker(), stage.worker()]
    for _ in range(kills):
        chosen = chance.randrange(len(workers))
        await workers[chosen].says("worker_started")
        await asyncio.sleep(chance.uniform(0.0, 0.6))
        workers[chosen].kill()
        workers[chosen] = stage.worker()
    await _all_permits_used(stage, limit)
    for worker in workers:
        worker.kill()

    begun = await _begun(stage)
    figures.note("kills", kills)
    figures.at_most("messages received", sum(stage.received().values()), limit)
    figures.expect("messages sent or in doubt", begun, f"{limit}", when=begun == limit)
    figures.none("audits that did not add up", int(not await stage.identity_holds()))
    return figures


async def _wait_for_a_new_hour() -> None:
    while HOUR - SystemClock().now() % HOUR < LONGEST_RUN:
        await asyncio.sleep(1)


async def _all_permits_used(stage: Stage, limit: int) -> None:
    waited, most = 0.0, 0
    while (begun := await _begun(stage)) < limit and waited < SECONDS_WITHOUT_PROGRESS:
        waited, most = (0.0, begun) if begun > most else (waited + 0.2, most)
        await asyncio.sleep(0.2)


async def _begun(stage: Stage) -> int:
    """Return how many messages used a permit."""
    began = deliveries.c.status.in_([Status.SENT, Status.IN_DOUBT, Status.SENT_ATTEMPT])
    async with stage.database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(deliveries).where(began)))[0][0])
