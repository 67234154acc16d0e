"""An article whose workers are killed, at a size for every day."""

import pytest

from tests.conftest import DatabaseAddress
from tests.faults import articles
from tests.faults.stage import a_stage


@pytest.mark.promise("article-resumed")
async def test_a_batch_whose_workers_are_killed_is_completed_and_nobody_gets_it_twice(engine: DatabaseAddress) -> None:
    async with a_stage(engine.url) as stage:
        figures = await articles.run(stage, kills=2, readers=300)
    assert not figures.misses
