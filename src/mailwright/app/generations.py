"""Use changed settings without a restart: run with a new engine while the old one finishes its requests and attempts.

The old worker claims nothing more, finishes the attempts that are on a connection and records their results, exactly as
in a graceful shutdown. The new worker claims the rest. An attempt records its provider, so that a message that the old
provider may have received never goes to the new one.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from mailwright.app.shutdown import Shutdown
from mailwright.app.stored_settings import EffectiveSettings, wait_until_changed
from mailwright.app.verify import verify
from mailwright.app.wiring import Engine, engine_with
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.ops.logs import logger

log = logger(__name__)

Run = Callable[[Engine, Shutdown], Coroutine[Any, Any, None]]


async def follow_settings(engine: Engine, shutdown: Shutdown, run: Run) -> None:
    """Call `run` with the engine until the shutdown, and with another engine each time the settings change.

    The caller closes the first engine.
    """
    async with asyncio.TaskGroup() as generations:
        generations.create_task(_run(engine, run, stopping := Shutdown(), shutdown))
        while (changed := await _next_settings(engine, stopping)) is not None:
            address = changed.settings.public_url
            log.info("settings_changed", version=changed.version, address=address, problems=len(changed.problems))
            stopping.request()
            engine = _engine_after(engine, changed)
            generations.create_task(_run_and_close(engine, run, stopping := Shutdown(), shutdown))


async def _run(engine: Engine, run: Run, stopping: Shutdown, shutdown: Shutdown) -> None:
    stop = stopping.request
    shutdown.calls(stop)
    await run(engine, stopping)
    shutdown.forget(stop)


async def _run_and_close(engine: Engine, run: Run, stopping: Shutdown, shutdown: Shutdown) -> None:
    try:
        await _run(engine, run, stopping, shutdown)
    finally:
        await engine.close()


async def _next_settings(engine: Engine, stopping: Shutdown) -> EffectiveSettings | None:
    """Return the settings after the next change, or None if the shutdown comes first."""
    following = asyncio.ensure_future(
        wait_until_changed(engine.settings, engine.settings_version, engine.database, engine.settings_saved)
    )
    stopping.calls(following.cancel)
    try:
        await asyncio.wait({following})
    finally:
        following.cancel()
    return None if following.cancelled() else following.result()


def _engine_after(engine: Engine, changed: EffectiveSettings) -> Engine:
    """Build the next engine. If the settings do not work together, it keeps the old ones and must not send."""
    try:
        verify(changed.settings)
    except ConfigurationInvalid as error:
        problems = (*changed.problems, *error.problems)
        changed = replace(changed, settings=engine.settings, problems=problems)
    return engine_with(changed, engine.clock, engine.database, engine.settings_saved)
