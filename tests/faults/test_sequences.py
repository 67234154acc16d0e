"""Killed workers amid a sequence, short version; the long run is `python -m tests.faults sequences`."""

import pytest

from tests.conftest import DatabaseAddress
from tests.faults import sequences
from tests.faults.stage import a_stage


@pytest.mark.promise("sequence-steps-once")
async def test_killed_workers_run_each_step_once(engine: DatabaseAddress) -> None:
    async with a_stage(engine.url) as stage:
        figures = await sequences.run(stage, kills=2, people=120)
    assert not figures.misses
