"""Run several processes of one command: start them, restart each one that ends, and stop all of them together.

The processes coordinate through the database, as separate workers do. The supervisor sends and accepts nothing itself.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from prometheus_client import start_http_server
from prometheus_client.multiprocess import mark_process_dead

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.child_process import ChildProcess
from mailwright.ops.logs import logger
from mailwright.ops.metrics import shared_registry
from mailwright.ops.periodic import exponential
from mailwright.ops.settings import Settings
from mailwright.ops.temporary_folder import TemporaryFolder, open_temporary_folder

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# A process that ends is restarted after this pause, which doubles while it keeps ending soon after its start.
RESTART_SECONDS: Final = exponential(0.5, 30.0)
STABLE_SECONDS: Final = 60.0
# The supervisor gives up if no process runs and one of them failed to start this many times in a row.
MAX_FAILED_STARTS: Final = 5
# Processes that have not ended this long after the shutdown grace period are killed.
KILL_AFTER_GRACE_SECONDS: Final = 10.0

# The processes keep their metrics in a folder with this prefix.
METRICS_PREFIX: Final = "mailwright-metrics-"

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The processes to run."""

    arguments: Sequence[str]  # The command line arguments of `mailwright`.
    count: int
    sends: bool = True
    drains: bool = False  # A process with exit code 0 has finished and is not restarted.
    listener: socket.socket | None = None


def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def supervise(group: ProcessGroup, settings: Settings) -> int:
    """Run the processes until they are stopped or have finished, and return the exit code."""
    with open_temporary_folder(METRICS_PREFIX) as metrics:
        if settings.metrics_port is not None and group.listener is None:
            start_http_server(settings.metrics_port, settings.host, shared_registry(metrics.path))
        return asyncio.run(Supervisor(group, metrics, settings.shutdown_grace_seconds).run())


@dataclass(slots=True)
class _Child:
    number: int
    process: asyncio.subprocess.Process
    control: socket.socket  # Readable when the child has started or ended.
    lifeline: int  # The writing end of the pipe that closes when this process ends.
    has_started: bool = False

    async def wait_until_started(self) -> bool:
        self.has_started = bool(await asyncio.get_running_loop().sock_recv(self.control, 1))
        return self.has_started

    async def wait(self) -> int:
        code = await self.process.wait()
        self.control.close()
        os.close(self.lifeline)
        return code

    def send(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)


class Supervisor:
    def __init__(self, group: ProcessGroup, metrics: TemporaryFolder, grace_seconds: float) -> None:
        self._group = group
        self._metrics = metrics
        self._grace_seconds = grace_seconds
        self._children: dict[int, _Child] = {}
        self._has_started = asyncio.Event()  # Whether any process has ever started.
        self._is_stopping = asyncio.Event()
        self._exit_code = 0

    async def run(self) -> int:
        """Run the processes. Start one first, so that an error at the start is reported only once."""
        for signal_number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(signal_number, self._receive, signal_number)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(self._keep_running(1))
            started = tasks.create_task(self._has_started.wait())
            await asyncio.wait([first, started], return_when=asyncio.FIRST_COMPLETED)
            if self._has_started.is_set():
                log.info("supervisor_started", processes=self._group.count)
                for number in range(2, self._group.count + 1):
                    tasks.create_task(self._keep_running(number))
            started.cancel()
        log.info("supervisor_stopped", exitCode=self._exit_code)
        return self._exit_code

    async def _keep_running(self, number: int) -> None:
        """Run one process, and restart it until the supervisor stops."""
        loop, failures = asyncio.get_running_loop(), 0
        while not self._is_stopping.is_set():
            began = loop.time()
            child = await self._start(number, is_restart=failures > 0)
            if await child.wait_until_started():
                self._has_started.set()
            code = await child.wait()
            del self._children[number]
            mark_process_dead(number, str(self._metrics.path))  # type: ignore[no-untyped-call]
            if self._is_stopping.is_set() or (self._group.drains and code == 0):
                self._note_end(child, code)
                return
            failures = 1 if loop.time() - began >= STABLE_SECONDS else failures + 1
            if self._is_hopeless(child, failures):
                self._give_up(child, code)
                return
            await self._pause(child, code, RESTART_SECONDS(failures))

    async def _start(self, number: int, *, is_restart: bool) -> _Child:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        end, lifeline = os.pipe()
        listener = None if self._group.listener is None else self._group.listener.fileno()
        place = ChildProcess(
            number,
            self._group.count,
            theirs.fileno(),
            end,
            sends=self._group.sends,
            listener=listener,
            is_restart=is_restart,
        )
        with theirs, os.fdopen(end):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "mailwright", *self._group.arguments),
                env=os.environ | place.environment(str(self._metrics.path)),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), end, self._metrics.lock, *([] if listener is None else [listener])],
                process_group=0,  # Ctrl-C then reaches only the supervisor, which forwards it once.
            )
        child = self._children[number] = _Child(number, process, ours, lifeline)
        if self._is_stopping.is_set():
            child.send(signal.SIGTERM)
        return child

    def _is_hopeless(self, child: _Child, failures: int) -> bool:
        if not self._has_started.is_set():
            return True
        is_alone = not any(other.has_started for other in self._children.values())
        return not child.has_started and is_alone and failures >= MAX_FAILED_STARTS

    def _give_up(self, child: _Child, code: int) -> None:
        """End with the exit code of the process, which has printed its error."""
        log.error("process_cannot_start", process=child.number, processes=self._group.count, exitCode=code)
        self._exit_code = _exit_code(code)
        self._stop()

    async def _pause(self, child: _Child, code: int, seconds: float) -> None:
        log.error("process_ended", process=child.number, pid=child.process.pid, exitCode=code, restartInSeconds=seconds)
        try:
            async with asyncio.timeout(seconds):
                await self._is_stopping.wait()
        except TimeoutError:
            return

    def _receive(self, number: signal.Signals) -> None:
        if self._is_stopping.is_set():
            self._exit_code = 128 + number
            self._send(signal.SIGKILL)  # A second SIGTERM could merge with the first one.
            return
        log.info("stopping", signal=number.name, message="Finishing work in progress. A second signal stops at once.")
        self._stop()

    def _stop(self) -> None:
        self._is_stopping.set()
        self._send(signal.SIGTERM)
        seconds = self._grace_seconds + KILL_AFTER_GRACE_SECONDS
        asyncio.get_running_loop().call_later(seconds, self._kill)

    def _kill(self) -> None:
        log.error("processes_killed", processes=sorted(self._children), message="They did not stop in time.")
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        for child in self._children.values():
            child.send(number)

    def _note_end(self, child: _Child, code: int) -> None:
        """Keep the exit code of a failed process, unless it was still starting and so had nothing to finish."""
        if code != 0 and child.has_started and self._exit_code == 0:
            self._exit_code = _exit_code(code)


def _exit_code(code: int) -> int:
    """Return the exit code as a shell reports it: 128 plus the signal number if a signal ended the process."""
    return code if code >= 0 else 128 - code
