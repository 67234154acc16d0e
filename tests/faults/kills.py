"""Kill workers at random: nothing is lost, and every duplicate is recorded as possible."""

import asyncio
import random

from tests.faults.books import compare, doubts_by_worker
from tests.faults.figures import Figures
from tests.faults.stage import Stage

MOST_BEGUN = 60  # By default, the SMTP provider opens 40 connections, and 20 of them carry two messages.
SEED = 20_260_101


async def run(stage: Stage, *, kills: int, messages: int, audit_by_command: bool = True) -> Figures:
    figures, chance = Figures(), random.Random(SEED)
    await stage.open_sink(latency_seconds=0.05)
    workers = [stage.worker(), stage.worker()]
    broken_audits = 0
    killed: list[int] = []
    for number in range(kills):
        await stage.accept(messages // kills + (messages % kills if number == 0 else 0))
        chosen = chance.randrange(len(workers))
        await workers[chosen].says("worker_started")
        await asyncio.sleep(chance.uniform(0.0, 0.6))
        workers[chosen].kill()
        killed.append(workers[chosen].pid)
        workers[chosen] = stage.worker()
        broken_audits += not ((await stage.audit())["ok"] if audit_by_command else await stage.identity_holds())
    await stage.all_done(seconds=60)
    for worker in workers:
        worker.kill()  # With nothing in flight, even a kill leaves nothing behind.

    doubts = await doubts_by_worker(stage)
    dead = {name: found for name, found in doubts.items() if int(name.split("-")[-2]) in killed}
    figures.note("kills", kills)
    figures.none("audits that did not add up", broken_audits)
    figures.expect("kills that left messages in doubt", len(dead), "≥ 1 of 40", when=bool(dead) or kills < 40)
    figures.at_most("most in doubt after one kill", max(dead.values(), default=0), MOST_BEGUN)
    figures.note("in doubt per kill, mean", round(sum(dead.values()) / kills, 1))
    figures.note("doubts about workers that lived", sum(doubts.values()) - sum(dead.values()))
    await compare(stage, figures)
    return figures
