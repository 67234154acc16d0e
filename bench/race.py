"""One contender's run, timed at the sink from the first message to the last.

Start-up time is not throughput, so time and CPU are counted from the first message on. A lost or duplicated message
makes the run invalid.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import psutil

from bench.children import Child, NotMeasured, tree_cpu_seconds

POLL_SECONDS = 0.004
SAMPLE_SECONDS = 0.5
STALL_SECONDS = 60
# On a busy machine, the sink may count the last messages a while after their workers have ended.
LAST_SECONDS = 10
# A contender that sends a message twice does so at once: watch the sink this long after the last expected message.
AFTERMATH_SECONDS = 0.3


class Counting(Protocol):
    """A sink of any protocol."""

    def count(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Run:
    messages: int
    seconds: float
    cpu_seconds: float
    database_cpu_seconds: float
    # Sampled twice a second: the memory of all workers together, and the time with the messages that had arrived.
    rss_bytes: list[int] = field(default_factory=list)
    progress: list[tuple[float, int]] = field(default_factory=list)

    @property
    def peak_rss_bytes(self) -> int:
        return max(self.rss_bytes, default=0)

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    def rate_of_quarter(self, number: int) -> float:
        """Return the messages per second of a quarter of the run; the first is 0."""
        size = len(self.progress) // 4
        (begin, before), (end, after) = self.progress[number * size], self.progress[(number + 1) * size - 1]
        return (after - before) / (end - begin)

    @property
    def cpu_per_thousand(self) -> float:
        return self.cpu_seconds / self.messages * 1000

    @property
    def cpu_per_thousand_with_database(self) -> float:
        return (self.cpu_seconds + self.database_cpu_seconds) / self.messages * 1000


def race(
    sink: Counting,
    workers: Sequence[Child],
    count: int,
    *,
    database: psutil.Process | None = None,
    until_exit: bool = False,
    when_started: Callable[[], None] = lambda: None,
    when_arrived: Callable[[], None] = lambda: None,
    advance: Callable[[int], None] = lambda _: None,
) -> Run:
    """Start the workers and wait until `count` messages arrived (with `until_exit`, until the workers end)."""
    with contextlib.ExitStack() as running:
        for worker in workers:
            running.enter_context(worker)
        when_started()
        watch = Watch(sink, workers, count, advance)
        first = watch.until(lambda: watch.arrived > 0)
        early, cpu, database_cpu = watch.arrived, watch.cpu_seconds(), _cpu_seconds(database)
        last = watch.until(lambda: watch.arrived >= count)
        if until_exit:
            watch.until(lambda: not watch.running())
        when_arrived()
        cpu, database_cpu = watch.cpu_seconds() - cpu, _cpu_seconds(database) - database_cpu
        watch.expect_no_more()
    # Messages that arrived before the clock started are not counted.
    seconds = max(last - first, POLL_SECONDS) * count / max(count - early, 1)
    return Run(count, seconds, cpu, database_cpu, watch.rss_bytes, watch.progress)


class Watch:
    """Poll the sink and the workers a few hundred times per second until the goal is reached."""

    def __init__(self, sink: Counting, workers: Sequence[Child], count: int, advance: Callable[[int], None]) -> None:
        self._sink, self._workers, self._count, self._advance = sink, workers, count, advance
        self._before = sink.count()
        self._moved = time.perf_counter()
        self._sampled = 0.0
        self.arrived = 0
        self.rss_bytes: list[int] = []
        self.progress: list[tuple[float, int]] = []

    def until(self, reached: Callable[[], bool]) -> float:
        while True:
            now = self._look()
            if reached():
                return now
            self._object(quiet_seconds=now - self._moved)
            if self.arrived and now - self._sampled > SAMPLE_SECONDS:
                self._sample(now)
            time.sleep(POLL_SECONDS)

    def running(self) -> list[Child]:
        return [worker for worker in self._workers if worker.exit_code() is None]

    def cpu_seconds(self) -> float:
        return sum(worker.cpu_seconds() for worker in self._workers)

    def expect_no_more(self) -> None:
        time.sleep(AFTERMATH_SECONDS)
        self._look()
        if self.arrived != self._count:
            raise NotMeasured(f"{self._count} messages were queued and {self.arrived} arrived")
        self._advance(self._count)

    def _look(self) -> float:
        arrived, now = self._sink.count() - self._before, time.perf_counter()
        if arrived > self.arrived:
            self.arrived, self._moved = arrived, now
        return now

    def _object(self, quiet_seconds: float) -> None:
        so_far = f"{self.arrived} of {self._count} messages arrived"
        if any(worker.exit_code() for worker in self._workers):
            broken = next(worker for worker in self._workers if worker.exit_code())
            raise NotMeasured(f"{so_far}. {broken.complaint()}")
        if quiet_seconds > (STALL_SECONDS if self.running() else LAST_SECONDS):
            raise NotMeasured(f"{so_far}, then none for {quiet_seconds:.1f} s. {self._workers[0].complaint()}")

    def _sample(self, now: float) -> None:
        self._sampled = now
        self.rss_bytes.append(sum(worker.rss_bytes() for worker in self.running()))
        self.progress.append((now, self.arrived))
        self._advance(self.arrived)


def _cpu_seconds(database: psutil.Process | None) -> float:
    return tree_cpu_seconds(database) if database else 0.0
