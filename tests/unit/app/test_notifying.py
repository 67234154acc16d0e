"""Serving a queue while a database is unavailable."""

import asyncio

import pytest
from structlog.testing import capture_logs

from mailwright.app import notifications
from mailwright.domain.errors import NotDurable


async def test_unavailable_database_is_retried_with_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notifications, "FIRST_BACKOFF_SECONDS", 0.001)
    monkeypatch.setattr(notifications, "MAX_BACKOFF_SECONDS", 0.004)
    is_stopped = asyncio.Event()
    attempts = iter([False, False, False, False, True, False])

    async def task() -> float:
        is_available = next(attempts, None)
        if is_available is None:
            is_stopped.set()
        elif not is_available:
            raise NotDurable("database is locked")
        return 0.0

    with capture_logs() as lines:
        await notifications.repeat(task, is_stopped)
    logged = [(line["event"], line["log_level"], line["retryInSeconds"]) for line in lines]
    assert logged == [("periodic_work_postponed", "warning", pause) for pause in (0.001, 0.002, 0.004, 0.004, 0.001)]
