"""Killed campaign workers, short version; the long run is `python -m tests.faults campaigns`."""

import pytest

from tests.conftest import DatabaseAddress
from tests.faults import campaigns, repeats
from tests.faults.stage import a_stage


@pytest.mark.promise("campaign-each-once")
async def test_killed_workers_complete_a_campaign_without_duplicates(engine: DatabaseAddress) -> None:
    async with a_stage(engine.url) as stage:
        figures = await campaigns.run(stage, kills=2, readers=200)
    assert not figures.misses


@pytest.mark.promise("campaign-repeats-once")
async def test_killed_workers_send_each_recurring_campaign_once(engine: DatabaseAddress) -> None:
    async with a_stage(engine.url) as stage:
        figures = await repeats.run(stage, kills=2, drafts=3, readers=10)
    assert not figures.misses
