"""Provider quotas are never exceeded, and a failed sync keeps the previous quota, on both engines."""

import asyncio

import pytest
from sqlalchemy import select

from mailwright.app.named_providers import ProviderService
from mailwright.app.quotas import QuotaSync, open_quota_sync, reported_quota
from mailwright.domain.clock import DAY, HOUR, MINUTE, ManualClock
from mailwright.domain.permits import Limits
from mailwright.domain.states import Status
from mailwright.outbox import quotas
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.outbox.limits import DefaultLimits, load_limit_rules
from mailwright.outbox.quotas import STALE_AFTER, RouteRate, route_rate
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.policies.pacing import pacing_rules
from mailwright.policies.rates import windows
from mailwright.providers.protocol import AccountQuota
from mailwright.storage.database import Database
from mailwright.storage.tables import lane_deferrals
from tests.builders import Bench, a_newsletter, settings_for
from tests.standins.provider import ScriptedProvider
from tests.standins.smtpbz import KEY, SmtpBzStandIn

EVERY = 5 * MINUTE


class Account:
    """A provider that reports its quota, and can fail to."""

    def __init__(self, remaining: float | None, per_day: float | None = None, rate: float | None = None) -> None:
        self.remaining = remaining
        self.per_day = per_day
        self.rate = rate
        self.is_silent = False
        self.is_broken = False
        self.asked = 0

    async def quota(self) -> AccountQuota | None:
        self.asked += 1
        if self.is_broken:
            raise ValueError("broken")
        if self.is_silent:
            return None
        return AccountQuota(
            limit_per_day=self.per_day, sent_today=None, rate_per_second=self.rate, remaining=self.remaining
        )


def a_sync(database: Database, clock: ManualClock, **accounts: Account) -> QuotaSync:
    return QuotaSync(database, clock, accounts, EVERY)


async def reserved(database: Database, clock: ManualClock, wanted: int, *providers: str) -> int:
    allowance = await quotas.load_quota_snapshot(database, providers, EVERY)
    needed = windows(Limits(), 1, clock.now(), allowance)
    return (await DatabaseLedger(database, clock).reserve(needed, wanted)).count


async def held(bench: Bench) -> list[tuple[str, int]]:
    async with bench.database.read() as tx:
        rows = await tx.execute(select(lane_deferrals).where(lane_deferrals.c.deferred_until > bench.clock.now()))
    return [(row.defer_reason, row.deferred_until - bench.clock.now()) for row in rows]


@pytest.mark.promise("quota-limits")
async def test_messages_beyond_the_quota_wait_for_the_next_sync(bench: Bench) -> None:
    account = Account(40)
    sync = a_sync(bench.database, bench.clock, scripted=account)
    assert await sync.tick()
    await bench.accept(*(a_newsletter() for _ in range(100)))
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert len(provider.messages) == 40
    assert await held(bench) == [("quota_exhausted", EVERY)]

    bench.clock.advance(EVERY)
    account.remaining = 0
    assert await sync.tick()
    await bench.drain(provider)
    assert len(provider.messages) == 40
    assert await held(bench) == [("quota_exhausted", EVERY)]

    bench.clock.advance(EVERY)
    account.remaining = 1_000
    assert await sync.tick()
    await bench.drain(provider)
    assert await bench.statuses() == {Status.SENT: 100}


@pytest.mark.promise("quota-limits")
async def test_zero_quota_defers_everything(bench: Bench) -> None:
    await a_sync(bench.database, bench.clock, scripted=Account(0)).tick()
    await bench.accept(a_newsletter())
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert not provider.messages
    assert await held(bench) == [("quota_exhausted", EVERY)]


@pytest.mark.promise("quota-limits")
async def test_new_quota_ends_the_deferrals(bench: Bench) -> None:
    account = Account(0)
    sync = a_sync(bench.database, bench.clock, scripted=account)
    await sync.tick()
    await bench.accept(a_newsletter())
    provider = ScriptedProvider()
    await bench.drain(provider)
    bench.clock.advance(MINUTE)
    account.remaining = 5
    assert await sync.sync()  # Somebody requested a sync.
    assert await held(bench) == []
    await bench.drain(provider)
    assert len(provider.messages) == 1


@pytest.mark.promise("quota-limits")
async def test_messages_in_flight_during_a_sync_are_subtracted(bench: Bench) -> None:
    """The provider has not counted them yet, so its quota is too high by their number."""
    await bench.accept(*(a_newsletter() for _ in range(30)))
    provider = ScriptedProvider()
    provider.hold()
    run = asyncio.create_task((await bench.worker(provider, window=4, claim_batch=4)).run(drain=True))
    await provider.has(4)
    await a_sync(bench.database, bench.clock, scripted=Account(10)).tick()
    [known] = await quotas.load_quotas(bench.database)
    allowance = await quotas.load_quota_snapshot(bench.database, ["scripted"], EVERY)
    assert allowance is not None
    assert known.remaining == 10
    assert allowance.remaining <= 10 - 4
    bench.clock.advance(1_000)  # Workers read the quota once a second.
    provider.let_go()
    await run
    assert len(provider.messages) <= 4 + 4 + 10


