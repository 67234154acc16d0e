"""Stop the parts of a process together, at the first signal or when their settings have changed."""

import asyncio
import os
import signal
from collections.abc import Callable

from mailwright.ops.child_process import this_child
from mailwright.ops.logs import logger

SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = logger(__name__)


class Shutdown:
    """The first signal starts a graceful shutdown; a second one ends the process at once."""

    def __init__(self) -> None:
        self._stops: list[Callable[[], object]] = []
        self._requested = asyncio.Event()

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._receive, number)
        if (child := this_child()) is not None:
            loop.add_reader(child.lifeline, self._notice_lost_supervisor, child.lifeline)

    def calls(self, stop: Callable[[], object]) -> None:
        """Call `stop` at the first signal, or at once if a signal has already arrived."""
        self._stops.append(stop)
        if self._requested.is_set():
            stop()

    def forget(self, stop: Callable[[], object]) -> None:
        """Unregister `stop`, because the part that it stops has ended."""
        self._stops.remove(stop)

    def request(self) -> None:
        self._requested.set()
        for stop in tuple(self._stops):
            stop()

    async def wait(self) -> None:
        await self._requested.wait()

    def _notice_lost_supervisor(self, lifeline: int) -> None:
        """Shut down as after a signal, because nothing restarts or stops a process without its supervisor."""
        asyncio.get_running_loop().remove_reader(lifeline)
        log.error("supervisor_lost", message="Finishing work in progress.")
        self.request()

    def _receive(self, number: signal.Signals) -> None:
        if self._requested.is_set():
            os._exit(128 + number)
        log.info("stopping", signal=number.name, message="Finishing work in progress. A second signal stops at once.")
        self.request()
