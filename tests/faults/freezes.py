"""Freeze a worker past its leases while another takes over: the claim token prevents duplicates."""

import asyncio
import random
import signal

from tests.faults.books import compare, doubts_by_worker
from tests.faults.figures import Figures
from tests.faults.stage import LOCK_TTL_SECONDS, Stage

SEED = 20_260_104


async def run(stage: Stage, *, freezes: int, messages: int = 300) -> Figures:
    figures, chance = Figures(), random.Random(SEED)
    await stage.open_sink(latency_seconds=0.03)
    workers = [await stage.working(), await stage.working()]
    for number in range(freezes):
        await stage.accept(messages)
        frozen = workers[number % 2]
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        frozen.signal(signal.SIGSTOP)
        await asyncio.sleep(LOCK_TTL_SECONDS + chance.uniform(0.8, 1.6))
        frozen.signal(signal.SIGCONT)
        await asyncio.sleep(chance.uniform(0.0, 0.3))
    await stage.all_done(seconds=60)
    for worker in workers:
        worker.signal(signal.SIGTERM)
    codes = [await worker.ended() for worker in workers]

    figures.note("freezes", freezes)
    figures.note("doubts raised by the other worker", sum((await doubts_by_worker(stage)).values()))
    figures.none("workers that did not go on well", [str(code) for code in codes if code])
    await compare(stage, figures)
    return figures
