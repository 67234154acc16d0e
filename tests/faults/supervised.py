"""Kill processes of a supervisor, and the supervisor: nothing is lost, and no process stays behind."""

import asyncio
import random

import psutil

from tests.faults.books import compare, doubts_by_worker
from tests.faults.figures import Figures
from tests.faults.kills import MOST_BEGUN
from tests.faults.processes import Process, until
from tests.faults.stage import Stage

SEED = 20_260_107
PROCESSES = 3
# Long enough that most kills hit a process that is sending.
LATENCY_SECONDS = 0.2
# Processes start and end within seconds; the rest is for a busy machine.
PATIENCE_SECONDS = 100


async def run(stage: Stage, *, kills: int, messages: int, supervisor_every: int, processes: int = PROCESSES) -> Figures:
    """Kill a process `kills` times, and the supervisor instead at every turn of `supervisor_every`."""
    figures, chance = Figures(), random.Random(SEED)
    await stage.open_sink(LATENCY_SECONDS)
    supervisor = start(stage, processes=processes)
    killed: list[int] = []
    orphans_left = 0
    for turn in range(1, kills + 1):
        # Right after a kill the others work on, so the next kill need not wait for the restart.
        await supervisor.says("supervisor_started", PATIENCE_SECONDS)
        await stage.accept(messages // kills)
        await asyncio.sleep(chance.uniform(0.0, 2 * LATENCY_SECONDS))
        await until(lambda: bool(working(supervisor)), PATIENCE_SECONDS, "a process")  # noqa: B023 - ends in this turn
        children = working(supervisor)
        if turn % supervisor_every:
            killed.append(_kill(chance.choice(children)))
            continue
        supervisor.kill()
        orphans_left += await count_left(children)
        supervisor = start(stage, processes=processes) if turn < kills else stage.worker()
    await stage.all_done(PATIENCE_SECONDS)
    children = working(supervisor)
    supervisor.kill()
    orphans_left += await count_left(children)

    doubts = await doubts_by_worker(stage)
    figures.note("kills", kills)
    figures.none("processes that outlived their supervisor", orphans_left)
    figures.at_most("most in doubt after one kill", max(doubts.values(), default=0), MOST_BEGUN)
    survivors = [name for name in doubts if int(name.split("-")[-2]) not in killed]
    figures.note("doubts about processes that were not killed", sum(doubts[name] for name in survivors))
    await compare(stage, figures)
    return figures


def start(stage: Stage, *options: str, processes: int = PROCESSES, **settings: object) -> Process:
    return stage.start("supervisor", ["worker", "--processes", str(processes), *options], **settings)


def working(supervisor: Process) -> list[psutil.Process]:
    """Return the child processes."""
    try:
        return psutil.Process(supervisor.pid).children()
    except psutil.NoSuchProcess:
        return []


def _kill(child: psutil.Process) -> int:
    child.kill()
    return int(child.pid)


async def count_left(orphans: list[psutil.Process]) -> int:
    """Wait for the end of processes, and kill and count those that do not end."""
    _, alive = await asyncio.to_thread(psutil.wait_procs, orphans, timeout=PATIENCE_SECONDS)
    for orphan in alive:
        orphan.kill()
    return len(alive)
