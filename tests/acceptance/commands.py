"""Run the command line in tests: real processes in a separate folder and environment.

Commands and services are forked from a warm process, unless their own start is part of the test.
"""

import asyncio
import contextlib
import json
import os
import select
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
LAST_LINES = 30
STARTED = (sys.executable, "-m", "mailwright")  # As a user starts it.


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
    """Runs `mailwright …` in `folder`, without the settings of this process."""

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

    async def converse(self, *arguments: str, answers: Sequence[tuple[str, str]], **settings: str) -> Ended:
        """Run the command in a terminal, and answer each question, in order, when it is asked."""
        keyboard, terminal = os.openpty()
        try:
            process = await self._start((*self.program, *arguments), settings, terminal=terminal)
        finally:
            os.close(terminal)
        try:
            async with asyncio.timeout(SECONDS):
                shown = await asyncio.to_thread(_answer, keyboard, answers)
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            os.close(keyboard)
        return Ended(process.returncode or 0, shown, "")

    @asynccontextmanager
    async def service(self, *arguments: str, **settings: str) -> AsyncIterator["Service"]:
        with PidPipe() as pipe:
            words = (*self.program, *arguments)
            process = await self._start(words, settings | pipe.environment, (pipe.descriptor,))
            service = Service(process, process.pid if self.program == STARTED else pipe.read())
        try:
            yield service
        except Exception as error:
            error.add_note("\n".join(["The end of the service's log:", *map(json.dumps, service.lines[-LAST_LINES:])]))
            raise
        finally:
            await service.kill()

    async def _start(
        self,
        words: tuple[str, ...],
        settings: Mapping[str, str],
        pass_fds: Sequence[int] = (),
        terminal: int | None = None,
    ) -> asyncio.subprocess.Process:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "PYTHONPATH") if name in os.environ}
        return await asyncio.create_subprocess_exec(
            *words,
            cwd=self.folder,
            env={**kept, "COLUMNS": "100", **self.settings, **settings},
            stdin=asyncio.subprocess.DEVNULL if terminal is None else terminal,
            stdout=asyncio.subprocess.PIPE if terminal is None else terminal,
            stderr=asyncio.subprocess.PIPE if terminal is None else terminal,
            pass_fds=pass_fds,
        )


def _answer(keyboard: int, answers: Sequence[tuple[str, str]]) -> str:
    """Answer questions on a terminal, and return everything that it showed.

    The command reads a password only after it has printed the space behind the question, and discards what was typed
    before.
    """
    shown, read_up_to = "", 0
    waiting = list(answers)
    while chunk := _read(keyboard):
        shown += chunk
        if waiting and waiting[0][0] in shown[read_up_to:] and shown.endswith(": "):
            _, text = waiting.pop(0)
            read_up_to = len(shown)
            os.write(keyboard, f"{text}\n".encode())
    assert not waiting, f"never asked: {waiting}\n{shown}"
    return shown.replace("\r\n", "\n")


def _read(keyboard: int) -> str:
    """Read what the terminal shows. After the end of the last process, reading is an error on Linux."""
    ready, _, _ = select.select([keyboard], [], [], SECONDS)
    try:
        return os.read(keyboard, 65536).decode(errors="replace") if ready else ""
    except OSError:
        return ""


class Service:
    """A command that runs until it is stopped; its log lines are read as they come."""

    def __init__(self, process: asyncio.subprocess.Process, pid: int) -> None:
        self.process = process
        self.pid = pid
        self.lines: list[dict[str, Any]] = []

    async def logged(self, event: str) -> dict[str, Any]:
        """Return the next log line about this event."""
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
            with contextlib.suppress(ProcessLookupError):  # The process has just ended.
                os.kill(self.pid, signal.SIGKILL)
        await self.process.communicate()


async def until(is_so: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not is_so():
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise AssertionError(f"it never happened: {what}") from error
