"""The queue as polls see it: states that change only with real events, campaigns in order, and true expected starts."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import pytest
from sqlalchemy import update

from mailwright.domain.clock import MINUTE, SECOND, Instant, ManualClock
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.outbox.absence import WorkerAbsence
from mailwright.outbox.audit import audit
from mailwright.outbox.installation_values import store_value
from mailwright.outbox.workers import list_present
from mailwright.sources.campaigns import progress, queue_progress
from mailwright.sources.campaigns.forecast import Forecast, forecast
from mailwright.sources.campaigns.queue_progress import QueueProgress
from mailwright.storage.tables import queue_entries
from mailwright.worker.pacing import Pacing, Timer
from mailwright.worker.worker import Worker
from tests.builders import DEFAULT_TENANT, Bench, a_bench, change_tenant
from tests.campaigns import OPERATOR, CampaignHarness, address_of, join
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider

# The test wakes the feeders and runs the source duties, so that a step costs little.
RUNNING = {"poll_seconds": 1.0, "maintenance_seconds": 0.1, "runs_source_duties": False}
STEP: Instant = 25  # Shorter than the time by which a send may be late.
# Until a worker is killed. Between two messages, it holds one that it has not begun for a short time only.
SHORT_STEP: Instant = 5
# After this time without a message, the workers wait for the lease of the killed one.
QUIET: Instant = 150
IDLE_STEP: Instant = 5 * SECOND
# Each campaign starts and ends. The second one waits for the hourly limit, and the third one also for the daily one.
REAL_EVENTS = {"First": 2, "Second": 3, "Third": 4}


@pytest.fixture
async def desk(engine: DatabaseAddress) -> AsyncIterator[CampaignHarness]:
    async with a_bench(engine.url, ManualClock()) as bench:
        yield CampaignHarness(bench)
        assert (await audit(bench.database)).ok


class Timed(ScriptedProvider):
    """Record when the messages of each campaign are sent."""

    def __init__(self, clock: ManualClock, names: Sequence[str]) -> None:
        super().__init__()
        self._clock = clock
        self.sent_at: dict[str, list[Instant]] = {name: [] for name in names}
        self.order: list[str] = []

    async def send(self, message: OutgoingMessage) -> SendResult:
        [name] = [name for name in self.sent_at if f"Subject: {name}".encode() in message.content]
        self.sent_at[name].append(self._clock.now())
        self.order.append(name)
        return await super().send(message)


@dataclass
class Polls:
    """What the polls saw: the states of each campaign, the active campaign, and the expected starts of the next."""

    desk: CampaignHarness
    names: Sequence[str]
    states: dict[str, list[tuple[str, str | None]]] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)
    expected: list[tuple[Instant, set[str], Instant | None]] = field(default_factory=list)
    next_run_at: Instant | None = None
    count: int = 0

    async def poll(self) -> str | None:
        """Poll once, and return the reason if nothing is being sent."""
        found, now = await self.desk.progress(), self.desk.clock.now()
        async with self.desk.database.read() as tx:
            queue = await progress.list_positions(tx, tenant_id=DEFAULT_TENANT)
        for position in queue:
            self.states.setdefault(position.name, []).append((position.status.value, position.defer_reason))
        if found.active is not None:
            self.active.append(found.active.name)
        self.expected.append((now, self._waiting(found), found.next_campaign_at))
        self.next_run_at = found.next_run_at
        self.count += 1
        return None if found.active is None else found.reason

    def _waiting(self, found: QueueProgress) -> set[str]:
        """Return the campaigns that wait according to this poll: the last ones, because the first ones end first."""
        others = [name for name in self.names if found.active is None or name != found.active.name]
        return set(others[len(others) - found.queued :])

    async def poll_often(self, times: int) -> None:
        for _ in range(times):
            await self.poll()

    def changes(self, name: str) -> list[tuple[str, str | None]]:
        return [state for state, _ in groupby(self.states[name])]


class SteppedTimer(Timer):
    """Timers by the clock of the test. The ones that have become due are fired when the clock was advanced."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._waiting: list[tuple[float, Callable[[], None]]] = []

    def seconds(self) -> float:
        return self._clock.now() / SECOND

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        if seconds > 0:
            self._waiting.append((self.seconds() + seconds, action))
        else:
            asyncio.get_running_loop().call_later(0.001, action)

    def fire(self) -> None:
        due = [action for at, action in self._waiting if at <= self.seconds()]
        self._waiting = [(at, action) for at, action in self._waiting if at > self.seconds()]
        for action in due:
            action()

    def __len__(self) -> int:
        return len(self._waiting)


