"""The role of this process within the process group of a supervisor; see `mailwright.app.supervisor`."""

import os
from dataclasses import asdict
from functools import cache
from typing import Final

import orjson

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass

CHILD_VARIABLE: Final = "MAILWRIGHT_CHILD_PROCESS"
# The Prometheus client keeps the metrics of all processes in files of this folder.
METRICS_FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


@dataclass(frozen=True, slots=True)
class ChildProcess:
    number: int  # Counted from 1. The first process also runs the tasks that only one process may run.
    count: int
    control: int  # A socket on which this process reports to the supervisor.
    # The reading end of a pipe. Nothing is ever written to it, so it becomes readable only when the supervisor ends. It
    # is not the control socket, because an unread report would turn the end of that into an error.
    lifeline: int
    sends: bool = True  # Whether each process has a worker.
    listener: int | None = None  # The socket on which all processes accept connections.
    is_restart: bool = False

    def environment(self, metrics_folder: str) -> dict[str, str]:
        """Return the environment variables from which the child process reads these values."""
        return {CHILD_VARIABLE: orjson.dumps(asdict(self)).decode(), METRICS_FOLDER_VARIABLE: metrics_folder}

    def share_of(self, limit: int, setting: str) -> int:
        if limit < self.count:
            raise ConfigurationInvalid(
                f"{setting}: {limit} connections are too few for {self.count} processes, because each needs one; allow "
                f"more connections, or use --processes {limit}"
            )
        return limit // self.count + (self.number <= limit % self.count)

    def report_started(self) -> None:
        """Report to the supervisor that this process has started."""
        os.write(self.control, b"1")


@cache
def this_child() -> ChildProcess | None:
    """Return the role of this process, or None if no supervisor started it."""
    place = os.environ.get(CHILD_VARIABLE)
    return None if place is None else ChildProcess(**orjson.loads(place))


def runs_duties() -> bool:
    """Return whether this process runs the tasks that only one process of the group may run."""
    child = this_child()
    return child is None or child.number == 1


def own_share(limit: int, setting: str) -> int:
    """Return this process's share of a connection limit that applies to the whole process group."""
    child = this_child()
    return limit if child is None or not child.sends else child.share_of(limit, setting)
