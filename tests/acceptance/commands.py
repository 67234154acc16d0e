"""The command line in a test: real processes, in a folder and an environment of their own.

Commands and services are forked from a warm process, unless their own start is part of the test.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.warm import PidPipe, warm_command

SECONDS = 60
# A busy machine needs long for thousands of messages. An idle one ends the wait early.
PATIENCE_SECONDS = 150.0
STARTED = (sys.executable, "-m", "mailwright")  # as a person starts it


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Commands:
    """Runs `mailwright …` in `folder`, with nothing of this process's own settings."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    program: Sequence[str] = field(default_factory=warm_command)

    async def run(self, *arguments: str, **settings: str) -> Ended:
        process = await self._start((*self.program, *arguments), settings)
        try:
            async with asyncio.timeout(SECONDS):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Ended(process.returncode or 0, out.decode(), err.decode())

    async def ok(self, *arguments: str, **settings: str) -> Ended:
        ended = await self.run(*arguments, **settings)
        assert ended.code == 0, ended
        return ended

    @asynccontextmanager
    async def service(self, *arguments: str, **settings: str) -> AsyncIterator["Service"]:
        with PidPipe() as pipe:
            words = (*self.program, *arguments)
            process = await self._start(words, settings | pipe.environment, (pipe.descriptor,))
            service = Service(process, process.pid if self.program == STARTED else pipe.read())
        try:
            yield service
        finally:
            await service.kill()

    async def _start(
        self, words: tuple[str, ...], settings: Mapping[str, str], pass_fds: Sequence[int] = ()
    ) -> asyncio.subprocess.Process:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "PYTHONPATH") if name in os.environ}
        return await asyncio.create_subprocess_exec(
            *words,
            cwd=self.folder,
            env={**kept, "COLUMNS": "100", **self.settings, **settings},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=pass_fds,
        )


class Service:
    """A command that runs until it is stopped; its log lines are read as they come."""

    def __init__(self, process: asyncio.subprocess.Process, pid: int) -> None:
        self.process = process
        self.pid = pid
        self.lines: list[dict[str, Any]] = []

    async def logged(self, event: str) -> dict[str, Any]:
        """The next line about this event."""
        assert self.process.stderr is not None
        async with asyncio.timeout(SECONDS):
            while raw := await self.process.stderr.readline():
                line = json.loads(raw)
                self.lines.append(line)
                if line["event"] == event:
                    return line
        raise AssertionError(f"{event} was never logged: {self.lines}")

    async def read_log(self) -> None:
        """Read the log until it ends. A process blocks on a full pipe otherwise."""
        assert self.process.stderr is not None
        while raw := await self.process.stderr.readline():
            self.lines.append(json.loads(raw))

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def ended(self, within: float = SECONDS) -> int:
        async with asyncio.timeout(within):
            await self.process.communicate()
        return self.process.returncode or 0

    async def kill(self) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # It ends just now.
                os.kill(self.pid, signal.SIGKILL)
        await self.process.communicate()


async def until(is_so: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not is_so():
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise AssertionError(f"it never happened: {what}") from error
