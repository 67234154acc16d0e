"""Run background work periodically, and continue after failures."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from mailwright.domain.errors import MailwrightError, NotDurable
from mailwright.ops.logs import logger

log = logger(__name__)

MAX_EXPONENT = 30


def exponential(first: float, longest: float) -> Callable[[int], float]:
    """Return an exponential backoff: a function from the number of consecutive failures to the pause in seconds.

    The pause is `first` after the first failure, doubles each time, and is at most `longest`.
    """
    return lambda failures: min(first * 2 ** min(failures - 1, MAX_EXPONENT), longest)


async def run_periodically(
    name: str,
    work: Callable[[], Awaitable[float | None]],
    *,
    seconds: float,
    expected: tuple[type[MailwrightError], ...] = (NotDurable,),
    logs_expected: bool = True,
    raises_unexpected: bool = False,
    retry_seconds: Callable[[int], float] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run `work` until `stop` is set or the task is cancelled.

    `work` returns the pause before its next run in seconds; None means `seconds`. An expected error is logged as a
    warning, an unexpected one with its traceback. After an error, the pause is `retry_seconds` of the number of
    consecutive failures, or `seconds` if `retry_seconds` is None.
    """
    failures = 0
    while stop is None or not stop.is_set():
        try:
            pause = await work()
            failures = 0
        except expected as error:
            failures += 1
            pause = retry_seconds(failures) if retry_seconds else seconds
            if logs_expected:
                log.warning(
                    "periodic_work_postponed", work=name, code=error.code, reason=str(error), retryInSeconds=pause
                )
        except Exception as error:
            if raises_unexpected:
                raise
            failures += 1
            pause = retry_seconds(failures) if retry_seconds else seconds
            log.error("periodic_work_failed", work=name, retryInSeconds=pause, exc_info=error)
        await _sleep(seconds if pause is None else pause, stop)


async def _sleep(seconds: float, stop: asyncio.Event | None) -> None:
    if stop is None:
        await asyncio.sleep(seconds)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
