"""Messages of crashed workers, resends and probes delay no other message, even if one of them hangs."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import func, select, update

from mailwright.domain.clock import SECOND
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult, sent
from mailwright.providers.circuit_breaker import CircuitState
from mailwright.storage.tables import deliveries
from mailwright.worker import feeder
from tests.builders import FAULT, LOCK_TTL, Bench, a_message, a_newsletter, claims_of
from tests.contract.worker.test_worker import running, until
from tests.standins.provider import ScriptedProvider

DOWN = replace(FAULT, blames_provider=True)


class HangingProvider(ScriptedProvider):
    """The first message gets no response until `let_go`; all others get one at once."""

    def __init__(self, *answers: SendResult, capacity: int = 20) -> None:
        super().__init__(capacity=capacity)
        self._results = iter(answers)
        self.hold()

    async def send(self, message: OutgoingMessage) -> SendResult:
        if not self.messages:
            return await super().send(message)
        self.messages.append(message)
        await asyncio.sleep(0)
        return next(self._results, sent(self.name, f"<{len(self.messages)}@scripted>"))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeder, "SECONDS_TO_FINISH_OTHERS", 0.05)


async def become_suspect(bench: Bench) -> None:
    """Let the newest message look like one of a crashed worker."""
    newest = select(func.max(deliveries.c.message_key)).scalar_subquery()
    async with bench.database.write() as tx:
        await tx.execute(
            update(deliveries)
            .where(deliveries.c.message_key == newest)
            .values(locked_by="dead", claims=1, claim_token=77, claimable_at=1)
        )


async def become_resends(bench: Bench) -> None:
    async with bench.database.write() as tx:
        await tx.execute(update(deliveries).where(deliveries.c.locked_by.is_(None)).values(resends=1))


@pytest.mark.promise("never-lost")
@pytest.mark.parametrize("given_back", [0, 60])
async def test_all_messages_are_sent_while_suspects_are_isolated(bench: Bench, given_back: int) -> None:
    await bench.accept(*(a_message() for _ in range(100)))
    await claims_of(bench.database, bench.clock, "dead").claim(100)
    bench.clock.advance(LOCK_TTL)
    second = claims_of(bench.database, bench.clock, "second")
    if given_back:
        await second.release(await second.claim_suspects(given_back))
    provider = ScriptedProvider(capacity=1)
    provider.hold()
    worker = await bench.worker(provider)
    async with running(worker):
        await provider.has(1)
        await bench.accept(*(a_message() for _ in range(100)))
        await until(lambda: len(worker.queues.leased()) > 100)
        provider.let_go()
        await provider.has(200)


@pytest.mark.promise("transactional-first")
async def test_hanging_send_delays_no_message_after_a_crash(bench: Bench) -> None:
    await bench.accept(a_newsletter())
    provider = HangingProvider()
    worker = await bench.worker(provider)
    async with running(worker):
        await provider.has(1)
        await bench.accept(a_newsletter())
        await become_suspect(bench)
        await bench.accept(*(a_message() for _ in range(5)))
        await until(lambda: len(provider.messages) == 7)
        provider.let_go()


@pytest.mark.promise("transactional-first")
async def test_hanging_urgent_message_does_not_keep_suspects(bench: Bench) -> None:
    await bench.accept(a_message())
    provider = HangingProvider()
    worker = await bench.worker(provider)
    async with running(worker):
        await provider.has(1)
        for _ in range(2):
            (suspect,) = await bench.accept(a_newsletter())
            await become_suspect(bench)
            await until(partial(_has, provider, suspect))
        provider.let_go()


def _has(provider: ScriptedProvider, outbox_id: str) -> bool:
    return outbox_id in provider.outbox_ids


@pytest.mark.promise("transactional-first")
async def test_transactional_suspects_come_first(bench: Bench) -> None:
    await bench.accept(*(a_newsletter() for _ in range(100)))
    (urgent,) = await bench.accept(a_message())
    await claims_of(bench.database, bench.clock, "dead").claim(200)
    bench.clock.advance(LOCK_TTL)
    provider = ScriptedProvider(capacity=1)
    async with running(await bench.worker(provider)):
        await provider.has(101)
    assert provider.outbox_ids[0] == urgent


async def test_hanging_send_does_not_prevent_a_probe(bench: Bench) -> None:
    provider = HangingProvider(*[DOWN] * 5)
    worker = await bench.worker(provider)
    breaker = worker.parts.route.members[0].breaker
    await bench.accept(a_message())
    async with running(worker):
        await provider.has(1)
        bench.clock.advance(SECOND)
        await bench.accept(*(a_message() for _ in range(5)))
        await until(lambda: breaker.state is CircuitState.OPEN)
        bench.clock.advance(31 * SECOND)
        await until(lambda: breaker.state is CircuitState.CLOSED)
        bench.clock.advance(31 * SECOND)  # A result that was stored late is due later.
        await until(lambda: len(provider.messages) >= 11)
        provider.let_go()


async def test_hanging_probe_is_followed_by_another(bench: Bench) -> None:
    provider = ScriptedProvider(*[DOWN] * 5, capacity=20)
    worker = await bench.worker(provider)
    breaker = worker.parts.route.members[0].breaker
    await bench.accept(*(a_message() for _ in range(5)))
    async with running(worker):
        await until(lambda: breaker.state is CircuitState.OPEN)
        provider.hold()
        bench.clock.advance(31 * SECOND)
        await until(lambda: provider.under_way == 1)
        bench.clock.advance(31 * SECOND)
        await until(lambda: provider.under_way == 2)
        provider.let_go()
        await until(lambda: breaker.state is CircuitState.CLOSED)


@pytest.mark.promise("poison-isolated")
async def test_resends_are_sent_one_at_a_time(bench: Bench) -> None:
    provider = ScriptedProvider(capacity=4)
    provider.hold()
    worker = await bench.worker(provider)
    await bench.accept(*(a_message() for _ in range(4)))
    async with running(worker):
        await provider.has(4)
        await bench.accept(*(a_message(scheduled_at=bench.clock.now() + SECOND) for _ in range(6)))
        await become_resends(bench)
        bench.clock.advance(SECOND)
        await until(lambda: len(worker.queues.resends) >= 5)
        provider.let_go()
        provider.most_under_way = 0
        await provider.has(10)
    assert provider.most_under_way == 1


@pytest.mark.promise("transactional-first")
async def test_transactional_resends_come_first(bench: Bench) -> None:
    provider = ScriptedProvider(capacity=1)
    provider.hold()
    worker = await bench.worker(provider)
    await bench.accept(*(a_newsletter() for _ in range(6)))
    (urgent,) = await bench.accept(a_message(scheduled_at=bench.clock.now() + SECOND))
    await become_resends(bench)
    async with running(worker):
        await provider.has(1)
        bench.clock.advance(SECOND)
        await until(lambda: any(ready.claimed.outbox_id == urgent for ready in worker.queues.resends))
        provider.let_go()
        await provider.has(7)
    assert urgent in provider.outbox_ids[1:3]
