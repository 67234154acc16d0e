"""The worker under failures: no message is lost, and none is sent twice without need."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import insert, select

from mailwright.domain.clock import SECOND
from mailwright.domain.errors import NotDurable
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.domain.states import EventType, Status
from mailwright.outbox.audit import audit
from mailwright.outbox.message_records import dead_letters
from mailwright.outbox.operations import Operations
from mailwright.outbox.workers import list_present
from mailwright.pipeline.conclude import fail_poisoned, is_poison
from mailwright.providers.callbacks import run_with_callback
from mailwright.providers.protocol import ResultCallback, SendHandle
from mailwright.storage.database import Database
from mailwright.storage.tables import counters
from mailwright.worker import worker as worker_module
from mailwright.worker.queues import Backoff
from mailwright.worker.worker import Worker
from tests.builders import (
    DEFAULT_TENANT,
    FAULT,
    LOCK_TTL,
    MISCONFIGURED,
    SENT,
    Bench,
    a_message,
    a_newsletter,
    a_result,
    a_settler,
    a_tenant,
    attempt_steps,
    claims_of,
    deliveries_of,
    status_of,
    steps,
    suppress,
    the_event,
)
from tests.standins.provider import ScriptedProvider

E = EventType


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once when the database is unavailable."""

    async def at_once(_backoff: Backoff, _error: NotDurable) -> None:
        await asyncio.sleep(0.001)

    monkeypatch.setattr(Backoff, "wait", at_once)


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """Run a worker during the test and stop it at the end."""
    task = asyncio.create_task(worker.run())
    try:
        yield task
    finally:
        worker.stop()
        async with asyncio.timeout(60):
            await task


