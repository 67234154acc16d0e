"""Kill the server during clicks: each click that was answered is recorded exactly once."""

import asyncio
import time
from collections import Counter

import httpx
from sqlalchemy import select, update

from mailwright.domain.clock import SystemClock
from mailwright.domain.tracking_tokens import TrackingTokens, day_of
from mailwright.storage.tables import contacts, events, messages
from tests.api import socket_client
from tests.faults.figures import Figures
from tests.faults.processes import Process
from tests.faults.stage import Stage

SECRET = "s" * 32  # Of the stage.
CLIENTS = 20
TARGET = "https://shop.example/"


async def run(stage: Stage, *, kills: int, clicks: int) -> Figures:
    """Click once per message. A click that was not answered is not repeated: it may or may not be recorded."""
    figures = Figures()
    await stage.accept(clicks)
    async with stage.database.write() as tx:
        await tx.execute(update(contacts).values(consents_to_tracking=True))
    tokens, day = TrackingTokens(SECRET), day_of(SystemClock().now())
    paths = {each: f"/t/{tokens.personal_link(day, None, each, TARGET)}" for each in stage.accepted}
    answered: set[str] = set()
    each_time = -(-clicks // (kills + 1))
    rest = list(paths)
    for number in range(kills + 1):
        server, port = await stage.api("--no-worker", MAILWRIGHT_TRACKING="individual")
        part, rest = rest[:each_time], rest[each_time:]
        victim = server if number < kills else None
        answered |= await _click({each: paths[each] for each in part}, port, victim)
    recorded = await _recorded(stage, answered)
    server.kill()
    figures.note("answered clicks", len(answered))
    figures.expect("clicks were answered and interrupted", len(answered), f"< {clicks}", when=bool(answered))
    figures.none("answered clicks that were lost", sorted(answered - recorded.keys()))
    figures.none("clicks that were recorded twice", [each for each, count in recorded.items() if count > 1])
    figures.none("spools that are left", spools(stage))
    return figures


async def _click(paths: dict[str, str], port: int, victim: Process | None) -> set[str]:
    """Click from several clients, and kill the server after half of the answers."""
    waiting, answered = list(paths.items()), set[str]()
    headers = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"}

    async def client(http: httpx.AsyncClient) -> None:
        while waiting:
            outbox_id, path = waiting.pop()
            try:
                response = await http.get(path)
            except httpx.HTTPError:
                return
            assert response.headers["location"] == TARGET, response.text
            answered.add(outbox_id)
            if victim is not None and len(answered) == len(paths) // 2:
                victim.kill()

    async with socket_client(f"http://127.0.0.1:{port}", headers=headers) as http:
        await asyncio.gather(*(client(http) for _ in range(CLIENTS)))
    return answered


def spools(stage: Stage) -> int:
    return len(list((stage.folder / "var" / "tracking").glob("*.spool")))


async def _recorded(stage: Stage, answered: set[str]) -> Counter[str]:
    """Wait until the last server has stored the spools, also those of the killed ones."""
    ends = time.monotonic() + 60
    while True:
        async with stage.database.read() as tx:
            clicked = select(messages.c.outbox_id).join(events, events.c.message_key == messages.c.id)
            found = Counter(row.outbox_id for row in await tx.execute(clicked.where(events.c.type == "click")))
        if (answered <= found.keys() and not spools(stage)) or time.monotonic() > ends:
            return found
        await asyncio.sleep(0.2)
