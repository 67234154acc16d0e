"""Killed article workers, short version."""

import pytest

from tests.conftest import DatabaseAddress
from tests.faults import articles
from tests.faults.stage import a_stage


@pytest.mark.promise("article-once")
async def test_killed_workers_complete_a_batch_without_duplicates(engine: DatabaseAddress) -> None:
    async with a_stage(engine.url) as stage:
        figures = await articles.run(stage, kills=2, readers=120)
    assert not figures.misses
