"""Concurrent requests with the same Idempotency-Key create one message per key."""

import asyncio
from collections import Counter, defaultdict

from tests.faults.books import standing
from tests.faults.figures import Figures
from tests.faults.http import ApiResponse, Client, a_mail
from tests.faults.stage import Stage


async def run(stage: Stage, *, keys: int, clients: int = 50, processes: int = 2) -> Figures:
    """Use two API processes, so that transactions of different processes compete."""
    figures = Figures()
    credential = await stage.credential()
    ports = [(await stage.api("--no-worker"))[1] for _ in range(processes)]
    answers: dict[int, list[ApiResponse]] = defaultdict(list)

    async def client(index: int) -> None:
        async with Client(ports[index % processes], credential) as api:
            for key in range(keys):
                answers[key].append(await api.send(a_mail(key), f"key-{key}"))

    await asyncio.gather(*(client(index) for index in range(clients)))
    rows = await standing(stage)
    told = {key: {answer.body.get("outboxId") for answer in each} for key, each in answers.items()}
    statuses = Counter(answer.status for each in answers.values() for answer in each)

    figures.note("requests", keys * clients)
    figures.note("answers by status", dict(statuses))
    figures.expect("messages", len(rows), f"{keys}", when=len(rows) == keys)
    figures.expect("accepted with 202", statuses[202], f"{keys}", when=statuses[202] == keys)
    figures.none("answers that were neither 202 nor a replay", sum(statuses.values()) - statuses[202] - statuses[200])
    figures.none("keys with more than one outboxId", [str(key) for key, ids in told.items() if len(ids) != 1])
    figures.none("told and not stored", [str(one) for ids in told.values() for one in ids if one not in rows])
    figures.expect("audit identity", await stage.identity_holds(), "True", when=await stage.identity_holds())
    return figures
