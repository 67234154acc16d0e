"""Run commands without their start-up time: one process imports Mailwright once and is forked for each command.

Each command still has its own process, session, folder, environment, streams and exit code. The caller that stands in
for it has another process ID: `PidPipe` returns the ID of the command itself, for signals. A test of the start-up
itself runs `python -m mailwright`.
"""

import atexit
import gc
import marshal
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from shutil import rmtree
from typing import Any, NoReturn, Self

CALL = Path(__file__).with_name("warm_call.py")


@cache
def warm_command() -> tuple[str, ...]:
    """Return the command line of a small program that passes its arguments to the warm process."""
    folder = Path(tempfile.mkdtemp(prefix="mwwarm"))
    address = folder / "socket"
    # It ends when its standard input does, also when this process is killed.
    warm = subprocess.Popen(
        [sys.executable, "-m", "tests.warm", str(address)],
        cwd=Path(__file__).parents[1],
        env={name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "PYTHONPATH") if name in os.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert warm.stdout is not None
    with warm.stdout as said:
        assert said.readline() == b"warm\n"
    atexit.register(_end, warm, folder)
    return (sys.executable, "-I", "-S", str(CALL), str(address))


def warm_program(folder: Path) -> Path:
    """Create a program named `mailwright` in `folder` that does the same, for shells."""
    program = folder / "mailwright"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(warm_command())} "$@"\n')
    program.chmod(0o755)
    return program


class PidPipe:
    """Receives the process ID of a command from its caller, which inherits `descriptor` and gets `environment`."""

    def __enter__(self) -> Self:
        self._reader, self.descriptor = os.pipe()
        self.environment = {"WARM_PID_PIPE": str(self.descriptor)}
        return self

    def read(self) -> int:
        os.close(self.descriptor)
        self.descriptor = -1
        pid = os.read(self._reader, 4)
        assert len(pid) == 4, "the command was not started"
        return int.from_bytes(pid)

    def __exit__(self, *_: object) -> None:
        os.close(self._reader)
        if self.descriptor >= 0:
            os.close(self.descriptor)


def _end(warm: subprocess.Popen[bytes], folder: Path) -> None:
    warm.communicate()  # Closes its standard input.
    rmtree(folder, ignore_errors=True)


def main() -> None:
    words = Forks(sys.argv[1]).wait_for_a_command()
    code: object = 0
    try:
        if words[:1] == ["-m"]:
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[:1] == ["-c"]:
            sys.argv = ["-c", *words[2:]]
            exec(words[1], {"__name__": "__main__"})
        else:
            sys.argv = ["mailwright", *words]
            import_module("mailwright.cli").main()
    except SystemExit as ended:
        code = ended.code
    sys.stdout.flush()
    sys.stderr.flush()
    # Skip the clean-up of all modules, which takes longer than most commands.
    os._exit(code if isinstance(code, int) else 0)


class Forks:
    """Waits for commands and forks a process for each, in which `wait_for_a_command` returns."""

    def __init__(self, address: str) -> None:
        _import_everything()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(address)
        self._listening.listen(64)
        self._events = selectors.DefaultSelector()
        self._events.register(self._listening, selectors.EVENT_READ, self._take)
        self._events.register(sys.stdin.fileno(), selectors.EVENT_READ, self._end)
        self._running: dict[int, socket.socket] = {}
        os.write(1, b"warm\n")

    def wait_for_a_command(self) -> list[str]:
        """Return the arguments of a command in its own process. The waiting process exits here when it is stopped."""
        while True:
            for key, _ in self._events.select():
                words: list[str] | None = key.data(key.fileobj)
                if words is not None:
                    return words

    def _take(self, _: Any) -> list[str] | None:
        caller, _ = self._listening.accept()
        length, streams, *_ = socket.recv_fds(caller, 4, 3)
        arguments, folder, environment = marshal.loads(_exactly(caller, int.from_bytes(length)))
        alive, held = os.pipe()
        child = os.fork()
        if child == 0:
            self._events.close()
            self._listening.close()
            _become(folder, environment, streams)
            return list(arguments)
        os.close(held)  # Only the child has this descriptor now, so its end shows that the child has ended.
        for stream in streams:
            os.close(stream)
        caller.sendall(child.to_bytes(4))
        self._running[child] = caller
        self._events.register(alive, selectors.EVENT_READ, lambda pipe: self._ended(pipe, child))
        self._events.register(caller, selectors.EVENT_READ, lambda _: self._kill_with_caller(child))
        return None

    def _ended(self, pipe: int, child: int) -> None:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        self._events.unregister(pipe)
        os.close(pipe)
        caller = self._running.pop(child)
        if caller in self._events.get_map():
            self._events.unregister(caller)
            caller.sendall(code.to_bytes(4, signed=True))
        caller.close()

    def _kill_with_caller(self, child: int) -> None:
        """Kill the command, because its caller was killed."""
        self._events.unregister(self._running[child])
        os.kill(child, signal.SIGKILL)

    def _end(self, _: Any) -> NoReturn:
        for child in self._running:
            os.kill(child, signal.SIGKILL)
        sys.exit()


def _import_everything() -> None:
    import mailwright  # noqa: PLC0415 - as above

    for module in walk_packages(mailwright.__path__, "mailwright."):
        if module.name not in ("mailwright.__main__", "mailwright.storage.migrations.env"):  # These run when imported.
            import_module(module.name)
    for late in (
        "rich._emoji_codes",
        "rich.markdown",
        "rich.status",
        "structlog",
        "sqlalchemy.dialects.sqlite.pysqlite",
        "typer._adapters",
        "uvicorn.loops.auto",
    ):
        import_module(late)
    gc.freeze()


def _become(folder: str, environment: dict[bytes, bytes], streams: list[int]) -> None:
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environb.update(environment)
    time.tzset()
    os.chdir(folder)
    from mailwright.cli import output  # noqa: PLC0415 - only the warm process needs it, as below

    # The consoles read the environment and the streams when they are made.
    for console, stderr in ((output.out, False), (output.aside, True)):
        vars(console).update(vars(output.Console(stderr=stderr, highlight=False)))


def _exactly(caller: socket.socket, length: int) -> bytes:
    with caller.makefile("rb") as stream:
        return stream.read(length)


if __name__ == "__main__":
    main()
