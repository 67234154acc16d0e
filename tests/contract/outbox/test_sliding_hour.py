"""The sliding hour never exceeds its limit in any 60 minutes, on both engines, with and without Valkey."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from mailwright.domain.clock import HOUR, MINUTE, SECOND, Instant, ManualClock
from mailwright.domain.permits import Limits, LimitWindow
from mailwright.outbox.ledger import DatabaseLedger, Ledger
from mailwright.outbox.valkey import ValkeyLedger
from mailwright.policies.rates import windows
from mailwright.storage.database import Database
from tests.contract.outbox.test_ledger import a_client
from tests.engines import Valkey


@pytest.fixture(params=["database", "valkey"])
async def ledger(request: pytest.FixtureRequest, database: Database, clock: ManualClock) -> AsyncIterator[Ledger]:
    ground = DatabaseLedger(database, clock)
    if request.param == "database":
        yield ground
    else:
        valkey: Valkey = request.getfixturevalue("valkey")
        async with a_client(valkey.url) as client:
            yield ValkeyLedger(client, ground, clock)


def sliding(limit: int, now: Instant) -> tuple[LimitWindow, ...]:
    return windows(Limits(rate_per_hour=limit, sliding_hour=True), 1, now)


@pytest.mark.promise("limits-never-exceeded")
async def test_full_hour_opens_when_its_oldest_minute_expires(ledger: Ledger, clock: ManualClock) -> None:
    """The test clock begins at a full hour, so a limit by clock hours would allow sixty more a minute later."""
    clock.advance(HOUR - 30 * SECOND)
    first = clock.now()
    assert (await ledger.reserve(sliding(60, first), 100)).count == 60
    clock.advance(MINUTE)
    grant = await ledger.reserve(sliding(60, clock.now()), 10)
    assert grant.count == 0
    assert grant.blocked_by is not None
    opens_at = first + 30 * SECOND + HOUR
    assert (grant.blocked_by.reason, grant.blocked_by.deferred_until) == ("rate_per_hour", opens_at)
    clock.advance(opens_at - 1 - clock.now())
    assert (await ledger.reserve(sliding(60, clock.now()), 10)).count == 0
    clock.advance(1)
    assert (await ledger.reserve(sliding(60, clock.now()), 10)).count == 10


@pytest.mark.promise("limits-never-exceeded")
async def test_concurrent_reservations_share_the_sliding_hour(ledger: Ledger, clock: ManualClock) -> None:
    """Two workers with slightly different clocks open two counters at once, and neither sees the other's counter."""
    now = clock.now() + HOUR
    asked = [ledger.reserve(sliding(50, now + (number % 3 - 1) * MINUTE), 3) for number in range(40)]
    assert sum(grant.count for grant in await asyncio.gather(*asked)) == 50


@pytest.mark.promise("limits-never-exceeded")
@pytest.mark.parametrize("number", range(3))
async def test_no_sixty_minutes_exceed_the_limit(ledger: Ledger, clock: ManualClock, number: int) -> None:
    chance = random.Random(number)
    sent: list[Instant] = []
    for _ in range(60):
        clock.advance(chance.choice([0, 999, 20 * SECOND, 3 * MINUTE, 11 * MINUTE]))
        window = sliding(30, clock.now())
        grant = await ledger.reserve(window, wanted := chance.randint(1, 12))
        unused = chance.randint(0, grant.count) if chance.random() < 0.3 else 0
        if unused:
            await ledger.give_back(window, unused)
        sent += [clock.now()] * (grant.count - unused)
        if grant.count < wanted:
            assert grant.blocked_by is not None
            assert clock.now() < grant.blocked_by.deferred_until <= clock.now() + HOUR + MINUTE
    busiest = max(sum(1 for other in sent if moment - HOUR < other <= moment) for moment in sent)
    assert len(sent) > 60
    assert busiest <= 30


async def test_clock_set_back_an_hour_gets_no_second_quota(
    ledger: Ledger, database: Database, clock: ManualClock
) -> None:
    clock.advance(30 * MINUTE)
    hourly = windows(Limits(rate_per_hour=20), 1, clock.now())
    assert (await ledger.reserve(sliding(20, clock.now()), 20)).count == 20
    assert (await ledger.reserve(hourly, 20)).count == 20
    clock.advance(HOUR)
    await DatabaseLedger(database, clock).forget_expired()
    clock.advance(-HOUR)
    assert (await ledger.reserve(sliding(20, clock.now()), 5)).count == 0
    assert (await ledger.reserve(hourly, 5)).count == 0
    clock.advance(365 * 24 * HOUR)
    assert (await ledger.reserve(sliding(20, clock.now()), 5)).count == 5
