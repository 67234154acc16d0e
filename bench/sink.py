"""The SMTP sink on loopback. It counts the arrived messages independently of the contenders."""

import contextlib
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.children import Child, NotMeasured
from bench.debian import tool

COUNTER = re.compile(rb"mesg=(\d+)\r")
RECIPIENT = re.compile(rb"^X-Rcpt-Args: <([^>]*)>", re.M)
PREFACE = re.compile(rb"^Received: .*\n(?:[ \t].*\n)*", re.M)  # The last lines that smtp-sink writes before a message.


class Sink:
    """A running `smtp-sink`."""

    def __init__(self, child: Child, port: int, dumps: Path | None) -> None:
        self.port = port
        self._dumps = dumps
        self._counters = child.log.open("rb")

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}?tls=none&purpose=test"

    def count(self) -> int:
        """Return the messages accepted since the start."""
        size = os.fstat(self._counters.fileno()).st_size
        found = COUNTER.findall(os.pread(self._counters.fileno(), 128, max(0, size - 128)))
        return int(found[-1]) if found else 0

    def messages(self) -> Iterator[tuple[str, bytes]]:
        """Return recipient and message from a dumping sink, without smtp-sink's own lines."""
        assert self._dumps
        for file in sorted(self._dumps.iterdir()):
            preface, message = PREFACE.split(file.read_bytes(), 1)
            yield RECIPIENT.findall(preface)[0].decode(), message


@contextlib.contextmanager
def started_sink(folder: Path, *, dump: bool = False) -> Iterator[Sink]:
    program = tool("smtp-sink", "postfix")
    port = free_port()
    # If started by root, it drops its privileges, so its dumps go to a folder that every user can write to.
    dumps = Path(tempfile.mkdtemp(prefix="bench-sink-")) if dump else None
    command: list[str | Path] = [program, "-c", "-m", "512"]
    if os.geteuid() == 0:
        command += ["-u", "nobody"]
    if dumps:
        dumps.chmod(0o777)
        command += ["-d", f"{dumps}/mail."]
    try:
        with Child([*command, f"127.0.0.1:{port}", "1000"], folder / f"sink-{port}.log") as child:
            wait_for_port(port, child)
            sink = Sink(child, port, dumps)
            yield sink
            sink._counters.close()
            child.log.unlink()
    finally:
        if dumps:
            shutil.rmtree(dumps)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, child: Child, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and child.exit_code() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise NotMeasured(child.complaint())
