"""Measure what it costs to settle finished attempts: the time of a commit, and CPU time with the database's share.

Each commit also begins as many next attempts, as the commits of a busy worker do. Nothing is rendered or sent.
"""

import asyncio
from dataclasses import dataclass
from itertools import pairwise

from bench.mailwright import prepare
from bench.sequences import Cost, Measured, Meter
from mailwright.app.wiring import open_engine
from mailwright.domain.clock import MINUTE, Instant
from mailwright.domain.message import Admitted, Claimed, Delivered
from mailwright.ops.settings import load
from mailwright.outbox.claim import Claims
from mailwright.outbox.settle import Settler


@dataclass(frozen=True, slots=True)
class Attempt:
    claimed: Claimed
    provider: str = "bench"
    copies: tuple[str, ...] = ()

    @property
    def admitted(self) -> Admitted:
        return Admitted(self.claimed)


def settled(url: str, commits: int, size: int) -> Cost:
    """Settle `size` sent messages in each of `commits` commits, one after the other."""
    prepare(url, (commits + 2) * size)
    return asyncio.run(_settled(url, commits, size))


async def _settled(url: str, commits: int, size: int) -> Cost:
    found = Measured(0)
    async with open_engine(load(database_url=url)) as engine:
        claims = Claims(engine.database, engine.clock, "bench", 60 * MINUTE)
        settler = Settler(engine.database, engine.clock)
        claimed: list[Claimed] = []
        while len(claimed) < (commits + 2) * size:
            claimed += await claims.claim(500)
        batches = [tuple(claimed[start : start + size]) for start in range(0, len(claimed), size)]
        begun = await settler.exchange([], [Attempt(each) for each in batches[0]])
        pairs = list(pairwise(batches))
        # The first commit opens the connection and prepares the statements.
        begun = await settler.exchange(*_exchange(*pairs[0], begun.attempted_at))
        async with Meter(engine.database, found).measuring("commits", commits):
            for finished, next_up in pairs[1:]:
                begun = await settler.exchange(*_exchange(finished, next_up, begun.attempted_at))
    return found.costs["commits"]


def _exchange(
    finished: tuple[Claimed, ...], next_up: tuple[Claimed, ...], at: Instant
) -> tuple[list[Delivered], list[Attempt]]:
    sent = [Delivered(each, at, at, at, "bench", f"<{each.message_key}@bench>") for each in finished]
    return sent, [Attempt(each) for each in next_up]
