"""The worker process: wire the parts together, run them side by side and stop them gracefully.

The life of a message in a worker:

1. claim: the feeder takes it from the outbox under a lease (`feeder.py`),
2. admit: the gate checks limits and reserves permits, or defers it (`gate.py`),
3. build: the builder validates, renders and signs it, one window ahead (`builder.py`),
4. begin: the sender chooses a provider with free capacity, and the commit records the attempt (`sender.py`),
5. send: the provider receives it and responds,
6. settle: the next commit records the result and begins the next attempts (`settler.py`).

Only messages whose attempt is recorded are sent, so a crash leaves at most the messages on a connection in doubt. In
every queue, transactional messages come first. Two more tasks run beside these: maintenance renews leases and recovers
the work of lost workers (`maintenance.py`), and the source duties turn campaigns into messages (`source_duties.py`).
"""

import asyncio
import contextlib
from collections.abc import Sequence

from mailwright.domain.errors import NotDurable
from mailwright.ops import metrics
from mailwright.ops.periodic import run_periodically
from mailwright.outbox.workers import WorkerPresence
from mailwright.worker.builder import Builder
from mailwright.worker.feeder import Feeder
from mailwright.worker.parts import WorkerParts, WorkerSettings
from mailwright.worker.presence import provider_presence
from mailwright.worker.queues import Queues
from mailwright.worker.sender import Sender
from mailwright.worker.settler import ResultSettler

# How long a worker that ends waits for its maintenance and its source duties.
SECONDS_TO_FINISH = 1.0


class Worker:
    def __init__(self, parts: WorkerParts, settings: WorkerSettings) -> None:
        self.parts = parts
        self.settings = settings
        self.queues = Queues(parts.pacing)
        self._settler = ResultSettler(parts, self.queues, logs_sent=settings.logs_sent)
        self._feeder = Feeder(parts, settings, self.queues, self._settler)
        self._builder = Builder(parts, settings.window, self.queues, self._settler)
        self._sender = Sender(parts, settings, self.queues, self._settler)
        self._reported_rate = 0
        self._is_done = asyncio.Event()  # Set when nothing is left to send.

    async def run(self, *, drain: bool = False) -> None:
        """Work until `stop` is called; with `drain`, until nothing is due."""
        self.queues.is_draining = drain
        try:
            async with asyncio.TaskGroup() as tasks:
                # If this task fails, the worker ends, because without renewed leases other workers would claim the
                # messages that it is sending.
                maintenance = tasks.create_task(self._maintain(), name="maintenance")
                duties = tasks.create_task(self._run_source_duties(), name="source duties")
                async with asyncio.TaskGroup() as work:
                    work.create_task(self._feeder.run(), name="feeder")
                    work.create_task(self._builder.run(), name="builder")
                    work.create_task(self._sender.run(), name="sender")
                # A cancelled query costs its connection, so both finish what they are doing unless it takes long.
                self._is_done.set()
                await asyncio.wait([maintenance, duties], timeout=SECONDS_TO_FINISH)
                maintenance.cancel()
                duties.cancel()
        finally:
            await self._sender.abandon()
            metrics.SEND_RATE.dec(self._reported_rate)
            with contextlib.suppress(NotDurable):
                await self.parts.maintenance.sign_off(self._presence())

    def stop(self) -> None:
        """Stop claiming, release messages whose attempt has not begun, and let sends in flight finish."""
        self.queues.is_stopping = True
        self.queues.wake_all()
        self.parts.wake.set()

    async def _maintain(self) -> None:
        # The feeder and the sender already log that the database is unavailable.
        async def maintain() -> None:
            # Update metrics before the tick, so that they never lag behind the provider state in the database.
            self._update_metrics()
            tidies = self.settings.runs_source_duties
            await self.parts.maintenance.tick(self.queues.leased, self._presence(), tidies=tidies)

        seconds = self.settings.maintenance_seconds
        await run_periodically("maintenance", maintain, seconds=seconds, logs_expected=False, stop=self._is_done)

    async def _run_source_duties(self) -> None:
        """Run source duties apart from maintenance, because enqueueing a large audience would delay lease renewal."""

        async def run_duties() -> float | None:
            if self.queues.is_stopping or not self.settings.runs_source_duties:
                return None
            if not await self.parts.source_duties.run_once():
                return None
            self.parts.wake.set()
            return 0.0

        seconds = self.settings.source_duty_seconds
        await run_periodically("source_duties", run_duties, seconds=seconds, logs_expected=False, stop=self._is_done)

    def _presence(self) -> list[WorkerPresence]:
        now, sent, route = self.parts.clock.now(), self._settler.sent_by_provider, self.parts.route
        return [
            provider_presence(
                member,
                self.queues.unanswered_since(member.name),
                sent=sent[member.name],
                now=now,
                learned_rate=route.learned_rate(member.name),
            )
            for member in route.members
        ]

    def _update_metrics(self) -> None:
        rate = self._settler.settled_per_second()
        metrics.SEND_RATE.inc(rate - self._reported_rate)  # The workers of a process share this figure.
        self._reported_rate = rate
        for member in self.parts.route.members:
            metrics.CIRCUIT_STATE.labels(member.name).set(member.breaker.state.value)


class WorkerGroup:
    """The workers of one process, one for each provider that tenants use, so that none of them delays another."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = workers

    async def run(self, *, drain: bool = False) -> None:
        async with asyncio.TaskGroup() as running:
            for worker in self.workers:
                running.create_task(worker.run(drain=drain))

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
