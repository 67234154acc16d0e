"""The reserve for transactional messages, on both engines: bulk messages leave a part of every limit."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mailwright.access.roles import Role
from mailwright.app.limits import default_limits
from mailwright.domain.clock import DAY, HOUR, MINUTE, ManualClock
from mailwright.domain.explanation import LimitScope, ReachedLimit
from mailwright.domain.permits import LimitWindow, QuotaSnapshot
from mailwright.outbox.limits import DefaultLimits
from mailwright.policies.reserve import keep_reserve, quota_for_bulk, reserved_part
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.queue_progress import queue_progress
from mailwright.texts.explanations import bulk_limit_text
from mailwright.web.app import create_app
from tests.builders import DEFAULT_TENANT, Bench, a_bench, a_message, a_newsletter
from tests.conftest import DatabaseAddress
from tests.contract.campaigns.test_forecast import a_queued_campaign
from tests.pages import HOME, PASSWORD, a_visit
from tests.standins.provider import ScriptedProvider

LIMITS = {
    "hour": {"rate_per_hour": 100},
    "sliding hour": {"rate_per_hour": 100, "sliding_hour": True},
    "day": {"daily_limit": 100},
    "warm-up": {"warmup_since": "2027-01-01", "warmup_start": 100, "warmup_factor": 1},
    "domain": {"domain_limits": "example.com=100/s"},
}


@pytest.fixture(params=LIMITS.values(), ids=LIMITS.keys())
async def limited(request: pytest.FixtureRequest, engine: DatabaseAddress, clock: ManualClock) -> AsyncIterator[Bench]:
    limits: dict[str, Any] = request.param
    async with a_bench(engine.url, clock, reserve_percent=10, **limits) as bench:
        yield bench


@pytest.mark.promise("transactional-first")
async def test_bulk_leaves_a_tenth_of_every_limit(limited: Bench) -> None:
    await limited.accept(*(a_newsletter() for _ in range(120)))
    provider = ScriptedProvider()
    await limited.drain(provider)
    assert len(provider.messages) == 90
    ids = await limited.accept(*(a_message() for _ in range(10)))
    await limited.drain(provider)
    assert provider.outbox_ids[90:] == ids


@pytest.mark.promise("transactional-first")
async def test_transactional_messages_alone_use_the_whole_limit(limited: Bench) -> None:
    await limited.accept(*(a_message() for _ in range(120)))
    provider = ScriptedProvider()
    await limited.drain(provider)
    assert len(provider.messages) == 100


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS.keys())
async def test_without_a_reserve_bulk_uses_the_whole_limit(
    engine: DatabaseAddress, clock: ManualClock, limits: dict[str, Any]
) -> None:
    async with a_bench(engine.url, clock, reserve_percent=0, **limits) as bench:
        await bench.accept(*(a_newsletter() for _ in range(120)))
        provider = ScriptedProvider()
        await bench.drain(provider)
        assert len(provider.messages) == 100


@pytest.mark.parametrize(
    ("percent", "sentence"),
    [
        (10, "Hourly limit: 90 of 100 for bulk, 10 kept for transactional email."),
        (0, "Hourly limit: 100, all of it for bulk."),
    ],
)
async def test_poll_forecast_and_pages_name_the_reserve(
    engine: DatabaseAddress, clock: ManualClock, percent: int, sentence: str
) -> None:
    async with a_bench(engine.url, clock, reserve_percent=percent, rate_per_hour=100, base_url=HOME) as bench:
        campaign = await a_queued_campaign(bench, 200)
        poll = await queue_progress(bench.database, clock, bench.engine.defaults, tenant_id=DEFAULT_TENANT)
        foreseen = await forecast(bench.database, clock, bench.engine.defaults, tenant_id=DEFAULT_TENANT)
        assert [bulk_limit_text(limit) for limit in poll.limits] == [sentence]
        assert poll.limits == foreseen.limits
        await bench.engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
        async with a_visit(create_app(bench.engine)) as visit:
            for page in ("/overview/forecast", f"/campaigns/{campaign.campaign_id}/forecast"):
                assert sentence in (await visit.open(page)).words()


@pytest.mark.promise("transactional-first")
async def test_explanation_and_forecast_know_the_reserve(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with a_bench(engine.url, clock, reserve_percent=10, rate_per_hour=100) as bench:
        campaign = await a_queued_campaign(bench, 200)
        defaults = DefaultLimits(default_limits(bench.engine.settings))
        foreseen = await forecast(bench.database, clock, defaults, tenant_id=DEFAULT_TENANT)
        sent = [segment.sent for segment in foreseen.campaigns[0].segments if segment.sent]
        assert sent == [90, 90, 20]
        await bench.drain(ScriptedProvider())
        found = await explain_campaign(bench.database, clock, defaults, campaign.campaign_id, tenant_id=None)
        assert found.limit == ReachedLimit("rate_per_hour", LimitScope.INSTALLATION, "default", 90, 100, reserved=10)
        later = (await forecast(bench.database, clock, defaults, tenant_id=DEFAULT_TENANT)).campaigns[0]
        assert [segment.sent for segment in later.segments if segment.sent] == [90, 20]


@pytest.mark.parametrize(
    ("limit", "percent", "reserved"), [(100, 10, 10), (5, 10, 1), (1, 10, 0), (0, 10, 0), (100, 0, 0), (2, 90, 1)]
)
def test_reserve_is_at_least_one_and_never_everything(limit: int, percent: int, reserved: int) -> None:
    assert reserved_part(limit, percent) == reserved
    window = keep_reserve(LimitWindow("w", limit, HOUR, "rate_per_hour", HOUR), percent)
    assert (window.limit, window.reserved) == (limit - reserved, reserved)


def test_quota_keeps_a_part_of_the_daily_quota() -> None:
    quota = QuotaSnapshot(("ses",), remaining=150, synced_at=0, sync_every=5 * MINUTE, per_day=1_000)
    bulk = quota_for_bulk(quota, 10)
    assert bulk is not None
    assert (bulk.remaining, bulk.per_day) == (50, 900)
    nearly_empty = quota_for_bulk(QuotaSnapshot(("ses",), 80, 0, DAY, per_day=1_000), 10)
    assert nearly_empty is not None
    assert nearly_empty.remaining == 0
