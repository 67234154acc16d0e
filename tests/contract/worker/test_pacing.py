"""Pacing with the worker: intervals are kept, and no send time is assigned twice."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count, pairwise
from math import ceil
from time import perf_counter
from types import SimpleNamespace
from typing import cast

import pytest
from sqlalchemy import insert

from mailwright.domain.clock import HOUR, SECOND, ManualClock, SystemClock
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.permits import LimitLevel, Limits, PacingRules
from mailwright.domain.results import SendResult
from mailwright.domain.states import EventType, Status
from mailwright.outbox.audit import audit
from mailwright.outbox.ledger import TAKE_OVER, DatabaseLedger
from mailwright.pipeline.conclude import ReadyMessage
from mailwright.policies.pacing import GRACE, pacing_rules, send_rates
from mailwright.providers.route import Route
from mailwright.storage.database import Database
from mailwright.storage.tables import quotas
from mailwright.worker import pacing, rates_in_use
from mailwright.worker.pacing import Pacing, Timer
from mailwright.worker.rates_in_use import RatesInUse
from tests.builders import SENT, THROTTLE, Bench, a_bench, a_message, a_newsletter, change_tenant
from tests.campaigns import CampaignHarness
from tests.conftest import DatabaseAddress
from tests.engines import Valkey
from tests.standins.provider import ScriptedProvider


class Timed(ScriptedProvider):
    """Record when each send starts, by the monotonic clock."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[float] = []

    async def send(self, message: OutgoingMessage) -> SendResult:
        self.begun.append(perf_counter())
        return await super().send(message)

    @property
    def gaps_ms(self) -> list[float]:
        return [(after - before) * 1_000 for before, after in pairwise(sorted(self.begun))]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record when workers start sends. The provider would record later times if the machine pauses the process."""
    starts: list[float] = []
    record_start = RatesInUse.record_start

    def record(rates: RatesInUse, rules: PacingRules, now: float, late_seconds: float) -> None:
        starts.append(now)
        record_start(rates, rules, now, late_seconds)

    monkeypatch.setattr(RatesInUse, "record_start", record)
    return starts


def most_in_any_second(starts: list[float]) -> int:
    return max(sum(moment <= other < moment + 1 for other in starts) for moment in starts)


@pytest.fixture(params=["database", "valkey"])
def redis_url(request: pytest.FixtureRequest) -> str | None:
    if request.param == "database":
        return None
    valkey: Valkey = request.getfixturevalue("valkey")
    return valkey.url


@pytest.fixture
async def bench(engine: DatabaseAddress, clock: ManualClock, redis_url: str | None) -> AsyncIterator[Bench]:
    async with a_bench(engine.url, clock, redis_url=redis_url) as bench:
        yield bench
        assert (await audit(bench.database)).ok


@pytest.fixture
async def live(engine: DatabaseAddress, redis_url: str | None) -> AsyncIterator[Bench]:
    """Use the real clock, because the test measures intervals."""
    async with a_bench(engine.url, SystemClock(), redis_url=redis_url) as bench:  # type: ignore[arg-type]
        yield bench
        assert (await audit(bench.database)).ok


async def test_sends_never_start_closer_than_the_interval(live: Bench) -> None:
    await change_tenant(live.database, interval_ms=40)
    await live.accept(*(a_newsletter() for _ in range(30)))
    provider = Timed()
    await live.drain(provider)
    assert len(provider.messages) == 30
    assert min(provider.gaps_ms) >= 40


async def test_two_workers_share_one_interval(live: Bench) -> None:
    await change_tenant(live.database, interval_ms=50)
    await live.accept(*(a_newsletter() for _ in range(24)))
    provider = Timed()
    workers = [await live.worker(provider, name) for name in ("a", "b")]
    await asyncio.gather(*(worker.run(drain=True) for worker in workers))
    await live.drain(provider)
    assert len(set(provider.outbox_ids)) == len(provider.messages) == 24
    assert min(provider.gaps_ms) >= 50


async def test_campaign_interval_does_not_delay_other_messages(live: Bench) -> None:
    desk = CampaignHarness(live)
    await desk.start(6, limits={"intervalMs": 100})
    provider = Timed()
    await live.accept(*(a_message() for _ in range(5)))
    await live.drain(provider)
    assert len(provider.messages) == 11
    campaign = sorted(provider.begun)[-5:]
    assert min((after - before) * 1_000 for before, after in pairwise(campaign)) >= 100


@pytest.mark.parametrize("rate", [5, 120])
async def test_no_second_exceeds_the_rate(live: Bench, rate: int, starts: list[float]) -> None:
    await change_tenant(live.database, rate_per_second=rate)
    await live.accept(*(a_newsletter() for _ in range(2 * rate)))
    provider = ScriptedProvider()
    workers = [await live.worker(provider, name) for name in ("a", "b")]
    await asyncio.gather(*(worker.run(drain=True) for worker in workers))
    await live.drain(provider)
    assert len(set(provider.outbox_ids)) == len(provider.messages) == len(starts) == 2 * rate
    assert most_in_any_second(starts) <= rate


async def test_reported_provider_rate_applies_to_all_tenants(live: Bench, starts: list[float]) -> None:
    quota = {"remaining": None, "limit_per_day": None, "detail": "", "in_flight": 0, "counted_before": 0}
    async with live.database.write() as tx:
        row = {"provider": "scripted", "rate_per_second": 10, "synced_at": live.clock.now(), **quota}
        await tx.execute(insert(quotas).values(**row))
    await live.accept(*(make() for make in (a_newsletter, a_message) for _ in range(10)))
    provider = ScriptedProvider()
    await live.drain(provider)
    assert len(provider.messages) == len(starts) == 20
    assert most_in_any_second(starts) <= 10


@pytest.mark.parametrize("grace", [TAKE_OVER, 0], ids=["", "stumbling"])
async def test_manual_clock_sends_one_message_per_interval(
    bench: Bench, grace: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the process pauses longer than the grace, as no time has passed on the manual clock."""
    monkeypatch.setattr(pacing, "TAKE_OVER", grace)
    monkeypatch.setattr(rates_in_use, "TAKE_OVER", grace)
    if not grace:
        stumbles = count()
        monkeypatch.setattr(pacing, "perf_counter", lambda: perf_counter() + next(stumbles) / 2)
    await change_tenant(bench.database, interval_ms=10 * SECOND)
    await bench.accept(*(a_newsletter() for _ in range(4)))
    provider = ScriptedProvider()
    sent = []
    for _ in range(4):
        await bench.drain(provider)
        sent.append(len(provider.messages))
        bench.clock.advance(10 * SECOND - 100)
        await bench.drain(provider)
        sent.append(len(provider.messages))
        bench.clock.advance(100)
    assert sent == [1, 1, 2, 2, 3, 3, 4, 4]


