"""A short run of killed SMTP servers."""

import pytest

from tests.faults import submissions
from tests.faults.stage import Stage


@pytest.mark.promise("smtp-durable")
async def test_killed_smtp_server_keeps_exactly_what_it_accepted(stage: Stage) -> None:
    figures = await submissions.run(stage, kills=2, emails=300)
    assert figures.misses == []