@dataclass
class Rounds:
    """Count the rounds in which a worker found nothing to do at the current time."""

    timer: SteppedTimer
    worker: Worker | None = None
    claims: int = 0

    def is_settled(self) -> bool:
        """Return whether the worker has claimed nothing since the count began."""
        return self.is_waiting() and self.claims >= 2

    def count_claim(self) -> None:
        self.claims = self.claims + 1 if self.is_waiting() else 0

    def is_waiting(self) -> bool:
        """Return whether the messages that the worker holds only wait for their send time."""
        assert self.worker is not None
        held, pacing = self.worker.queues, self.worker.queues.pacing
        others = held.ready or held.resends or held.admitted or held.building or held.committing
        written = held.outcomes or held.releases or held.deferrals
        return not (others or written or pacing.has_work()) and len(held.in_flight) <= len(self.timer)


class CountedAbsence(WorkerAbsence):
    """Count the rounds of the feeder, which records before each claim that the worker runs."""

    def __init__(self, bench: Bench, rounds: Rounds) -> None:
        super().__init__(bench.database, bench.clock)
        self._rounds = rounds

    async def record(self) -> None:
        self._rounds.count_claim()
        await super().record()


async def vanish(_presence: object) -> None:
    """Leave the worker in the list of active workers: a killed process cannot sign off."""


class SteppedWorkers:
    """Workers whose time passes only between steps, when they have done everything that is due.

    A busy machine makes the steps longer, and does not change what the workers do.
    """

    def __init__(self, bench: Bench, provider: ScriptedProvider) -> None:
        self._bench = bench
        self._provider = provider
        self._rounds: list[Rounds] = []
        self._runs: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def running(self, *names: str) -> AsyncIterator[None]:
        for name in names:
            self._runs.append(asyncio.create_task((await self._worker(name)).run()))
        try:
            await self.settle()
            yield
        finally:
            for worker in self._workers:
                worker.stop()
            await asyncio.gather(*self._runs)

    async def kill_one(self, monkeypatch: pytest.MonkeyPatch) -> int:
        """End a worker that holds messages, none of them begun, as a killed process ends. Return how many it held."""
        for rounds, run in zip(self._rounds, self._runs, strict=True):
            assert rounds.worker is not None
            held = rounds.worker.queues
            if (leased := len(held.leased())) and not held.in_flight:
                monkeypatch.setattr(rounds.worker.parts.maintenance, "sign_off", vanish)
                self._rounds.remove(rounds)
                self._runs.remove(run)
                run.cancel()
                await asyncio.wait([run])
                return leased
        return 0

    async def _worker(self, name: str) -> Worker:
        plain, timer = await self._bench.worker(self._provider, name, **RUNNING), SteppedTimer(self._bench.clock)
        rounds = Rounds(timer)
        parts = replace(
            plain.parts,
            absence=CountedAbsence(self._bench, rounds),
            pacing=Pacing(self._bench.clock, self._bench.engine.ledger, timer),
        )
        rounds.worker = Worker(parts, plain.settings)
        self._rounds.append(rounds)
        return rounds.worker

    async def advance(self, duration: Instant) -> None:
        self._bench.clock.advance(duration)
        for rounds in self._rounds:
            rounds.timer.fire()
        await self.settle()

    def are_idle(self) -> bool:
        return all(worker.queues.is_idle() for worker in self._workers)

    @property
    def _workers(self) -> list[Worker]:
        return [rounds.worker for rounds in self._rounds if rounds.worker is not None]

    async def settle(self) -> None:
        """Wait until the workers have reported at this time and found nothing more to do."""
        database, clock = self._bench.database, self._bench.clock
        while len(await list_present(database, clock.now())) < len(self._rounds):
            await asyncio.sleep(0.01)
        did_work = True
        while did_work:
            await self._wait_for_claims()
            did_work = any([await worker.parts.source_duties.run_once() for worker in self._workers])

    async def _wait_for_claims(self) -> None:
        for rounds in self._rounds:
            rounds.claims = 0
        while waiting := [rounds for rounds in self._rounds if not rounds.is_settled()]:
            before = [rounds.claims for rounds in waiting]
            self._bench.engine.wake.set()
            while before == [rounds.claims for rounds in waiting] and not all(each.is_settled() for each in waiting):
                await asyncio.sleep(0.005)


