"""Serving a queue while a database is out of reach: that is told, tried again, and never ends the worker."""

import asyncio

import pytest
from structlog.testing import capture_logs

from mailwright.app import notifications
from mailwright.domain.errors import NotDurable


async def test_a_database_out_of_reach_is_told_each_time_with_pauses_that_grow_and_begin_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notifications, "FIRST_BACKOFF_SECONDS", 0.001)
    monkeypatch.setattr(notifications, "LONGEST_BACKOFF_SECONDS", 0.004)
    is_stopped = asyncio.Event()
    tries = iter([False, False, False, False, True, False])

    async def duty() -> float:
        is_in_reach = next(tries, None)
        if is_in_reach is None:
            is_stopped.set()
        elif not is_in_reach:
            raise NotDurable("database is locked")
        return 0.0

    with capture_logs() as lines:
        await notifications.repeat(duty, is_stopped)
    told = [(line["event"], line["log_level"], line["retryInSeconds"]) for line in lines]
    assert told == [("periodic_work_postponed", "warning", pause) for pause in (0.001, 0.002, 0.004, 0.004, 0.001)]