@pytest.mark.promise("quota-limits")
async def test_messages_counted_by_the_previous_sync_are_subtracted(database: Database, clock: ManualClock) -> None:
    account = Account(100)
    sync = a_sync(database, clock, ses=account)
    await sync.tick()
    before = await quotas.load_quota_snapshot(database, ["ses"], EVERY)
    ledger = DatabaseLedger(database, clock)
    assert (await ledger.reserve(windows(Limits(), 1, clock.now(), before), 30)).count == 30
    clock.advance(EVERY)
    account.remaining = 70  # The provider has counted all thirty messages.
    assert await sync.tick()
    late = await ledger.reserve(windows(Limits(), 1, clock.now(), before), 20)  # With the old quota.
    assert late.count == 20
    assert await reserved(database, clock, 1_000, "ses") == 50
    await ledger.give_back(windows(Limits(), 1, clock.now(), before), 5)
    assert await reserved(database, clock, 1_000, "ses") == 5


@pytest.mark.parametrize("how", ["is_silent", "is_broken"])
async def test_failed_sync_keeps_counting_from_the_previous_quota(
    database: Database, clock: ManualClock, how: str
) -> None:
    account = Account(100)
    sync = a_sync(database, clock, ses=account)
    await sync.tick()
    assert await reserved(database, clock, 60, "ses") == 60
    clock.advance(EVERY)
    setattr(account, how, True)
    assert not await sync.tick()
    [known] = await quotas.load_quotas(database)
    assert (known.remaining, known.sent_since, known.failed_at) == (100, 60, clock.now())
    assert known.failure
    assert await reserved(database, clock, 1_000, "ses") == 40
    setattr(account, how, False)
    clock.advance(EVERY)
    assert await sync.tick()
    [known] = await quotas.load_quotas(database)
    assert (known.failure, known.failed_at, known.sent_since) == (None, None, 0)


async def test_quota_older_than_a_day_is_ignored(database: Database, clock: ManualClock) -> None:
    await a_sync(database, clock, ses=Account(0)).tick()
    assert await reserved(database, clock, 5, "ses") == 0
    clock.advance(DAY)
    assert await reserved(database, clock, 5, "ses") == 5


async def test_one_process_syncs_per_interval(database: Database, clock: ManualClock) -> None:
    account = Account(10)
    syncs = [a_sync(database, clock, ses=account) for _ in range(5)]
    assert sum(await asyncio.gather(*(sync.tick() for sync in syncs))) == 1
    for _ in range(3):
        await asyncio.gather(*(sync.tick() for sync in syncs))
    assert account.asked == 1
    clock.advance(EVERY)
    await asyncio.gather(*(sync.tick() for sync in syncs))
    assert account.asked == 2


async def test_second_of_two_concurrent_syncs_is_discarded(database: Database, clock: ManualClock) -> None:
    before = await quotas.read_pre_sync_state(database, ["ses"])
    assert await quotas.record_sync(database, clock, [quotas.QuotaReport("ses", 10)], before)
    clock.advance(1)
    assert not await quotas.record_sync(database, clock, [quotas.QuotaReport("ses", 99)], before)
    [known] = await quotas.load_quotas(database)
    assert known.remaining == 10


async def test_quotas_of_a_route_are_added(database: Database, clock: ManualClock) -> None:
    ses, smtpbz = Account(30), Account(20)
    sync = a_sync(database, clock, ses=ses, smtpbz=smtpbz)
    await sync.tick()
    assert await reserved(database, clock, 100, "ses", "smtpbz") == 50
    assert (
        await quotas.load_quota_snapshot(database, ["ses", "smtp"], EVERY) is None
    )  # A provider that reports no quota has no limit.
    clock.advance(EVERY)
    smtpbz.is_silent = True
    ses.remaining = 1_000
    assert not await sync.tick()  # If one provider fails, the whole round counts as failed.
    assert await reserved(database, clock, 100, "ses", "smtpbz") == 0
    smtpbz.is_silent, ses.remaining = False, None
    clock.advance(EVERY)
    assert await sync.tick()
    assert await reserved(database, clock, 100, "ses", "smtpbz") == 100


@pytest.mark.promise("quota-limits")
async def test_quota_is_never_exceeded_despite_clock_jumps(database: Database, clock: ManualClock) -> None:
    sync = a_sync(database, clock, ses=Account(50))
    await sync.tick()
    total = 0
    for moved in (0, HOUR, -HOUR, -HOUR, HOUR, EVERY - 1):
        clock.advance(moved)
        total += await reserved(database, clock, 9, "ses")
    assert total == 50


