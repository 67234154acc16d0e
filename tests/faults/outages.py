"""Stop and restart the database under load: every 202 is stored, everything else was a 503."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import asyncpg

from mailwright.domain.clock import HOUR, SystemClock
from tests.builders import a_message
from tests.engines import PostgresServer, Valkey
from tests.faults.books import compare, standing
from tests.faults.figures import Figures
from tests.faults.http import Client, a_mail
from tests.faults.stage import Stage

SEED = 20_260_105
CLIENTS = 8
CUT_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"


class Load:
    """Clients that post messages with unique keys and repeat them after failures."""

    def __init__(self, port: int, credential: str, name: str = "", clients: int = CLIENTS) -> None:
        self._port = port
        self._credential = credential
        self._name = name
        self._clients = clients
        self.statuses: Counter[str] = Counter()
        self.told: dict[str, str] = {}  # The outbox ID in a 202 or its replay, by idempotency key.
        self.is_over = False

    async def run(self) -> None:
        await asyncio.gather(*(self._client(index) for index in range(self._clients)))

    async def _client(self, index: int) -> None:
        number = 0
        async with Client(self._port, self._credential) as api:
            while not self.is_over:
                number += 1
                await self._until_accepted(api, f"{self._name}{index}-{number}")
                await asyncio.sleep(0.02)

    async def _until_accepted(self, api: Client, key: str) -> None:
        for _ in range(600):
            try:
                answer = await api.send(a_mail(key), key)
            except (OSError, EOFError, TimeoutError) as error:
                self.statuses[type(error).__name__] += 1
            else:
                self.statuses[str(answer.status)] += 1
                if answer.status in (200, 202):
                    self.told[key] = answer.body["outboxId"]
                    return
            await asyncio.sleep(0.1)


async def run(stage: Stage, server: PostgresServer, *, outages: int) -> Figures:
    figures, chance = Figures(), random.Random(SEED)
    await stage.open_sink(latency_seconds=0.02)
    credential = await stage.credential()
    api, port = await stage.api("--no-worker")
    workers = [await stage.working(), await stage.working()]
    load = Load(port, credential)
    loading = asyncio.create_task(load.run())
    for number in range(outages):
        await asyncio.sleep(chance.uniform(0.3, 1.0))
        if number % 2:
            with suppress(asyncpg.PostgresError, OSError):
                await _cut(stage.url)
        else:
            await asyncio.to_thread(server.stop_at_once)
            await asyncio.sleep(chance.uniform(0.0, 1.0))
            await asyncio.to_thread(server.start_again)
    await asyncio.sleep(0.5)
    load.is_over = True
    await loading
    await stage.all_done(seconds=60)
    alive = [process.exit_code for process in (api, *workers)]
    for worker in workers:
        worker.kill()

    rows = await standing(stage)
    figures.note("outages", outages)
    figures.note("answers", dict(load.statuses))
    strange = [status for status in load.statuses if status not in ("200", "202", "503")]
    figures.none("answers other than 202, its replay, and 503", strange)
    figures.none("answered with 202 but not stored", [each for each in load.told.values() if each not in rows])
    figures.expect("messages", len(rows), f"{len(load.told)} keys", when=len(rows) == len(load.told))
    figures.none("processes that did not survive", [str(code) for code in alive if code is not None])
    await compare(stage, figures)
    return figures


async def without_valkey(stage: Stage, valkey: Valkey, *, limit: int = 200) -> Figures:
    """Permits for an hour are limited. Valkey is emptied, frozen and killed while they are handed out."""
    figures = Figures()
    await stage.open_sink(latency_seconds=0.1)
    stage.settings = {"MAILWRIGHT_REDIS_URL": valkey.url, "MAILWRIGHT_RATE_PER_HOUR": str(limit)}
    await stage.accept_all([a_message() for _ in range(limit * 3)])
    first_hour = SystemClock().now() // HOUR
    workers = [await stage.working(), await stage.working()]
    for trouble in (valkey.flush, lambda: valkey.freeze(1_500), valkey.flush, valkey.kill):
        await asyncio.sleep(0.4)
        with suppress(OSError):
            await asyncio.to_thread(trouble)
    await _still(lambda: sum(stage.received().values()))
    hours = SystemClock().now() // HOUR - first_hour + 1
    for worker in workers:
        worker.kill()
    sent = sum(stage.received().values())
    figures.at_most("sent in the hour", sent, limit * hours)
    figures.expect("sent at all", sent, "> 0", when=sent > 0)
    figures.none("sent twice", sum(times - 1 for times in stage.received().values()))
    return figures


async def _cut(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(CUT_ALL)
    finally:
        await connection.close()


async def _still(value: Callable[[], int], seconds: float = 2.5) -> None:
    """Wait until the value has not changed for this time."""
    before, since = value(), 0.0
    while since < seconds:
        await asyncio.sleep(0.1)
        since += 0.1
        now = value()
        if now != before:
            before, since = now, 0.0
