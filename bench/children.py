"""Start, measure and end processes, by their own ids only."""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil


class NotMeasured(Exception):
    """Something that a figure needs is not available; the report names it instead of a number."""


@dataclass
class Child:
    """One process with its descendants, as a context manager that ends it."""

    command: Sequence[str | Path]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None

    def __enter__(self) -> Self:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self._popen = subprocess.Popen(
                [str(part) for part in self.command],
                env={**os.environ, **self.env},
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in the terminal reaches only this process, which ends its children in order.
                start_new_session=True,
            )
        self._process = psutil.Process(self._popen.pid)
        self._cpu_seconds = 0.0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.exit_code() is not None:
            return
        for process in reversed(self.tree()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._popen.wait()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def exit_code(self) -> int | None:
        """Reap the process when it has ended and keep its resource usage, which `Popen.poll` would lose."""
        if self._popen.returncode is None:
            pid, status, usage = os.wait4(self._popen.pid, os.WNOHANG)
            if pid:
                self._popen.returncode = os.waitstatus_to_exitcode(status)
                self._cpu_seconds = usage.ru_utime + usage.ru_stime
        return self._popen.returncode

    def cpu_seconds(self) -> float:
        if self.exit_code() is None:
            self._cpu_seconds = tree_cpu_seconds(self._process)
        return self._cpu_seconds

    def rss_bytes(self) -> int:
        total = 0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def complaint(self) -> str:
        title = " ".join([Path(self.command[0]).name, *(str(part) for part in self.command[1:3])])
        state = "still runs" if self.exit_code() is None else f"ended with {self.exit_code()}"
        last_line = (self.log.read_text(errors="replace").strip() or "nothing").splitlines()[-1]
        return f"`{title}` {state} and said last ({self.log.name}): {last_line}"

    def tree(self) -> list[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def tree_cpu_seconds(process: psutil.Process) -> float:
    """Return user and system time of a process, its living and its reaped descendants."""
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        for member in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = member.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total


def call(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_seconds: float = 900,
) -> str:
    """Run a set-up step that must succeed, and return its output."""
    words = [str(part) for part in command]
    title = " ".join([Path(words[0]).name, *words[1:3]])
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            check=True,
            timeout=timeout_seconds,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotMeasured(f"`{title}`: {type(error).__name__}") from error
    except subprocess.CalledProcessError as error:
        last_line = ((error.stderr or error.stdout).strip() or "without a word").splitlines()[-1]
        raise NotMeasured(f"`{title}` failed: {last_line}") from error
    return done.stdout