@pytest.mark.parametrize(
    ("quota", "left"),
    [
        (AccountQuota(50_000, 10_000, 14, 40_000), 40_000),
        (AccountQuota(None, None, None, 14_794, limit_per_hour=100, sent_this_hour=3), 97),
        (AccountQuota(500, 499, None, 14_794, limit_per_hour=100), 1),
        (AccountQuota(500, 600, None, 14_794), 0),
        (AccountQuota(None, None, None, 9.9), 9),
        (AccountQuota(None, None, None, 9, is_sending_enabled=False), 0),
        (AccountQuota(None, None, 14, None), None),
    ],
)
@pytest.mark.promise("quota-limits")
def test_smallest_limit_of_an_account_is_its_quota(quota: AccountQuota, left: int | None) -> None:
    assert reported_quota("ses", quota).remaining == left


@pytest.mark.promise("quota-limits")
async def test_smtpbz_quota_is_read_over_http(database: Database, clock: ManualClock) -> None:
    async with SmtpBzStandIn() as api:
        settings = settings_for(
            "sqlite:///unused.db",
            provider="smtpbz",
            smtpbz_url=api.base,
            smtpbz_api_key=KEY,
            smtpbz_smtp_url="smtp://127.0.0.1:1",
        )
        async with open_quota_sync(settings, database, clock) as sync:
            assert sync is not None
            assert await sync.tick()
            [known] = await quotas.load_quotas(database)
            assert (known.provider, known.remaining) == ("smtpbz", 97)
        await ProviderService(settings, database, clock).create(
            "acme-bz", "smtpbz", {"smtpbz_smtp_url": "smtp://127.0.0.1:1", "smtpbz_api_key": KEY}, actor="ada"
        )
        async with open_quota_sync(settings, database, clock, "acme-bz") as sync:
            assert sync is not None
            assert await sync.tick()
            known_names = [(each.provider, each.remaining) for each in await quotas.load_quotas(database)]
            assert known_names == [("acme-bz", 97), ("smtpbz", 97)]
    async with open_quota_sync(settings_for("sqlite:///unused.db"), database, clock) as nobody:
        assert nobody is None


# How fast.


@pytest.mark.parametrize(
    ("route", "rates", "expected"),
    [
        ({"ses": None}, {"ses": 14}, RouteRate("ses", 14)),
        ({"ses": None, "smtp": None}, {"ses": 14}, RouteRate("ses", 14)),
        ({"smtp": None, "ses": None}, {"ses": 14}, None),
        ({"ses": 3, "smtp": 1}, {"ses": 14}, RouteRate("ses", 18)),
        ({"ses": 3, "other": 1}, {"ses": 14, "other": 2}, RouteRate("other", 8)),
        ({"ses": 1, "smtp": 1}, {}, None),
        ({}, {"ses": 14}, None),
    ],
)
def test_route_rate_respects_every_provider(
    route: dict[str, int | None], rates: dict[str, int], expected: RouteRate | None
) -> None:
    assert route_rate(rates, route) == expected


async def test_rate_applies_even_if_other_providers_report_none(bench: Bench) -> None:
    await a_sync(bench.database, bench.clock, scripted=Account(None, rate=5.5)).tick()
    route: dict[str, int | None] = {"scripted": None, "smtp": None}
    rules = await load_limit_rules(bench.database, DefaultLimits(Limits(), route))
    assert (rules.provider_rate, rules.route) == (5, "scripted")
    assert pacing_rules(rules.levels(1, 1), rules.provider_rate, rules.route) is not None
    away = WorkerPresence("scripted", unavailable_until=bench.clock.now() + HOUR)
    await WorkerRegistry(bench.database, bench.clock, "worker-1").report(away, WorkerPresence("smtp"))
    assert await quotas.provider_rate(bench.database, route) is None
    await WorkerRegistry(bench.database, bench.clock, "worker-2").report(
        WorkerPresence("scripted"), WorkerPresence("smtp")
    )
    assert await quotas.provider_rate(bench.database, route) == RouteRate("scripted", 5)


async def test_unconfirmed_rate_is_dropped_until_reported_again(database: Database, clock: ManualClock) -> None:
    ses, other = Account(100, rate=14), Account(100)
    sync = a_sync(database, clock, ses=ses, smtpbz=other)
    other.is_silent = True
    await sync.sync()  # The rate of SES is known although the other provider reports nothing.
    assert await quotas.provider_rate(database, {"ses": None}) == RouteRate("ses", 14)
    ses.is_silent = True
    for _ in range(STALE_AFTER):
        assert await quotas.provider_rate(database, {"ses": None}) == RouteRate("ses", 14)
        await sync.sync()
    assert await quotas.provider_rate(database, {"ses": None}) is None
    [known] = await quotas.load_quotas(database)
    assert (known.provider, known.failed_syncs, known.is_rate_kept) == ("ses", STALE_AFTER, False)
    ses.is_silent, ses.rate = False, 50
    await sync.sync()
    assert await quotas.provider_rate(database, {"ses": None}) == RouteRate("ses", 50)
    other.is_silent = False
    assert await sync.sync()
    assert await reserved(database, clock, 1_000, "ses", "smtpbz") == 200