async def test_one_at_a_time_starts_after_the_previous_send_ends(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await desk.start(6, limits={"oneAtATime": True})
    provider = ScriptedProvider()
    workers = [await bench.worker(provider, name) for name in ("a", "b")]
    await asyncio.gather(*(worker.run(drain=True) for worker in workers))
    for _ in range(6):
        bench.clock.advance(SECOND)
        await bench.drain(provider)
    assert await bench.statuses() == {Status.SENT: 6}
    assert provider.most_under_way == 1


@pytest.mark.promise("throttled-rate")
async def test_learned_rate_paces_and_lets_transactional_messages_overtake(bench: Bench) -> None:
    provider = ScriptedProvider()
    route = Route.of(provider, bench.clock)
    for response in (SENT, THROTTLE, THROTTLE):
        route.record(response, attempted_at=bench.clock.now())
    assert route.learned_rate("scripted") == pytest.approx(0.95)
    await bench.accept(*(a_newsletter() for _ in range(3)))
    urgent = await bench.accept(a_message())
    sent = []
    for _ in range(4):
        await (await bench.worker(route, "worker-1")).run(drain=True)
        sent.append(len(provider.messages))
        bench.clock.advance(1_100)
    assert sent == [1, 2, 3, 4]
    assert provider.outbox_ids[:1] == urgent


@pytest.mark.promise("deferrals-are-not-failures")
async def test_throttling_delays_an_old_message_as_a_new_one(bench: Bench) -> None:
    [outbox_id] = await bench.accept(a_message())
    bench.clock.advance(HOUR)
    provider = ScriptedProvider(THROTTLE, THROTTLE)
    await bench.drain(provider)
    bench.clock.advance(1_250)
    await bench.drain(provider)
    record = await bench.record(outbox_id)
    waits = [event.metadata["backoffDelay"] for event in record.events if event.type is EventType.RETRY_SCHEDULED]
    assert waits[0] <= 1_250
    assert waits[1] <= 6_250


# Rates, simulated: the clock and the timers move only when the test advances them.

COMMIT_MS = 4


class ManualTimer(Timer):
    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._calls: list[tuple[float, Callable[[], None]]] = []

    def seconds(self) -> float:
        return self._clock.now() / 1_000

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        self._calls.append((self.seconds() + seconds, action))

    def run_due(self) -> None:
        due = [action for at, action in self._calls if at <= self.seconds()]
        self._calls = [(at, action) for at, action in self._calls if at > self.seconds()]
        for action in due:
            action()


async def starts_in_three_seconds(
    database: Database, limit: int, flight_ms: int, reported: int | None, *, is_alone: bool = True
) -> int:
    """Send a mailout at this limit, to a provider that reports a rate and responds after `flight_ms`."""
    clock = ManualClock()
    timer = ManualTimer(clock)
    pacing = Pacing(clock, DatabaseLedger(database, clock), timer)
    limits = Limits(interval_ms=ceil(1_000 / limit), one_at_a_time=is_alone)
    rules = pacing_rules((LimitLevel(f"campaign {limit}", limits),), reported, f"route {limit}")
    for key in range(3 * limit):
        claimed = SimpleNamespace(lane=1, resends=0, message_key=key)
        pacing.add(cast("ReadyMessage", SimpleNamespace(claimed=claimed, pacing=rules)))
    started: list[ReadyMessage] = []

    def start(ready: ReadyMessage) -> bool:
        started.append(ready)
        timer.call_later(flight_ms / 1_000, partial(pacing.end, ready))
        return True

    for _ in range(3 * SECOND):
        timer.run_due()
        if pacing.has_work():
            await pacing.book()
            due = pacing.due()
            clock.advance(COMMIT_MS if due else 0)
            for ready in due:
                pacing.begin(ready, partial(start, ready), pytest.fail)
        clock.advance(1)
    return len(started)


@pytest.mark.promise("mailout-rate")
@pytest.mark.parametrize("reported", [None, 200, 14], ids=["no provider rate", "200 per second", "14 per second"])
@pytest.mark.parametrize("flight_ms", [2, 60, 300])
async def test_higher_limit_never_gives_lower_rate(database: Database, flight_ms: int, reported: int | None) -> None:
    """A provider that is slower than the limit decides the rate, and send times that it cannot keep cost nothing."""
    counts = [await starts_in_three_seconds(database, limit, flight_ms, reported) for limit in (14, 150, 500)]
    assert all(after >= 0.9 * before for before, after in pairwise(counts)), counts
    possible = min(500, reported or 500, 1_000 / (flight_ms + COMMIT_MS + 1))
    assert counts[-1] >= 0.8 * 3 * possible, counts


@pytest.mark.promise("mailout-rate")
@pytest.mark.parametrize("flight_ms", [60, 300])
async def test_overlapping_sends_reach_the_limit(database: Database, flight_ms: int) -> None:
    counts = [await starts_in_three_seconds(database, limit, flight_ms, None, is_alone=False) for limit in (14, 50)]
    assert counts[0] >= 0.9 * 3 * 14
    assert counts[1] >= 0.9 * 3 * 50


# The ledger.


async def test_batches_at_other_intervals_keep_the_rate(database: Database, clock: ManualClock) -> None:
    """The messages of a batch start at the interval of another rate, and not all at once."""
    rates = (*send_rates(Limits(interval_ms=3), 1), *send_rates(Limits(rate_per_second=200), 2))
    booking = await DatabaseLedger(database, clock).book(rates, 600, {})
    ends = [slot + (SECOND + GRACE) * 1_000 for slot in booking.slots]
    counts = [
        sum(slot <= other < end for other in booking.slots) for slot, end in zip(booking.slots, ends, strict=True)
    ]
    assert 190 <= max(counts) <= 200


async def test_concurrent_bookings_never_share_a_slot(database: Database, clock: ManualClock) -> None:
    pace = send_rates(Limits(rate_per_second=20), 1)
    ledgers = [DatabaseLedger(database, clock) for _ in range(4)]
    bookings = await asyncio.gather(*(ledger.book(pace, 3, {}) for ledger in ledgers for _ in range(5)))
    moments = sorted(moment for booking in bookings for moment in booking.slots)
    assert len(moments) == 60
    assert min(after - before for before, after in pairwise(moments)) >= pace[0].interval_us


async def test_exact_rate_stays_with_its_worker_until_it_is_lost(database: Database, clock: ManualClock) -> None:
    pace = send_rates(Limits(interval_ms=500), 1)
    ledger = DatabaseLedger(database, clock)
    ours = await ledger.book(pace, 1, {})
    theirs = await ledger.book(pace, 1, {})
    assert (len(ours.slots), theirs.slots) == (1, ())
    clock.advance(theirs.opens_at - clock.now())
    late = await ledger.book(pace, 1, {})
    assert late.slots[0] - ours.slots[0] >= 500_000


async def test_clock_set_back_does_not_block_a_rate(database: Database, clock: ManualClock) -> None:
    pace = send_rates(Limits(interval_ms=500), 1)
    ledger = DatabaseLedger(database, clock)
    await ledger.book(pace, 1, {})
    clock.advance(-3_600 * SECOND)
    [moment] = (await ledger.book(pace, 1, {})).slots
    assert clock.now() + 500 <= moment / 1_000 <= clock.now() + 2_000
