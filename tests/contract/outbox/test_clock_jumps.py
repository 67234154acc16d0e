"""After a clock jump no message is sent early, twice or not at all, on both engines."""

from collections.abc import AsyncIterator

import pytest

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant, ManualClock
from mailwright.domain.states import Status
from mailwright.outbox.audit import audit
from tests.builders import Bench, a_bench, a_message, a_newsletter, change_tenant
from tests.campaigns import CampaignHarness
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider
from tests.unit.test_policies import at

YEAR: Instant = 365 * DAY


@pytest.fixture
async def bench(engine: DatabaseAddress, clock: ManualClock) -> AsyncIterator[Bench]:
    async with a_bench(engine.url, clock) as bench:
        yield bench
        assert (await audit(bench.database)).ok


@pytest.mark.promise("clock-jumps")
@pytest.mark.parametrize("jump", [HOUR, -HOUR, YEAR], ids=["an hour on", "an hour back", "a year on"])
async def test_backlog_is_sent_once_despite_clock_jumps(bench: Bench, jump: Instant) -> None:
    await change_tenant(bench.database, rate_per_hour=5)
    await bench.accept(*(a_newsletter() for _ in range(12)))
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert len(provider.messages) == 5
    bench.clock.advance(jump)
    await bench.drain(provider)
    assert len(provider.messages) == (5 if jump < 0 else 10)  # A repeated hour has no permits left.
    for _ in range(4):
        bench.clock.advance(HOUR)
        await bench.drain(provider)
    assert len(set(provider.outbox_ids)) == len(provider.messages) == 12
    assert await bench.statuses() == {Status.SENT: 12}


@pytest.mark.promise("clock-jumps")
@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["an hour on", "an hour back"])
async def test_scheduled_message_is_sent_once_despite_clock_jumps(bench: Bench, jump: Instant) -> None:
    due = bench.clock.now() + 2 * HOUR
    await bench.accept(a_message(scheduled_at=due))
    provider = ScriptedProvider()
    bench.clock.advance(jump)
    await bench.drain(provider)
    assert provider.messages == []
    bench.clock.advance(due - 1 - bench.clock.now())
    await bench.drain(provider)
    assert provider.messages == []
    bench.clock.advance(1)
    await bench.drain(provider)
    bench.clock.advance(-HOUR)
    await bench.drain(provider)
    bench.clock.advance(2 * HOUR)
    await bench.drain(provider)
    assert len(provider.messages) == 1


@pytest.mark.promise("clock-jumps")
@pytest.mark.parametrize("jump", [HOUR, -HOUR, YEAR], ids=["an hour on", "an hour back", "a year on"])
async def test_clock_jump_delays_an_interval_at_most_once(bench: Bench, jump: Instant) -> None:
    await change_tenant(bench.database, interval_ms=10 * SECOND)
    await bench.accept(a_newsletter())
    provider = ScriptedProvider()
    await bench.drain(provider)
    bench.clock.advance(jump)
    await bench.accept(a_newsletter(), a_newsletter())
    for _ in range(3):
        before = len(provider.messages)
        await bench.drain(provider)
        assert len(provider.messages) - before <= 1
        bench.clock.advance(10 * SECOND)
    assert len(provider.messages) == 3


@pytest.mark.promise("clock-jumps")
@pytest.mark.parametrize(
    ("evening", "opens"),
    [("2027-03-27T20:00", "2027-03-28T08:00"), ("2027-10-30T20:00", "2027-10-31T09:00")],
    ids=["clocks go on", "clocks go back"],
)
async def test_working_hours_follow_daylight_saving_time_of_the_recipient(
    bench: Bench, evening: str, opens: str
) -> None:
    """Nine o'clock in Lisbon is eight by UTC in summer, and nine in winter."""
    bench.clock.advance(at(evening) - bench.clock.now())
    await change_tenant(bench.database, working_hours="09:00-18:00", timezone="Europe/Lisbon", daily_limit=2)
    await CampaignHarness(bench).start(3)
    provider = ScriptedProvider()
    await bench.drain(provider)
    while bench.clock.now() < at(opens) - MINUTE:
        bench.clock.advance(min(2 * HOUR, at(opens) - MINUTE - bench.clock.now()))
        await bench.drain(provider)
        assert provider.messages == []
    bench.clock.advance(MINUTE)
    await bench.drain(provider)
    assert len(provider.messages) == 2
    bench.clock.advance(DAY)
    await bench.drain(provider)
    assert len(set(provider.outbox_ids)) == len(provider.messages) == 3
