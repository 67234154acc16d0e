"""Background work that runs again and again."""

import asyncio
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from mailwright.domain.errors import NotDurable
from mailwright.ops.periodic import exponential, run_periodically


class Work:
    """Return or raise what the script says, then set `stop`."""

    def __init__(self, *script: float | Exception | None) -> None:
        self.stop = asyncio.Event()
        self.runs = 0
        self._script: Iterator[float | Exception | None] = iter(script)

    async def run(self) -> float | None:
        self.runs += 1
        step = next(self._script, self)
        if step is self:
            self.stop.set()
            return 0.0
        if isinstance(step, Exception):
            raise step
        return step  # type: ignore[return-value]


async def test_work_continues_after_expected_and_unexpected_errors() -> None:
    work = Work(None, NotDurable("locked"), ValueError("a bug"), 0.0)
    with capture_logs() as lines:
        await run_periodically("upkeep", work.run, seconds=0.001, stop=work.stop)
    assert work.runs == 5
    assert [(line["event"], line["work"]) for line in lines] == [
        ("periodic_work_postponed", "upkeep"),
        ("periodic_work_failed", "upkeep"),
    ]


async def test_pause_grows_with_failures_and_resets_after_success() -> None:
    locked = NotDurable("locked")
    work = Work(locked, locked, locked, locked, 0.0, locked)
    with capture_logs() as lines:
        await run_periodically("upkeep", work.run, seconds=9.0, retry_seconds=exponential(0.001, 0.004), stop=work.stop)
    assert [line["retryInSeconds"] for line in lines] == [0.001, 0.002, 0.004, 0.004, 0.001]


async def test_unexpected_error_ends_work_that_must_not_fail() -> None:
    with pytest.raises(ValueError, match="a bug"):
        await run_periodically("upkeep", Work(ValueError("a bug")).run, seconds=0.0, raises_unexpected=True)


async def test_stop_ends_a_long_pause_at_once() -> None:
    work = Work(60.0)
    running = asyncio.create_task(run_periodically("upkeep", work.run, seconds=60.0, stop=work.stop))
    await asyncio.sleep(0)
    work.stop.set()
    await asyncio.wait_for(running, timeout=1)
    assert work.runs == 1
