"""Let a link scanner follow all links through two servers, and kill one: no burst counts as a person's clicks."""

import asyncio
import time
from collections import Counter, defaultdict
from typing import Any

import httpx
import orjson
from sqlalchemy import func, select, update

from mailwright.domain.clock import SystemClock
from mailwright.domain.tracking_tokens import TrackingTokens, day_of
from mailwright.events.tracking.bursts import EmailResponse, find_machines
from mailwright.outbox.tallies import EventTallier
from mailwright.storage.tables import contacts, events, messages, tallies
from tests.api import socket_client
from tests.faults.clicks import SECRET, spools
from tests.faults.figures import Figures
from tests.faults.stage import Stage

SCANS_AT_ONCE = 5
PAGES = tuple(f"https://shop.example/{name}" for name in ("a", "b", "c", "d"))
BROWSER = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"}


async def run(stage: Stage, *, emails: int, kills: int) -> Figures:
    """Scan half of the emails: each link at once, through two servers. A person clicks one link of the others."""
    figures = Figures()
    await stage.accept(emails)
    async with stage.database.write() as tx:
        await tx.execute(update(contacts).values(consents_to_tracking=True))
    scanned, read = list(stage.accepted)[::2], list(stage.accepted)[1::2]
    answered: Counter[str] = Counter()
    each_time = -(-len(scanned) // (kills + 1))
    for number in range(kills + 1):
        part = slice(number * each_time, (number + 1) * each_time)
        servers = [await stage.api("--no-worker", MAILWRIGHT_TRACKING="individual") for _ in range(2)]
        visits = [(each, PAGES) for each in scanned[part]] + [(each, PAGES[:1]) for each in read[part]]
        victim = servers[0][0] if number < kills else None
        async with (
            socket_client(f"http://127.0.0.1:{servers[0][1]}", headers=BROWSER) as first,
            socket_client(f"http://127.0.0.1:{servers[1][1]}", headers=BROWSER) as second,
        ):
            answered += await _visit(visits, (second, first), victim)
        if number < kills:
            servers[1][0].kill()
    clicks = await _recorded(stage, answered)
    await EventTallier(stage.database, SystemClock()).add_existing(patience_seconds=30)
    for server, _ in servers:
        server.kill()

    machines = {each for each, found in clicks.items() if any(is_machine for _, _, is_machine in found)}
    figures.note("answered clicks", answered.total())
    figures.note("recognised bursts", len(machines))
    figures.expect("bursts were recognised", len(machines), "> 0", when=bool(machines))
    figures.none("answered clicks that were lost", [each for each in answered if len(clicks[each]) < answered[each]])
    figures.none("people who count as machines", sorted(machines & set(read)))
    figures.none("messages that were judged wrongly", [each for each, found in clicks.items() if not _is_right(found)])
    figures.none("figures that differ from the events", await _differences(stage, clicks))
    return figures


async def _visit(
    visits: list[tuple[str, tuple[str, ...]]], servers: tuple[httpx.AsyncClient, ...], victim: Any
) -> Counter[str]:
    """Follow the links of several messages at once, and kill a server after half of them."""
    tokens, day = TrackingTokens(SECRET), day_of(SystemClock().now())
    waiting, answered, half = list(visits), Counter[str](), len(visits) // 2

    async def follow(server: httpx.AsyncClient, outbox_id: str, page: str) -> None:
        try:
            response = await server.get(f"/t/{tokens.personal_link(day, None, outbox_id, page)}")
        except httpx.HTTPError:
            return
        assert response.headers["location"] == page, response.text
        answered[outbox_id] += 1

    async def scan() -> None:
        while waiting:
            outbox_id, pages = waiting.pop()
            links = enumerate(pages)
            await asyncio.gather(*(follow(servers[number % len(servers)], outbox_id, page) for number, page in links))
            if victim is not None and len(waiting) == half:
                victim.kill()

    await asyncio.gather(*(scan() for _ in range(SCANS_AT_ONCE)))
    return answered


_Clicks = dict[str, list[tuple[int, str, bool]]]


async def _recorded(stage: Stage, answered: Counter[str]) -> _Clicks:
    """Return time, link and judgement of the clicks of each message, once the servers have stored the spools."""
    ends = time.monotonic() + 60
    while True:
        found: _Clicks = defaultdict(list)
        clicked = select(messages.c.outbox_id, events.c.created_at, events.c.metadata)
        clicked = clicked.join(events, events.c.message_key == messages.c.id).where(events.c.type == "click")
        async with stage.database.read() as tx:
            for row in await tx.execute(clicked):
                metadata = orjson.loads(row.metadata)
                found[row.outbox_id].append((row.created_at, metadata["url"], metadata["isMachine"]))
        is_complete = all(len(found[each]) >= count for each, count in answered.items())
        if (is_complete and not spools(stage)) or time.monotonic() > ends:
            return found
        await asyncio.sleep(0.2)


def _is_right(clicks: list[tuple[int, str, bool]]) -> bool:
    """Judge all clicks of a message at once, and compare with what was stored click by click."""
    responses = [EmailResponse(number, at, is_click=True, url=url) for number, (at, url, _) in enumerate(clicks)]
    machines = find_machines(responses, None)
    return all((number in machines) == is_machine for number, (_, _, is_machine) in enumerate(clicks))


async def _differences(stage: Stage, clicks: _Clicks) -> list[str]:
    query = select(tallies.c.type, func.sum(tallies.c.events).label("events")).group_by(tallies.c.type)
    async with stage.database.read() as tx:
        counted = {row.type: int(row.events) for row in await tx.execute(query)}
    stored = Counter("machine_click" if machine else "click" for found in clicks.values() for *_, machine in found)
    return [name for name in ("click", "machine_click") if counted.get(name, 0) != stored[name]]