# The interval is longer than the time by which an attempt begins before its send time.
LIMITS = {"rate_per_second": 10, "rate_per_hour": 12, "daily_limit": 30}


@pytest.mark.timeout(900)  # every step waits for three workers, also on a busy machine
@pytest.mark.parametrize("owner", ["installation", "tenant"])
async def test_three_limited_campaigns_leave_in_order_and_in_stable_states(
    engine: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    """Limits per second, hour and day. One of three workers is killed, and its messages follow after its lease."""
    names = ("First", "Second", "Third")
    async with a_bench(engine.url, ManualClock(), **LIMITS if owner == "installation" else {}) as bench:
        desk = CampaignHarness(bench)
        if owner == "tenant":
            await change_tenant(desk.database, **LIMITS)
        await join(desk.database, [address_of(number) for number in range(12)])
        for name in names:
            content = {"subject": name, "body": "<p>{{ unsubscribe_url }}</p>"}
            await desk.start(name=name, content=content)
        await desk.run_scheduler()
        async with desk.database.write() as tx:  # a rate that was measured before, because the clock jumps below
            await store_value(tx, "best_sending_rate", f'{{"perSecond": 50, "at": {desk.clock.now()}}}')
        provider, polls = Timed(desk.clock, names), Polls(desk, names)
        workers, quiet, killed = SteppedWorkers(desk.bench, provider), 0, 0
        async with workers.running("a", "b", "c"):
            while await desk.status_of_all() != {"SENT"}:
                sent, reason = len(provider.messages), await polls.poll()
                killed = killed or (await workers.kill_one(monkeypatch) if sent else 0)
                if workers.are_idle() and reason in ("rate_per_hour", "daily_limit") and polls.next_run_at is not None:
                    await workers.advance(polls.next_run_at - desk.clock.now())
                elif quiet >= QUIET:
                    await workers.advance(IDLE_STEP)
                else:  # These polls see the queue while the workers change it.
                    step = STEP if killed else SHORT_STEP
                    await asyncio.gather(workers.advance(step), polls.poll_often(5))
                quiet = quiet + step if len(provider.messages) == sent else 0
        assert killed > 0
        assert polls.count >= 200
        assert [name for name, _ in groupby(provider.order)] == list(names)
        assert {name: len(times) for name, times in provider.sent_at.items()} == dict.fromkeys(names, 12)
        assert [name for name, _ in groupby(polls.active)] == list(names)
        for name in names:
            assert len(polls.changes(name)) <= 2 * REAL_EVENTS[name], polls.changes(name)
        for now, waiting, expected in polls.expected:
            if waiting:
                assert expected is not None, (now, waiting)
                begins = min(at for name in waiting for at in provider.sent_at[name] if at >= now - MINUTE)
                assert abs(expected - begins) <= MINUTE, (now, waiting, expected, begins)
        assert (await audit(bench.database)).ok


async def test_poll_agrees_with_itself_while_the_queue_changes(
    desk: CampaignHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The campaign that waits is cancelled after the poll has counted it."""
    await join(desk.database, ["ada@example.com"])
    await desk.start(name="First")
    waiting = await desk.start(name="Second")
    await desk.run_scheduler()

    async with desk.database.write() as tx:  # as after a change of the queue
        await tx.execute(update(queue_entries).values(expected_at=None))

    async def cancel_then_forecast(*args: Any, **options: Any) -> Forecast:
        await desk.campaigns.cancel(OPERATOR, waiting)
        return await forecast(*args, **options)

    async def leave_queue(*_args: Any) -> None:
        """Leave out the update before the poll, as if the queue changed right after it."""

    monkeypatch.setattr(queue_progress, "forecast", cancel_then_forecast)
    monkeypatch.setattr(queue_progress, "refresh_queue", leave_queue)
    found = await desk.progress()
    assert found.queued == 1
    assert found.next_campaign_at is not None
    assert found.next_campaign_at - desk.clock.now() < MINUTE
    assert (await desk.progress()).queued == 0
