"""Child processes: forked from a warm process, signalled and ended by their ID."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.warm import PidPipe, warm_command

# Of a release with other modules than the warm process.
COLD_COMMAND = (sys.executable, "-m", "mailwright")


class TookTooLong(AssertionError):
    """The expected condition did not occur in time."""


class Process:
    """A child process whose output goes to a file, which also shows when it is ready."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: Path, cwd: Path, *, is_warm: bool = True
    ) -> None:
        self.log = log
        with log.open("wb") as output, PidPipe() as pipe:
            self._popen = subprocess.Popen(
                [*(warm_command() if is_warm else COLD_COMMAND), *arguments],
                env={**environment, **pipe.environment},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[pipe.descriptor],
                start_new_session=True,  # Ctrl-C reaches only the test run, which then ends its children.
            )
            self.pid = pipe.read() if is_warm else self._popen.pid

    @property
    def exit_code(self) -> int | None:
        return self._popen.poll()

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill it and wait until it is gone."""
        if self.exit_code is None:
            self.signal(signal.SIGKILL)
            self._popen.wait()

    def signal(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):  # It ends just now.
                os.kill(self.pid, number)

    async def says(self, words: str, seconds: float = 30.0) -> None:
        await until(lambda: words in self.said or self._has_ended(words), seconds, f"{words!r} in {self.log}")

    async def ended(self, seconds: float = 40.0) -> int:
        await until(lambda: self.exit_code is not None, seconds, f"the end of {self.log.stem}")
        assert self.exit_code is not None
        return self.exit_code

    def _has_ended(self, waiting_for: str) -> bool:
        if self.exit_code is not None and waiting_for not in self.said:
            raise AssertionError(
                f"{self.log.stem} ended with {self.exit_code} before {waiting_for!r}: {self.said[-800:]}"
            )
        return False


async def until(is_so: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TookTooLong(f"waited {seconds:g} s for {what}")
        await asyncio.sleep(0.02)
