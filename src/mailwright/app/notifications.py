"""Serve a notification queue: open it and fan out its rows alongside a sending worker."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from mailwright.app.notification_queue import make_fanout, open_configured_queue
from mailwright.app.serving import work
from mailwright.app.shutdown import Shutdown
from mailwright.app.wiring import Engine
from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.ops.periodic import exponential, run_periodically
from mailwright.sources.notifications.fanout import NotificationFanout
from mailwright.sources.notifications.tables import redacted_url

# The pause between two polls of the queue when nothing is due.
POLL_SECONDS = 0.5
# How often results are recorded while messages are being sent.
RECORD_SECONDS = 0.1
# After this many rows, results are recorded before more rows are processed.
MAX_ROWS_PER_CLAIM = 1_000
# The maximum number of locked rows per worker, because each lock must be renewed while its message waits.
MAX_LOCKED_ROWS = 5_000
# After a poll that found nothing to do, pause this many times its duration, so that a worker is not kept busy by
# thousands of rows that wait for their delivery window. A maximum pause ensures that new rows do not wait long.
PAUSE_PER_POLL = 9
MAX_PAUSE_SECONDS = 5.0
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.1, 5.0

log = logger(__name__)


async def notify(engine: Engine, shutdown: Shutdown, *, drain: bool) -> None:
    """Serve the queue until shutdown; with `drain`, until nothing is due."""
    async with open_configured_queue(engine.settings, engine.database) as queue:
        fanout = await make_fanout(engine.settings, engine.database, engine.clock, engine.templates, queue)
        log.info("queue_opened", queue=redacted_url(queue.database), drain=drain)
        if drain:
            await _drain(engine, fanout, shutdown)
        else:
            await _serve(engine, fanout, shutdown)
        log.info("queue_closed")


async def _drain(engine: Engine, fanout: NotificationFanout, shutdown: Shutdown) -> None:
    is_stopped = asyncio.Event()
    shutdown.calls(is_stopped.set)
    while not is_stopped.is_set():
        recorded = await fanout.record_results()
        claimed = await fanout.claim_due(MAX_ROWS_PER_CLAIM * 10)
        async with _maintaining(fanout):
            await work(engine, shutdown, drain=True)
        recorded += await fanout.record_results()
        if not recorded and not claimed:
            break
    await fanout.locks.release()


async def _serve(engine: Engine, fanout: NotificationFanout, shutdown: Shutdown) -> None:
    async with _maintaining(fanout), _claiming(engine, fanout, shutdown):
        await work(engine, shutdown, drain=False)
    with suppress(NotDurable):
        await fanout.record_results()
        await fanout.locks.release()


@asynccontextmanager
async def _maintaining(fanout: NotificationFanout) -> AsyncIterator[None]:
    """Record results and renew locks in the background."""

    async def maintain() -> float:
        await fanout.record_results()
        await fanout.locks.renew()
        return RECORD_SECONDS

    async with _in_background(repeat(maintain, asyncio.Event())):
        yield


@asynccontextmanager
async def _claiming(engine: Engine, fanout: NotificationFanout, shutdown: Shutdown) -> AsyncIterator[None]:
    is_stopped = asyncio.Event()
    shutdown.calls(is_stopped.set)

    async def claim_due() -> float:
        room = MAX_LOCKED_ROWS - await fanout.locks.count()
        if room <= 0:
            return RECORD_SECONDS
        began = time.monotonic()
        if await fanout.claim_due(min(room, MAX_ROWS_PER_CLAIM)):
            engine.wake.set()
            return 0.0
        return min(max(POLL_SECONDS, PAUSE_PER_POLL * (time.monotonic() - began)), MAX_PAUSE_SECONDS)

    async with _in_background(repeat(claim_due, is_stopped)):
        yield


def repeat(task: Callable[[], Awaitable[float]], is_stopped: asyncio.Event) -> Coroutine[Any, Any, None]:
    """Run a periodic task of the queue until stopped. If a database is unavailable, retry after growing pauses."""
    return run_periodically(
        "notifications",
        task,
        seconds=POLL_SECONDS,
        raises_unexpected=True,
        retry_seconds=exponential(FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS),
        stop=is_stopped,
    )


@asynccontextmanager
async def _in_background(task: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run the task in the background; if it fails, the body is cancelled too."""
    async with asyncio.TaskGroup() as tasks:
        background = tasks.create_task(task)
        try:
            yield
        finally:
            background.cancel()
