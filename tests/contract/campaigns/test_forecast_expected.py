"""The forecast of campaigns beside sequences and recurring campaigns, compared with real workers on both engines."""

from typing import Any

import pytest
from sqlalchemy import delete, insert, select

from mailwright.actions.campaign_explanations import forecast_response
from mailwright.app.limits import default_limits
from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant
from mailwright.domain.message import Source
from mailwright.domain.states import Status
from mailwright.outbox.limits import DefaultLimits
from mailwright.sources.campaigns.forecast import Forecast, forecast
from mailwright.sources.campaigns.repeat_worker import RepeatWorker
from mailwright.sources.campaigns.repeats import CampaignRepeats
from mailwright.sources.recurrence_fields import ScheduleFields
from mailwright.storage.tables import deliveries, messages, provider_routes
from tests.builders import DEFAULT_TENANT, Bench, a_tenant, change_tenant
from tests.campaigns import OPERATOR, CampaignHarness, address_of, join
from tests.sequences import SequenceBench, a_wait, an_email
from tests.standins.provider import ScriptedProvider

# The clock stands still while workers send, so the forecast assumes workers that need no time.
AT_ONCE = 1_000_000.0
EVERY_DAY = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


async def a_forecast(bench: Bench, tenant_id: int | None = None) -> Forecast:
    defaults = DefaultLimits(default_limits(bench.engine.settings), {})
    return await forecast(bench.database, bench.clock, defaults, tenant_id=tenant_id, measured_rate=AT_ONCE)


class Everything:
    """A queue of campaigns beside a sequence, and all duties of a worker."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.harness = CampaignHarness(bench)
        self.sequences = SequenceBench(bench)
        self.repeater = RepeatWorker(bench.database, bench.clock, self.harness.campaigns, bench.engine.templates)

    async def readers(self, number: int) -> list[str]:
        emails = [address_of(each) for each in range(number)]
        await join(self.bench.database, emails)
        return emails

    async def campaign(self, **changes: Any) -> str:
        campaign_id = await self.harness.start(**changes)
        await self.harness.run_scheduler()
        return campaign_id

    async def finishes(self, campaign_id: str, expected: Instant) -> Instant:
        """Let workers run until the campaign has no unsent message, and return when that is.

        They run every hour, and every ten minutes from half an hour before the expected time.
        """
        provider = ScriptedProvider()
        campaign_key = (await self.harness.campaign(campaign_id)).key
        mine = select(messages.c.id).where(messages.c.campaign_key == campaign_key)
        while self.bench.clock.now() < expected + DAY:
            await self.repeater.tick()
            await self.harness.run_scheduler()
            await self.sequences.run()
            await self.bench.drain(provider)
            async with self.bench.database.read() as tx:
                rows = await tx.execute(select(deliveries.c.status).where(deliveries.c.message_key.in_(mine)))
            if rows and all(row.status == Status.SENT for row in rows):
                return self.bench.clock.now()
            left = expected - 30 * MINUTE - self.bench.clock.now()
            self.bench.clock.advance(min(left, HOUR) if left > 0 else 10 * MINUTE)
        pytest.fail("The campaign did not finish.")


@pytest.mark.promise("forecast-comes-true")
async def test_emails_of_sequences_go_before_the_campaign(bench: Bench) -> None:
    all_ = Everything(bench)
    emails = await all_.readers(30)
    await change_tenant(bench.database, rate_per_hour=20)
    key = await all_.sequences.start(an_email(), a_wait(minutes=30), an_email("second"))
    await all_.sequences.enrol(key, *emails[:10])
    campaign_id = await all_.campaign()
    alone = bench.clock.now() + HOUR
    found = await a_forecast(bench)
    # Ten first emails are due now, and the second ones only after the wait of the first.
    assert (found.sequence_emails, found.occurrences) == (10, 0)
    await all_.sequences.run()
    bench.clock.advance(MINUTE)
    found = await a_forecast(bench)
    assert found.sequence_emails == 20  # Ten wait in the outbox, ten are due in half an hour.
    [course] = found.campaigns
    assert course.finishes_at is not None
    assert course.finishes_at > alone
    assert "Includes about 20 emails of sequences." in forecast_response(found).assumptions
    finished = await all_.finishes(campaign_id, course.finishes_at)
    assert abs(course.finishes_at - finished) <= 10 * MINUTE


@pytest.mark.promise("forecast-comes-true")
async def test_recurring_campaign_uses_the_limit_of_the_day(bench: Bench) -> None:
    all_ = Everything(bench)
    await all_.readers(30)
    await change_tenant(bench.database, daily_limit=40)
    now = bench.clock.now()
    base = await all_.harness.create(name="Daily")
    repeats = CampaignRepeats(
        bench.database, bench.clock, all_.harness.campaigns, bench.engine.templates, fetch=_no_feed
    )
    repeat = await repeats.set(OPERATOR, base, ScheduleFields(weekdays=EVERY_DAY, time="09:00", timezone="UTC"))
    assert now < repeat.next_at < now + DAY
    later = await all_.campaign(scheduledAt=repeat.next_at + HOUR)
    found = await a_forecast(bench)
    [course] = found.campaigns
    # The recurring campaign has no last audience yet, so its 30 readers are counted; ten are left for the other one.
    assert course.finishes_at is not None
    assert course.finishes_at > repeat.next_at + 12 * HOUR
    assert (found.occurrences, found.occurrence_emails) == (1, 30)
    finished = await all_.finishes(later, course.finishes_at)
    assert abs(course.finishes_at - finished) <= 10 * MINUTE


async def test_other_sequences_are_not_part_of_the_forecast(bench: Bench) -> None:
    all_ = Everything(bench)
    emails = await all_.readers(10)
    await change_tenant(bench.database, rate_per_hour=5)
    key = await all_.sequences.start(a_wait(minutes=30), an_email())
    await all_.sequences.enrol(key, *emails)
    await all_.sequences.run()
    await all_.campaign()
    stranger = await a_tenant(bench.database, "other")
    assert (await a_forecast(bench)).sequence_emails == 10
    assert (await a_forecast(bench, stranger)).sequence_emails == 0  # Another tenant does not see the number.
    await all_.sequences.engine.sequences.enrolments.remove(DEFAULT_TENANT, key, emails[0], actor="console")
    assert (await a_forecast(bench)).sequence_emails == 9
    # With a provider of their own, they do not use the limits of the campaign's provider.
    route = {"tenant_id": DEFAULT_TENANT, "source": Source.SEQUENCE, "provider": "acme-smtp"}
    async with bench.database.write() as tx:
        await tx.execute(insert(provider_routes).values(**route, updated_at=0, updated_by="console"))
    assert (await a_forecast(bench)).sequence_emails == 0
    async with bench.database.write() as tx:
        await tx.execute(delete(provider_routes))
    await all_.sequences.engine.sequences.pause(DEFAULT_TENANT, key, actor="console")
    assert (await a_forecast(bench)).sequence_emails == 0


async def _no_feed(_url: str) -> Any:
    raise AssertionError("nothing is fetched")
