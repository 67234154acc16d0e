"""Stop workers under load: they claim no more, finish what is in flight and leave nothing behind."""

import asyncio
import random
import signal
import time
from typing import Any

from sqlalchemy import select

from mailwright.domain.clock import SystemClock
from mailwright.domain.states import Status
from mailwright.storage.tables import deliveries
from tests.faults.books import compare, standing
from tests.faults.figures import Figures
from tests.faults.stage import Stage

SEED = 20_260_103
# Sends take long enough that those in flight at the signal are still there a second later.
LATENCY_SECONDS = 0.3
PER_STOP = 40


async def run(stage: Stage, *, stops: int, at_once: int = 2) -> Figures:
    figures, chance = Figures(), random.Random(SEED)
    await stage.open_sink(LATENCY_SECONDS)
    # The lease is longer than the run, so that anything left behind is found.
    stage.settings = {"MAILWRIGHT_LOCK_TTL_SECONDS": "600", "MAILWRIGHT_CONCURRENCY": "16"}
    stopped: list[_Stopped] = []
    while len(stopped) < stops:
        await stage.accept(PER_STOP * at_once)
        stopped += await asyncio.gather(*(_one(stage, chance.uniform(0.2, 1.2)) for _ in range(at_once)))
    rows = (await standing(stage)).values()

    figures.note("stops", len(stopped))
    figures.none("ended otherwise than with 0", [str(each.exit_code) for each in stopped if each.exit_code])
    figures.none("claims later than 1 s after the signal", sum(each.late_claims for each in stopped))
    figures.note(
        "messages in flight at the signal, mean", round(sum(each.in_flight for each in stopped) / len(stopped), 1)
    )
    figures.note("slowest stop in seconds", round(max(each.seconds for each in stopped), 1))
    figures.none("locked after the end", sum(row.locked_by is not None for row in rows))
    figures.none("in doubt", sum(row.status == Status.IN_DOUBT for row in rows))
    figures.none("claims that were not given back", sum(row.claims > 0 for row in rows))

    last = await stage.working()
    await stage.all_done(seconds=60)
    last.kill()
    await compare(stage, figures)
    return figures


class _Stopped:
    def __init__(self, exit_code: int, seconds: float, in_flight: int, late_claims: int) -> None:
        self.exit_code = exit_code
        self.seconds = seconds
        self.in_flight = in_flight
        self.late_claims = late_claims


async def _one(stage: Stage, after_seconds: float) -> _Stopped:
    worker = await stage.working()
    await asyncio.sleep(after_seconds)
    worker.signal(signal.SIGTERM)
    started, noticed_at = time.monotonic(), None
    in_flight, late = -1, 0
    while worker.exit_code is None:
        held = await _held(stage, worker.pid)
        if in_flight < 0:
            in_flight = sum(row.status == Status.SENT_ATTEMPT for row in held)
        if noticed_at is not None:
            late = max(late, sum(row.locked_at > noticed_at + 1_000 for row in held))
        elif '"stopping"' in worker.said:  # A busy machine may deliver the signal late.
            noticed_at = SystemClock().now()
        await asyncio.sleep(0.05)
    return _Stopped(worker.exit_code, time.monotonic() - started, max(in_flight, 0), late)


async def _held(stage: Stage, pid: int) -> list[Any]:
    query = select(deliveries.c.status, deliveries.c.locked_at).where(deliveries.c.locked_by.like(f"%-{pid}-%"))
    async with stage.database.read() as tx:
        return list(await tx.execute(query))
