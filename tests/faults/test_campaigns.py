"""A campaign whose workers are killed, at a size for every day; the long run is `python -m tests.faults campaigns`."""

import pytest

from tests.conftest import DatabaseAddress
from tests.faults import campaigns
from tests.faults.stage import a_stage


@pytest.mark.promise("campaign-each-once")
async def test_a_campaign_whose_workers_are_killed_reaches_everyone_and_nobody_twice(engine: DatabaseAddress) -> None:
    async with a_stage(engine.url) as stage:
        figures = await campaigns.run(stage, kills=2, readers=300)
    assert not figures.misses
