"""The primary of two PostgreSQL servers dies, and its asynchronous standby takes over without the latest commits."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

from mailwright.domain.states import OPEN, Status
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.failover import Failover, load_failover
from mailwright.outbox.sending_hold import HoldReason
from tests.engines import PostgresServer
from tests.faults.books import standing
from tests.faults.figures import Figures
from tests.faults.outages import Load
from tests.faults.processes import until
from tests.faults.stage import Stage

MAX_SECONDS = 15
CONNECTIONS = 10  # Of each worker.


class Replication:
    """Passes on what a primary sends to its standby, and holds it back on demand."""

    def __init__(self, folder: Path, primary: PostgresServer) -> None:
        self.folder = folder
        self._primary = primary
        self._passes = asyncio.Event()
        self._passes.set()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        place = self.folder / ".s.PGSQL.5432"
        self._server = await asyncio.start_unix_server(self._connect, place)
        place.chmod(0o777)  # The standby runs as another user.

    def hold(self) -> None:
        self._passes.clear()

    def cut(self) -> None:
        """Close everything, so that what is held back never arrives."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._passes.set()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_unix_connection(self._primary.socket_folder / ".s.PGSQL.5432")
        self._writers += [writer, here]
        with contextlib.suppress(OSError):
            await asyncio.gather(self._pump(reader, here, is_held=False), self._pump(there, writer, is_held=True))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_held: bool) -> None:
        while content := await reader.read(65_536):
            if is_held:
                await self._passes.wait()
            writer.write(content)
            await writer.drain()
        writer.close()


class LossyPair:
    """A primary and a standby that does not confirm commits."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer, replication: Replication) -> None:
        self.primary = primary
        self.standby = standby
        self.replication = replication

    def url(self, name: str) -> str:
        folders = (self.primary.socket_folder, self.standby.socket_folder)
        return f"postgresql://postgres@/{name}?host={','.join(map(str, folders))}"

    async def wait_until_current(self) -> None:
        """Wait until the standby has every commit."""
        position = await self.primary.value("SELECT pg_current_wal_flush_lsn()::text")
        query = f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn"
        for _ in range(600):
            if await self.standby.value(query):
                return
            await asyncio.sleep(0.1)
        raise TimeoutError("the standby did not follow")

    async def fail_over(self) -> None:
        """Let the standby take over, without what was held back."""
        await asyncio.to_thread(self.primary.stop_at_once)
        self.replication.cut()
        await self.standby.command("SELECT pg_promote()")


@contextlib.asynccontextmanager
async def a_lossy_pair(primary: PostgresServer, folder: Path) -> AsyncIterator[LossyPair]:
    folder.chmod(0o777)
    relay = folder / "relay"
    relay.mkdir()
    relay.chmod(0o777)
    replication = Replication(relay, primary)
    await replication.start()
    standby = await asyncio.to_thread(primary.copy, folder / "data", relay)
    try:
        yield LossyPair(primary, standby, replication)
    finally:
        replication.cut()
        await asyncio.to_thread(standby.stop)


async def run(
    stage: Stage, pair: LossyPair, *, lost_seconds: float, bulk: int, transactional: int, machines: int = 1
) -> Figures:
    """Fail over while two workers send. One of them is killed before, and starts again afterwards."""
    figures = Figures()
    stage.settings = {"MAILWRIGHT_CONCURRENCY": str(CONNECTIONS)}
    await stage.open_sink(latency_seconds=2 * CONNECTIONS * (lost_seconds + 6) / (bulk + transactional))
    credential = await stage.credential()
    api, port = await stage.api("--no-worker")
    await stage.accept_each(bulk, transactional)
    workers = [await stage.working(**_machine(number, machines)) for number in range(2)]
    load = Load(port, credential)
    loading = asyncio.create_task(load.run())
    await until(lambda: stage.received().total() > (bulk + transactional) // 10, 60, "the first messages")
    await pair.wait_until_current()
    pair.replication.hold()
    before = stage.received().total()
    await asyncio.sleep(lost_seconds)
    workers[0].kill()
    await pair.fail_over()
    workers.append(stage.worker(**_machine(0, machines)))
    began, during = time.monotonic(), stage.received().total()
    await until(lambda: stage.received().total() > during + 2 * CONNECTIONS, 90, "the next messages")
    waited = time.monotonic() - began
    await asyncio.sleep(2)
    load.is_over = True
    await loading
    await stage.all_done(seconds=60)
    alive = [process.exit_code for process in (api, *workers[1:])]
    for worker in workers:
        worker.kill()

    rows, received = await standing(stage), stage.received()
    failover = await _failover(stage)
    gone = [key for key in received if key not in rows]
    accepted = [each for each in (*load.told.values(), *stage.accepted) if each not in rows]
    figures.note("sent while commits were lost", during - before)
    figures.note("marked as sent by the attempt files", failover.restored)
    figures.note("put in doubt by the comparison", failover.doubted)
    figures.expect("history that was compared", failover.history, "another one", when=failover.ended_at is not None)
    held = [each.detail.get("reason") for each in await list_entries(stage.database, tenant_id=None, limit=10)]
    figures.expect("reason of the hold", HoldReason.FAILED_OVER in held, "True", when=HoldReason.FAILED_OVER in held)
    figures.at_most("seconds until sending went on", round(waited, 1), MAX_SECONDS)
    unsent = [key for key, row in rows.items() if row.status == Status.SENT and not received[key]]
    figures.none("lost of what stayed committed", unsent)
    doubled = [key for key, times in received.items() if key in rows and times > 1 + rows[key].resends]
    figures.none("unreported duplicates", doubled)
    twice = [key for key, times in received.items() if key in rows and times > 1]
    figures.none("bulk duplicates", [key for key in twice if rows[key].is_bulk])
    figures.note("transactional duplicates, resent after a doubt", len(twice))
    figures.note("left in doubt", sum(row.status == Status.IN_DOUBT for row in rows.values()))
    figures.none("left open", [key for key, row in rows.items() if row.status in OPEN])
    figures.expect(
        "sent messages that the database lost", failover.lost, f"≥ {len(gone)}", when=failover.lost >= len(gone)
    )
    figures.expect(
        "accepted messages that it lost",
        failover.accepted_lost,
        f"{len(accepted)}",
        when=failover.accepted_lost == len(accepted),
    )
    figures.none("processes that did not survive", [str(code) for code in alive if code is not None])
    figures.expect("audit identity at the end", await stage.identity_holds(), "True", when=await stage.identity_holds())
    return figures


def _machine(number: int, machines: int) -> dict[str, str]:
    return {"MAILWRIGHT_STATE": f"state-{number % machines}"}


async def _failover(stage: Stage) -> Failover:
    async with stage.database.read() as tx:
        failover = await load_failover(tx)
    assert failover is not None, "the failover was not noticed"
    return failover
