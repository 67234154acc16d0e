"""The environment of a fault run: a database, a sink and real Mailwright processes."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import func, select

from mailwright.access.api_keys import ApiKeys
from mailwright.domain.clock import SystemClock
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import NewMessage
from mailwright.domain.states import OPEN
from mailwright.outbox.accept import Acceptor
from mailwright.outbox.audit import audit
from mailwright.outbox.sending_hold import find_hold
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries
from tests.builders import DEFAULT_TENANT, a_message, a_newsletter, ignore_wake
from tests.faults.processes import COLD_COMMAND, Process, TookTooLong, until
from tests.faults.sink import received
from tests.warm import warm_command

LOCK_TTL_SECONDS = 2
ACCEPT_AT_ONCE = 1_000
REPOSITORY = str(Path(__file__).parents[2])


class Stage:
    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.database = Database(url)
        self.accepted: dict[str, NewMessage] = {}
        self.smtp_url = ""
        self.settings: dict[str, str] = {}
        self.source: Path | None = None  # The modules of another release, for the processes that start next.
        self._book = folder / "received.txt"
        self._book.touch()
        self._acceptor = Acceptor(self.database, SystemClock(), ignore_wake)
        self._numbers = count(1)
        self._children: list[Process] = []

    # Processes.

    async def open_sink(self, latency_seconds: float = 0.0) -> None:
        port_file = self.folder / f"sink-{next(self._numbers)}.port"
        words = ["-m", "tests.faults.sink", str(self._book), str(port_file), "--latency", str(latency_seconds)]
        sink = self.start("sink", words)
        await until(lambda: port_file.exists() or sink.exit_code is not None, 20, "the sink")
        self.smtp_url = f"smtp://127.0.0.1:{port_file.read_text()}?tls=none&purpose=test"

    def worker(self, **settings: object) -> Process:
        return self.start("worker", ["worker"], **settings)

    async def working(self, **settings: object) -> Process:
        """Start a worker and wait until it works."""
        worker = self.worker(**settings)
        await worker.says("worker_started")
        return worker

    async def api(self, *options: str, **settings: object) -> tuple[Process, int]:
        """Start the API and return its port."""
        api = self.start("serve", ["serve", "--port", "0", *options], **settings)
        await api.says("api_started")
        line = next(line for line in api.said.splitlines() if "api_started" in line)
        return api, int(orjson.loads(line)["address"].rsplit(":", 1)[1])

    async def credential(self) -> str:
        """Create an API key."""
        return await ApiKeys(self.database, SystemClock()).create(DEFAULT_TENANT, "faults")

    async def command(self, *words: str) -> str:
        """Run a Mailwright command and return its output."""
        process = await asyncio.create_subprocess_exec(
            *(warm_command() if self.source is None else COLD_COMMAND),
            *words,
            env=self.environment(),
            cwd=self.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        assert process.returncode == 0, f"{words}: {process.returncode}: {output.decode()}{errors.decode()}"
        return output.decode()

    def start(self, name: str, arguments: list[str], **settings: object) -> Process:
        log = self.folder / f"{name}-{next(self._numbers)}.log"
        child = Process(arguments, self.environment(**settings), log, self.folder, is_warm=self.source is None)
        self._children.append(child)
        return child

    def environment(self, **settings: object) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("MAILWRIGHT_")}
        return {
            **ours,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(self.source or REPOSITORY), os.environ.get("PYTHONPATH")])),
            "MAILWRIGHT_DATABASE_URL": self.url,
            "MAILWRIGHT_PROVIDER": "smtp",
            "MAILWRIGHT_SMTP_URL": self.smtp_url or "smtp://127.0.0.1:1?tls=none&purpose=test",
            "MAILWRIGHT_FROM": "Shop <shop@example.com>",
            "MAILWRIGHT_LOCK_TTL_SECONDS": str(LOCK_TTL_SECONDS),
            "UNSUBSCRIBE_SECRET": "s" * 32,
            **self.settings,
            **{name: str(value) for name, value in settings.items()},
        }

    # Messages.

    async def accept(self, messages: int, *, bulk_share: float = 0.5) -> None:
        """Accept messages; half are newsletters, which are held when in doubt, the others are resent once."""
        bulk = int(messages * bulk_share)
        await self.accept_each(bulk, messages - bulk)

    async def accept_each(self, bulk: int, transactional: int) -> None:
        await self.accept_all([*(a_newsletter() for _ in range(bulk)), *(a_message() for _ in range(transactional))])

    async def accept_all(self, messages: list[NewMessage]) -> None:
        for start in range(0, len(messages), ACCEPT_AT_ONCE):
            await self._acceptor.accept(messages[start : start + ACCEPT_AT_ONCE])
        self.accepted |= {message.outbox_id: message for message in messages}

    def received(self) -> Counter[str]:
        return received(self._book)

    async def open_messages(self) -> int:
        """Count the messages that a worker still has to handle."""
        async with self.database.read() as tx:
            query = select(func.count()).select_from(deliveries).where(deliveries.c.status.in_(OPEN))
            return int((await tx.execute(query))[0][0])

    async def all_done(self, seconds: float) -> None:
        """Wait until nothing is open and every message in doubt has been decided once."""
        waited, fewest = 0.0, None
        while remaining := await self._remaining_patiently():
            if fewest is None or remaining < fewest:
                waited, fewest = 0.0, remaining  # It may take long as long as it makes progress.
            if waited > seconds:
                hold = await find_hold(self.database)
                raise TookTooLong(f"{remaining} messages did not move for {seconds:g} s; sending hold: {hold}")
            await asyncio.sleep(0.2)
            waited += 0.2

    async def _remaining_patiently(self) -> int:
        """Replace our own connections, which the fault may have broken."""
        for _ in range(10):
            with contextlib.suppress(NotDurable):
                return await self.remaining()
        return await self.remaining()

    async def remaining(self) -> int:
        """Count open messages and those in doubt that are about to be decided."""
        now = SystemClock().now()
        async with self.database.read() as tx:
            undecided = deliveries.c.status.in_(OPEN) | (
                (deliveries.c.status == "IN_DOUBT") & (deliveries.c.claimable_at <= now + 60_000)
            )
            return int((await tx.execute(select(func.count()).select_from(deliveries).where(undecided)))[0][0])

    async def audit(self) -> dict[str, Any]:
        """Run the audit command, as an operator would."""
        found: dict[str, Any] = orjson.loads(await self.command("audit", "--json"))
        return found

    async def identity_holds(self) -> bool:
        return (await audit(self.database)).ok

    async def close(self) -> None:
        for child in self._children:
            child.signal(signal.SIGCONT)
            child.kill()
        await self._acceptor.close()
        await self.database.close()


@contextlib.asynccontextmanager
async def a_stage(url: str) -> AsyncIterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="mwfault"))
    stage = Stage(url, folder)
    try:
        yield stage
    except BaseException:
        # Keep the logs of the processes for the analysis.
        await stage.close()
        raise
    else:
        await stage.close()
        shutil.rmtree(folder, ignore_errors=True)