async def until(is_so: Callable[[], Any]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(60):
        while not (found := is_so()) or (asyncio.iscoroutine(found) and not await found):
            await asyncio.sleep(0.01)


class Outage:
    """Make the database unavailable, or let it commit but lose some of its responses."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_on = False
        self.loses_answers = False
        self.refused = 0
        self._answers = 0
        for name in ("write", "read"):
            monkeypatch.setattr(database, name, self._guarded(getattr(database, name)))
        monkeypatch.setattr(database, "transact", self._guarded_work(database.transact))

    def _guarded(self, opened: Callable[..., Any]) -> Callable[..., Any]:
        @asynccontextmanager
        async def guarded(**options: Any) -> AsyncIterator[Any]:
            self._check()
            async with opened(**options) as tx:
                yield tx

        return guarded

    def _guarded_work(self, transact: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def guarded(work: Any) -> Any:
            self._check()
            result = await transact(work)
            self._check_answer()
            return result

        return guarded

    def _check(self) -> None:
        if self.is_on and not self.loses_answers:
            self.refused += 1
            raise NotDurable

    def _check_answer(self) -> None:
        self._answers += 1
        if self.is_on and self.loses_answers and self._answers % 5 == 0:
            self.refused += 1
            raise NotDurable


# Normal operation.


async def test_draining_worker_leaves_nothing_due(bench: Bench) -> None:
    other = await a_tenant(bench.database, "other")
    await bench.accept(*(a_message() for _ in range(150)), *(a_newsletter(tenant_id=other) for _ in range(150)))
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert await bench.statuses() == {Status.SENT: 300}
    assert len(set(provider.outbox_ids)) == len(provider.messages) == 300
    assert provider.most_under_way <= 64
    assert await list_present(bench.database, bench.clock.now()) == []


@pytest.mark.promise("never-doubled")
async def test_two_workers_send_each_message_once(bench: Bench) -> None:
    await bench.accept(*(a_message() for _ in range(300)))
    provider = ScriptedProvider()
    workers = [await bench.worker(provider, name, window=8) for name in ("a", "b")]
    await asyncio.gather(*(worker.run(drain=True) for worker in workers))
    assert await bench.statuses() == {Status.SENT: 300}
    assert len(provider.messages) == 300


async def test_tenant_never_exceeds_its_concurrency_limit(bench: Bench) -> None:
    limited = await a_tenant(bench.database, "limited", max_in_flight=3)
    await bench.accept(*(a_message(tenant_id=limited) for _ in range(20)))
    provider = ScriptedProvider()
    for _ in range(30):
        workers = [await bench.worker(provider, name) for name in ("a", "b")]
        await asyncio.gather(*(worker.run(drain=True) for worker in workers))
        if len(provider.messages) == 20:
            break
        bench.clock.advance(SECOND)
    assert await bench.statuses() == {Status.SENT: 20}
    assert provider.most_under_way <= 3


async def test_raising_provider_leaves_one_message_in_doubt(bench: Bench) -> None:
    bad, *good = await bench.accept(a_newsletter(), *(a_newsletter() for _ in range(5)))

    def answer(message: OutgoingMessage) -> SendResult:
        if message.outbox_id == bad:
            raise RuntimeError("never promised")
        return SENT

    await bench.drain(ScriptedProvider(*[answer] * 6))
    record = await bench.record(bad)
    assert steps(record) == attempt_steps(E.IN_DOUBT)
    assert the_event(record, E.IN_DOUBT).metadata["errorCode"] == "PROVIDER_RAISED"
    assert [await status_of(bench.database, outbox_id) for outbox_id in good] == [Status.SENT] * 5


class RaisingCarrier(ScriptedProvider):
    """A callback provider that raises."""

    def send_with_callback(self, message: OutgoingMessage, answered: ResultCallback) -> SendHandle:
        if not self.messages:
            self.messages.append(message)
            raise RuntimeError("never promised")
        return run_with_callback(self.send(message), answered)


async def test_raising_callback_provider_leaves_one_message_in_doubt(bench: Bench) -> None:
    await bench.accept(*(a_newsletter() for _ in range(6)))
    provider = RaisingCarrier()
    await bench.drain(provider)
    assert await bench.statuses() == {Status.IN_DOUBT: 1, Status.SENT: 5}
    record = await bench.record(provider.messages[0].outbox_id)
    assert the_event(record, E.IN_DOUBT).metadata["errorCode"] == "PROVIDER_RAISED"


@pytest.mark.promise("outage-recovery")
async def test_open_circuit_breaker_stops_claiming(bench: Bench) -> None:
    await bench.accept(*(a_message() for _ in range(20)))
    provider = ScriptedProvider(*[MISCONFIGURED] * 20)
    worker = await bench.worker(provider, window=4)
    await worker.run(drain=True)
    assert len(provider.messages) == 4
    assert sorted(row.attempts for row in await deliveries_of(bench.database)) == [0] * 16 + [1] * 4
    assert [row.locked_by for row in await deliveries_of(bench.database)] == [None] * 20


@pytest.mark.promise("outage-recovery")
async def test_recovered_messages_wait_for_the_circuit_breaker(bench: Bench) -> None:
    await bench.accept(*(a_message() for _ in range(3)))
    await claims_of(bench.database, bench.clock, "dead").claim(2)
    provider = ScriptedProvider(*[MISCONFIGURED] * 3)
    bench.clock.advance(LOCK_TTL)
    async with asyncio.timeout(60):
        await bench.drain(provider, window=1)
    assert len(provider.messages) == 1


# Stopping and crashing.


@pytest.mark.promise("drain-graceful")
async def test_stopped_worker_finishes_sends_and_gives_back_the_rest(bench: Bench) -> None:
    await bench.accept(*(a_message() for _ in range(100)))
    provider = ScriptedProvider()
    provider.hold()
    worker = await bench.worker(provider, window=5)
    async with running(worker):
        await provider.has(5)
        worker.stop()
        provider.let_go()
    assert len(provider.messages) == 5
    assert await bench.statuses() == {Status.SENT: 5, Status.PENDING: 95}
    rows = await deliveries_of(bench.database)
    assert {(row.locked_by, row.claims, row.claim_token) for row in rows} == {(None, 0, None)}
    assert (await audit(bench.database)).in_doubt == 0
    await bench.drain(provider)
    assert len(provider.messages) == 100


@pytest.mark.promise("drain-graceful")
async def test_stopped_worker_claims_nothing(bench: Bench) -> None:
    provider = ScriptedProvider()
    worker = await bench.worker(provider)
    async with running(worker) as task:
        await bench.accept(a_message())
        await provider.has(1)
        worker.stop()
        async with asyncio.timeout(60):
            await task
    await bench.accept(a_message())
    assert len(provider.messages) == 1
    assert await bench.statuses() == {Status.SENT: 1, Status.PENDING: 1}


@pytest.mark.promise("drain-graceful")
async def test_hanging_provider_leaves_a_message_in_doubt_after_grace(bench: Bench) -> None:
    (hanging,) = await bench.accept(a_newsletter())
    provider = ScriptedProvider()
    provider.hold()
    worker = await bench.worker(provider, shutdown_grace=20)
    async with running(worker):
        await provider.has(1)
    assert await status_of(bench.database, hanging) == Status.SENT_ATTEMPT
    bench.clock.advance(LOCK_TTL)
    await bench.drain(provider)
    assert await status_of(bench.database, hanging) == Status.IN_DOUBT
    assert len(provider.messages) == 1


@pytest.mark.promise("never-lost")
async def test_expired_lease_lets_another_worker_send(bench: Bench) -> None:
    await bench.accept(*(a_message() for _ in range(10)))
    await claims_of(bench.database, bench.clock, "dead").claim(10)
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.messages == []
    bench.clock.advance(LOCK_TTL)
    await bench.drain(provider)
    assert await bench.statuses() == {Status.SENT: 10}
    assert len(provider.messages) == 10


async def test_slow_send_keeps_its_lease(bench: Bench) -> None:
    """An SMTP server may take ten minutes to confirm a message; no other worker may take it over."""
    ids = await bench.accept(*(a_message() for _ in range(3)))
    provider, other = ScriptedProvider(), ScriptedProvider()
    provider.hold()
    slow = await bench.worker(provider, "slow", window=2)
    async with running(slow):
        await provider.has(2)
        await until(lambda: slow.queues.ready)  # The worker holds the third one too.
        for _ in range(6):
            before = bench.clock.advance(LOCK_TTL // 3)

            async def is_renewed(since: int = before) -> bool:
                return all(row.claimable_at >= since + LOCK_TTL for row in await deliveries_of(bench.database))

            await until(is_renewed)
            await bench.drain(other)
        assert other.messages == []
        provider.let_go()
        await provider.has(3)
    assert [await status_of(bench.database, outbox_id) for outbox_id in ids] == [Status.SENT] * 3
    assert (await audit(bench.database)).resent_in_doubt == 0


# Database outages.


async def test_results_are_written_when_the_database_returns(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.accept(*(a_message() for _ in range(30)))
    outage = Outage(bench.database, monkeypatch)
    provider = ScriptedProvider()
    provider.hold()
    async with running(await bench.worker(provider, window=10)):
        await provider.has(10)
        outage.is_on = True
        provider.let_go()
        await until(lambda: outage.refused > 20)
        outage.is_on = False
        await provider.has(30)
    assert await bench.statuses() == {Status.SENT: 30}
    assert len(provider.messages) == 30


async def test_lost_commit_responses_cause_no_duplicates(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = await bench.accept(*(a_message() for _ in range(40)))
    outage = Outage(bench.database, monkeypatch)
    provider = ScriptedProvider(*[FAULT] * 5)
    for turn in range(12):  # A claim whose response was lost is free when its lease ends.
        # Few enough that no message loses five claims and counts as poison.
        outage.is_on = outage.loses_answers = turn < 4
        await bench.drain(provider, window=2)
        bench.clock.advance(LOCK_TTL)
    assert outage.refused >= 3
    assert await bench.statuses() == {Status.SENT: 40}
    assert len(provider.messages) == 45
    assert sum(row.attempts for row in await deliveries_of(bench.database)) == 45
    for outbox_id in ids:
        record = await bench.record(outbox_id)
        assert len(record.events) == 4 * record.summary.attempts


async def test_outage_longer_than_the_lease_causes_no_doubt(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.accept(*(a_message() for _ in range(12)))
    outage = Outage(bench.database, monkeypatch)
    provider = ScriptedProvider()
    provider.hold()
    async with running(await bench.worker(provider, window=4)):
        await provider.has(4)
        outage.is_on = True
        bench.clock.advance(2 * LOCK_TTL)
        await until(lambda: outage.refused > 20)
        outage.is_on = False
        await until(lambda: _locks_hold(bench))
        provider.let_go()
        await provider.has(12)
    assert await bench.statuses() == {Status.SENT: 12}
    assert len(provider.messages) == 12
    assert (await audit(bench.database)).resent_in_doubt == 0


async def test_unwritten_result_keeps_its_lease(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.accept(*(a_message() for _ in range(3)))
    provider = ScriptedProvider()
    worker = await bench.worker(provider)
    settling = worker.parts.settling
    exchange, is_broken = settling.exchange, False

    async def breaks(outcomes: Any, next_up: Any) -> Any:
        if is_broken:
            raise NotDurable
        return await exchange(outcomes, next_up)

    monkeypatch.setattr(settling, "exchange", breaks)
    provider.hold()
    async with running(worker):
        await provider.has(3)
        is_broken = True
        provider.let_go()
        await until(lambda: not provider.under_way)
        for _ in range(6):
            bench.clock.advance(LOCK_TTL // 3)
            await until(lambda: _locks_hold(bench, LOCK_TTL))
        is_broken = False
        await until(lambda: _is_held(bench, 0))
    assert await bench.statuses() == {Status.SENT: 3}
    assert len(provider.messages) == 3


async def _locks_hold(bench: Bench, for_at_least: int = 1) -> bool:
    ends = [row.claimable_at for row in await deliveries_of(bench.database) if row.status == Status.SENT_ATTEMPT]
    return bool(ends) and min(ends) >= bench.clock.now() + for_at_least


async def test_failed_maintenance_is_retried(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await bench.worker(ScriptedProvider())
    rounds = 0

    async def breaks(*_arguments: object, **_options: object) -> None:
        nonlocal rounds
        rounds += 1
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(worker.parts.maintenance, "tick", breaks)
    async with running(worker):
        await until(lambda: rounds > 3)


async def test_one_worker_of_a_process_deletes_old_data(bench: Bench) -> None:
    async with bench.database.write() as tx:
        await tx.execute(insert(counters).values(name="old", used=1, expires_at=bench.clock.now()))

    async def is_kept() -> bool:
        async with bench.database.read() as tx:
            return bool(await tx.execute(select(counters.c.name).where(counters.c.name == "old")))

    await bench.drain(ScriptedProvider(), runs_source_duties=False)
    assert await is_kept()
    await bench.drain(ScriptedProvider(), runs_source_duties=True)
    assert not await is_kept()


@pytest.mark.parametrize("seconds", [60.0, 0.0])
async def test_ending_worker_lets_its_maintenance_finish(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The maintenance is in the middle of its work when nothing is left to send. Without patience, it is cancelled."""
    worker = await bench.worker(ScriptedProvider())
    ends: list[str] = []

    def is_sending() -> bool:
        return not {task.get_name() for task in asyncio.all_tasks()}.isdisjoint({"feeder", "builder", "sender"})

    async def outlast_the_work(*_arguments: object, **_options: object) -> None:
        try:
            while not is_sending():
                await asyncio.sleep(0)
            while is_sending():
                await asyncio.sleep(0)
            await (asyncio.sleep(0) if seconds else asyncio.Event().wait())
            ends.append("finished")
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    monkeypatch.setattr(worker.parts.maintenance, "tick", outlast_the_work)
    monkeypatch.setattr(worker_module, "SECONDS_TO_FINISH", seconds)
    await worker.run(drain=True)
    assert ends == ["finished" if seconds else "cancelled"]


# Between the claim and the attempt.


@pytest.mark.promise("suppression-wins")
async def test_unsubscribe_after_the_claim_prevents_the_send(bench: Bench) -> None:
    (outbox_id,) = await bench.accept(a_message(to="left@example.com"))
    held = await claims_of(bench.database, bench.clock).claim(1)
    await suppress(bench.database, "left@example.com")
    assert (await a_settler(bench.database, bench.clock).exchange([], held)).message_keys == frozenset()
    await claims_of(bench.database, bench.clock).release(held)
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.messages == []
    assert (await bench.record(outbox_id)).summary.error_code == "RECIPIENT_SUPPRESSED"


@pytest.mark.promise("suppression-wins")
async def test_unsubscribe_while_queued_in_a_worker_prevents_the_send(bench: Bench) -> None:
    (first,) = await bench.accept(a_message())
    provider = ScriptedProvider()
    provider.hold()
    async with running(await bench.worker(provider, window=1)):
        await provider.has(1)
        (second,) = await bench.accept(a_message(to="left@example.com"))
        await until(lambda: _is_held(bench, 2))
        await suppress(bench.database, "left@example.com")
        provider.let_go()
        await until(lambda: _has_failed(bench, second))
    assert provider.outbox_ids == [first]
    assert (await bench.record(second)).summary.error_code == "RECIPIENT_SUPPRESSED"


@pytest.mark.promise("cancel-wins")
async def test_cancelled_message_held_by_a_worker_is_not_sent(bench: Bench) -> None:
    (first,) = await bench.accept(a_message())
    provider = ScriptedProvider()
    provider.hold()
    async with running(await bench.worker(provider, window=1)):
        await provider.has(1)
        (second,) = await bench.accept(a_message())
        await until(lambda: _is_held(bench, 2))
        await Operations(bench.database, bench.clock).cancel(second, tenant_id=DEFAULT_TENANT)
        provider.let_go()
    await bench.drain(provider)
    assert provider.outbox_ids == [first]
    assert await status_of(bench.database, second) == Status.CANCELLED


async def _is_held(bench: Bench, count: int) -> bool:
    return sum(row.locked_by is not None for row in await deliveries_of(bench.database)) == count


async def _has_failed(bench: Bench, outbox_id: str) -> bool:
    return await status_of(bench.database, outbox_id) == Status.FAILED


# Poison messages.


@pytest.mark.promise("poison-isolated")
async def test_poison_message_does_not_affect_others(bench: Bench) -> None:
    """A worker with the poison message crashes before any attempt; the next one finds everything it claimed."""
    ids = await bench.accept(*(a_message() for _ in range(60)))
    killer, settling, deaths = ids[30], a_settler(bench.database, bench.clock), 0
    while True:
        mortal = claims_of(bench.database, bench.clock, f"mortal-{deaths}")
        batch = await mortal.claim_suspects(500) or await mortal.claim(500)
        if not batch:
            break
        if any(claimed.outbox_id == killer and not is_poison(claimed) for claimed in batch):
            deaths += 1
            bench.clock.advance(LOCK_TTL)
            continue
        now = bench.clock.now()
        await settling.exchange([], [claimed for claimed in batch if not is_poison(claimed)])
        await settling.exchange(
            [fail_poisoned(claimed, now) if is_poison(claimed) else a_result(claimed, SENT, now) for claimed in batch],
            [],
        )
    assert deaths == 5
    assert await bench.statuses() == {Status.SENT: 59, Status.FAILED: 1}
    assert (await bench.record(killer)).summary.error_code == "POISON_MESSAGE"


@pytest.mark.promise("poison-isolated")
@pytest.mark.promise("dead-letter")
async def test_five_claims_without_result_make_a_dead_letter(bench: Bench) -> None:
    (killer,) = await bench.accept(a_message())
    for claim in range(5):
        mortal = claims_of(bench.database, bench.clock, f"mortal-{claim}")
        assert len(await mortal.claim_suspects(1) or await mortal.claim(1)) == 1
        bench.clock.advance(LOCK_TTL)
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.messages == []
    record = await bench.record(killer)
    assert steps(record) == [E.FAILED]
    assert (record.summary.status, record.summary.error_code, record.summary.attempts) == (
        Status.FAILED,
        "POISON_MESSAGE",
        0,
    )
    (dead_letter,) = await dead_letters(bench.database, DEFAULT_TENANT, limit=10)
    assert (dead_letter.outbox_id, dead_letter.code) == (killer, "POISON_MESSAGE")


@pytest.mark.promise("poison-isolated")
async def test_four_claims_without_result_are_tolerated(bench: Bench) -> None:
    (unlucky,) = await bench.accept(a_message())
    for claim in range(4):
        mortal = claims_of(bench.database, bench.clock, f"mortal-{claim}")
        await mortal.claim_suspects(1) or await mortal.claim(1)
        bench.clock.advance(LOCK_TTL)
    await bench.drain(ScriptedProvider())
    assert await status_of(bench.database, unlucky) == Status.SENT
