"""Limits per recipient domain apply over all workers, on both engines, with and without Valkey."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from sqlalchemy import select

from mailwright.domain.clock import HOUR, SECOND, ManualClock
from mailwright.domain.explanation import ExplanationState
from mailwright.domain.permits import DeferReason
from mailwright.domain.states import Status
from mailwright.outbox.audit import audit
from mailwright.outbox.explain import explain
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.storage.tables import counters, lane_deferrals
from mailwright.texts.explanations import message_text
from tests.builders import Bench, a_bench, a_message, a_newsletter, change_tenant, deliveries_of
from tests.conftest import DatabaseAddress
from tests.engines import Valkey
from tests.standins.provider import ScriptedProvider

Limited = Callable[[str], AbstractAsyncContextManager[Bench]]


@pytest.fixture(params=["database", "valkey"])
def limited(request: pytest.FixtureRequest, engine: DatabaseAddress, clock: ManualClock) -> Limited:
    with_valkey: Valkey | None = request.getfixturevalue("valkey") if request.param == "valkey" else None

    @asynccontextmanager
    async def limited(domain_limits: str) -> AsyncIterator[Bench]:
        redis_url = with_valkey.url if with_valkey else None
        async with a_bench(engine.url, clock, redis_url=redis_url, domain_limits=domain_limits) as bench:
            yield bench
            assert (await audit(bench.database)).ok

    return limited


def to(domain: str, count: int, **changes: object) -> list:  # type: ignore[type-arg]
    return [a_newsletter(to=f"reader{number}@{domain}", **changes) for number in range(count)]


def sent_to(provider: ScriptedProvider) -> Counter[str]:
    return Counter(message.recipients[0].partition("@")[2] for message in provider.messages)


async def waiting(bench: Bench) -> list[tuple[str, int]]:
    """Return the reason and the remaining time of each deferral."""
    rows = await deliveries_of(bench.database)
    return [(row.defer_reason, row.claimable_at - bench.clock.now()) for row in rows if row.status == Status.PENDING]


async def drained(bench: Bench, provider: ScriptedProvider, names: str = "a", **pace: int) -> None:
    """Drain the queue with one worker per character of `names`, all at the same time."""
    workers = [await bench.worker(provider, name, runs_source_duties=False, **pace) for name in names]
    async with asyncio.timeout(60):
        await asyncio.gather(*(worker.run(drain=True) for worker in workers))


# How fast.


@pytest.mark.promise("limits-never-exceeded")
async def test_domain_limit_does_not_delay_other_domains(limited: Limited) -> None:
    async with limited("gmail.com=5/s") as bench:
        await bench.accept(*to("gmail.com", 18), *to("example.com", 10))
        provider = ScriptedProvider()
        await drained(bench, provider)
        assert sent_to(provider) == {"gmail.com": 5, "example.com": 10}
        async with bench.database.read() as tx:
            assert await tx.execute(select(lane_deferrals)) == []
        rows = await deliveries_of(bench.database)
        left = [row for row in rows if row.status == Status.PENDING]
        assert {(row.attempts, row.claims, row.locked_by) for row in left} == {(0, 0, None)}


async def test_backlog_of_a_domain_is_deferred_once_per_message(limited: Limited) -> None:
    async with limited("gmail.com=5/s") as bench:
        await bench.accept(*to("gmail.com", 18))
        provider = ScriptedProvider()
        await drained(bench, provider)
        rate = DeferReason.DOMAIN_RATE
        expected = [(rate, SECOND)] * 5 + [(rate, 2 * SECOND)] * 5 + [(rate, 3 * SECOND)] * 3
        assert sorted(await waiting(bench)) == expected
        for count in (10, 15, 18):
            bench.clock.advance(SECOND)
            before = {row.message_key: row.claimable_at for row in await deliveries_of(bench.database)}
            await drained(bench, provider)
            assert sent_to(provider) == {"gmail.com": count}
            left = [row for row in await deliveries_of(bench.database) if row.status == Status.PENDING]
            assert all(row.claimable_at == before[row.message_key] for row in left)
        assert len(set(provider.outbox_ids)) == 18


@pytest.mark.promise("limits-never-exceeded")
async def test_four_workers_never_exceed_the_domain_rate(limited: Limited) -> None:
    async with limited("gmail.com=10/s, *=3/s") as bench:
        await bench.accept(*to("gmail.com", 30), *to("one.example", 7), *to("two.example", 7))
        provider = ScriptedProvider()
        for second in range(30):
            before = sent_to(provider)
            await drained(bench, provider, "abcd", window=7)
            went = sent_to(provider) - before
            assert went["gmail.com"] <= 10
            assert went["one.example"] <= 3
            assert went["two.example"] <= 3
            if second == 0:
                assert went == {"gmail.com": 10, "one.example": 3, "two.example": 3}
            bench.clock.advance(SECOND)
            if await bench.statuses() == {Status.SENT: 44}:
                break
        assert await bench.statuses() == {Status.SENT: 44}
        assert len(set(provider.outbox_ids)) == len(provider.messages) == 44


async def test_domain_rate_applies_to_any_second(limited: Limited) -> None:
    async with limited("gmail.com=5/s") as bench:
        provider = ScriptedProvider()
        bench.clock.advance(SECOND - bench.clock.now() % SECOND + 900)
        await bench.accept(*to("gmail.com", 5))
        await drained(bench, provider)
        assert sent_to(provider) == {"gmail.com": 5}
        bench.clock.advance(150)  # The next second has begun.
        await bench.accept(*to("gmail.com", 5))
        await drained(bench, provider)
        assert sent_to(provider) == {"gmail.com": 5}
        assert {reason for reason, _ in await waiting(bench)} == {DeferReason.DOMAIN_RATE}
        assert all(later > 0 for _, later in await waiting(bench))
        bench.clock.advance(SECOND)
        await drained(bench, provider)
        assert sent_to(provider) == {"gmail.com": 10}


@pytest.mark.promise("limits-never-exceeded")
async def test_transactional_message_overtakes_bulk_to_a_limited_domain(limited: Limited) -> None:
    async with limited("gmail.com=5/s") as bench:
        await bench.accept(*to("gmail.com", 100))
        provider = ScriptedProvider()
        await drained(bench, provider)
        (receipt,) = await bench.accept(a_message(to="buyer@gmail.com"))
        await drained(bench, provider)  # The permits of this second are used up.
        assert receipt not in provider.outbox_ids
        bench.clock.advance(SECOND)
        await drained(bench, provider)
        assert receipt in provider.outbox_ids


@pytest.mark.promise("limits-never-exceeded")
async def test_domain_deferral_uses_no_tenant_permit(limited: Limited) -> None:
    async with limited("gmail.com=2/s") as bench:
        await change_tenant(bench.database, rate_per_hour=10)
        await bench.accept(*to("gmail.com", 8), *to("example.com", 8))
        provider = ScriptedProvider()
        await drained(bench, provider)
        for _ in range(12):
            bench.clock.advance(SECOND)
            await drained(bench, provider)
        assert len(provider.messages) == 10
        bench.clock.advance(HOUR)
        for _ in range(5):
            await drained(bench, provider)
            bench.clock.advance(SECOND)
        assert await bench.statuses() == {Status.SENT: 16}


@pytest.mark.promise("limits-never-exceeded")
async def test_unused_domain_permits_are_returned(limited: Limited) -> None:
    async with limited("gmail.com=4/s") as bench:
        blank = [a_message(to=f"x{number}@gmail.com", payload={"to": f"x{number}@gmail.com"}) for number in range(4)]
        await bench.accept(*blank)
        provider = ScriptedProvider()
        await drained(bench, provider)
        assert provider.messages == []
        await bench.accept(*to("gmail.com", 6))
        await drained(bench, provider)
        assert len(provider.messages) == 4


# Concurrent sends.


async def test_four_workers_never_exceed_the_domain_concurrency(limited: Limited) -> None:
    async with limited("gmail.com=3c") as bench:
        await bench.accept(*to("gmail.com", 20), *to("example.com", 20))
        most: Counter[str] = Counter()
        provider = _Counting(most)
        for _ in range(60):
            await drained(bench, provider, "abcd", window=8)
            if await bench.statuses() == {Status.SENT: 40}:
                break
            assert {reason for reason, _ in await waiting(bench)} == {DeferReason.DOMAIN_CONCURRENCY}
            bench.clock.advance(SECOND)
        assert await bench.statuses() == {Status.SENT: 40}
        assert len(set(provider.outbox_ids)) == len(provider.messages) == 40
        assert most["gmail.com"] <= 3
        assert most["example.com"] > 3


class _Counting(ScriptedProvider):
    """Records the largest number of concurrent sends to each domain."""

    def __init__(self, most: Counter[str]) -> None:
        super().__init__()
        self._most = most
        self._now: Counter[str] = Counter()

    async def send(self, message):  # type: ignore[no-untyped-def]
        domain = message.recipients[0].partition("@")[2]
        self._now[domain] += 1
        self._most[domain] = max(self._most[domain], self._now[domain])
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            return await super().send(message)
        finally:
            self._now[domain] -= 1


async def test_domain_concurrency_is_counted_over_all_workers(limited: Limited) -> None:
    async with limited("gmail.com=3c") as bench:
        await bench.accept(*to("gmail.com", 10))
        provider = ScriptedProvider()
        provider.hold()
        first, second = [await bench.worker(provider, name, window=8) for name in "ab"]
        runs = [asyncio.create_task(worker.run()) for worker in (first, second)]
        async with asyncio.timeout(60):
            await provider.has(3)
            while any(row.locked_by and row.status == Status.PENDING for row in await deliveries_of(bench.database)):
                await asyncio.sleep(0.01)
        assert provider.most_under_way == 3
        for worker in (first, second):
            worker.stop()
        provider.let_go()
        async with asyncio.timeout(60):
            await asyncio.gather(*runs)
        assert provider.most_under_way == 3


# Explanations, and the number of queries.


@pytest.mark.parametrize(
    ("limits", "detail", "words"),
    [
        ("gmail.com=1/s", "rate", "Send rate limit for gmail.com reached."),
        ("gmail.com=1c", "concurrency", "Limit of simultaneous messages for gmail.com reached."),
    ],
)
async def test_message_states_its_domain_limit_and_time(limited: Limited, limits: str, detail: str, words: str) -> None:
    async with limited(limits) as bench:
        *_, last = await bench.accept(*to("gmail.com", 6))
        provider = ScriptedProvider()
        await drained(bench, provider)
        await WorkerRegistry(bench.database, bench.clock, "worker-1").report(WorkerPresence("scripted"))
        answer = await explain(bench.database, bench.clock, last, tenant_id=None)
        assert (answer.state, answer.reason, answer.detail) == (ExplanationState.DOMAIN_LIMIT, "domain_limit", detail)
        assert message_text(answer).sentence.startswith(words)
        [due] = [row.claimable_at for row in await deliveries_of(bench.database) if row.message_key == 6]
        assert answer.until == due > bench.clock.now()


@pytest.mark.promise("limits-never-exceeded")
async def test_without_domain_limits_nothing_is_counted(bench: Bench) -> None:
    await bench.accept(*to("gmail.com", 20))
    worker = await bench.worker(ScriptedProvider())
    await worker.run(drain=True)
    async with bench.database.read() as tx:
        is_limit = ~counters.c.name.startswith("provider-sent:")
        assert await tx.execute(select(counters).where(is_limit)) == []
