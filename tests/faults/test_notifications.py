"""Killed queue workers, short version; the long run is `python -m tests.faults notifications`."""

from tests.conftest import DatabaseAddress
from tests.faults import notifications
from tests.faults.stage import a_stage


async def test_killed_workers_report_every_notification_once(engine: DatabaseAddress) -> None:
    async with a_stage(engine.url) as stage:
        figures = await notifications.run(stage, kills=2, events=20, readers=12)
    assert not figures.misses, figures.misses
