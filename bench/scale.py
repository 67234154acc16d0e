"""Measure a large installation: millions of messages, an import of a million people and a campaign to them.

`python -m bench scale` measures both engines. `python -m bench.scale DATABASE FOLDER` measures one database, which is
empty or was filled by an earlier run; `--steps` names the steps to run, in this order.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import asyncpg
import psutil
from sqlalchemy import text

from bench import filling, importing, mailwright, pages
from bench.children import Child, NotMeasured, call, tree_cpu_seconds
from bench.http_sink import HttpSink, started_http_sink
from bench.stage import Stage
from mailwright.storage.database import Database

MESSAGES: Final = 5_000_000
PEOPLE: Final = 1_000_000
SECONDS: Final = 60
SAMPLE_SECONDS: Final = 0.1
FIRST_MESSAGE_SECONDS: Final = 120
GOAL_MILLISECONDS: Final = 150
# The list of the imported people, who receive the campaign.
EVERYONE: Final = "everyone"
_CAMPAIGNS_IN_LINE: Final = (
    "SELECT campaign_id FROM campaigns WHERE status IN ('READY', 'SENDING', 'PAUSED') AND id <= {last} ORDER BY id"
)
_SIZE: Final = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
    "postgresql": "SELECT pg_database_size(current_database())",
}
KEPT_DAYS: Final = 30
GIGABYTE: Final = 1e9

# The addresses of `bench.pages` by what people open most. An address belongs to the first group whose beginning fits.
GROUPS: Final = {
    "Home": ("/overview/", "/?"),
    "Reports": ("/reports", f"/campaigns/{pages.LARGE}/report", f"/campaigns/{pages.LARGE}/click-map"),
    "Campaigns": ("/campaigns",),
    "Contacts": ("/contacts",),
    "Messages": ("/messages",),
    "API": ("/v1/", "/mail/", "/metrics", "/readyz"),
    "other pages": ("/",),
}


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    measured: str
    goal: str = ""
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Installation:
    """A database of either engine, and how much is measured there."""

    stage: Stage
    url: str
    folder: Path
    messages: int = MESSAGES
    people: int = PEOPLE
    seconds: float = SECONDS
    times: int = pages.TIMES
    only: str = ""  # Part of the addresses of pages to measure.

    @property
    def environment(self) -> dict[str, str]:
        places = filling.places(self.url, self.folder)
        named = {f"MAILWRIGHT_{name.upper()}": value for name, value in places.items()}
        return {**mailwright.environment(self.url), **named}

    @property
    def server(self) -> psutil.Process | None:
        """Return the main process of PostgreSQL."""
        host = parse_qs(urlsplit(self.url).query).get("host")
        if host is None:
            return None
        return psutil.Process(int(Path(host[0], "postmaster.pid").read_text(encoding="utf-8").split()[0]))

    def server_cpu_seconds(self) -> float:
        return tree_cpu_seconds(self.server) if self.server else 0.0

    def child(self, words: Sequence[str | Path], more: Mapping[str, str] | None = None) -> Child:
        log = self.stage.log(f"scale-{Path(words[0]).name}-{words[1]}")
        return Child(words, log, {**self.environment, **(more or {})}, mailwright.PROGRAM.parent.parent.parent)

    async def values(self, query: str) -> list[Any]:
        """Return the first column."""
        database = Database(self.url)
        async with database.read() as tx:
            rows = await tx.execute(text(query))
        await database.close()
        return [row[0] for row in rows]

    def count(self, table: str) -> int:
        [found] = asyncio.run(self.values(f"SELECT count(*) FROM {table}"))
        return int(found)

    def bytes(self) -> int:
        [found] = asyncio.run(self.values(_SIZE["sqlite" if self.url.startswith("sqlite") else "postgresql"]))
        return int(found)


@dataclass(slots=True)
class Usage:
    """What a process took. The memory is sampled; files that SQLite maps are not private."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    server_cpu_seconds: float = 0.0
    resident_bytes: int = 0
    private_bytes: int = 0
    output: str = field(default="", repr=False)

    def sample(self, child: Child) -> None:
        resident = private = 0
        for process in child.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                memory = process.memory_info()
                resident, private = resident + memory.rss, private + memory.rss - memory.shared
        self.resident_bytes = max(self.resident_bytes, resident)
        self.private_bytes = max(self.private_bytes, private)

    @property
    def memory(self) -> str:
        return f"{self.private_bytes / 1e6:,.0f} MB of memory ({self.resident_bytes / 1e6:,.0f} MB with mapped files)"

    def __str__(self) -> str:
        server = f" and {self.server_cpu_seconds:,.1f} s in the server" if self.server_cpu_seconds else ""
        return f"{self.seconds:,.1f} s, {self.cpu_seconds:,.1f} s of CPU time{server}, {self.memory}"


def run(at: Installation, words: Sequence[str | Path], more: Mapping[str, str] | None = None) -> Usage:
    """Run a command to its end. It must succeed."""
    usage, server, began = Usage(), at.server_cpu_seconds(), time.monotonic()
    with at.child(words, more) as child:
        while child.exit_code() is None:
            usage.sample(child)
            time.sleep(SAMPLE_SECONDS)
        usage.seconds = time.monotonic() - began
        usage.cpu_seconds = child.cpu_seconds()
        usage.server_cpu_seconds = at.server_cpu_seconds() - server
        if child.exit_code():
            raise NotMeasured(child.complaint())
        usage.output = child.log.read_text(encoding="utf-8")
    return usage


def fill(at: Installation) -> Iterator[Row]:
    share = max(1, at.messages // 1_000)
    usage = run(at, [sys.executable, "-m", "bench.pages", at.url, at.folder, "--fill", str(share)])
    yield Row(f"filling with {at.count('messages'):,} messages and {at.count('events'):,} events", str(usage))


def sizes(at: Installation) -> Iterator[Row]:
    messages, events, gigabytes = at.count("messages"), at.count("events"), at.bytes() / GIGABYTE
    each = f"{gigabytes / messages * 1e6:.2f} GB for a million messages with their events"
    what = f"the database with {messages:,} messages, {events:,} events and {at.count('contacts'):,} contacts"
    yield Row(what, f"{gigabytes:.1f} GB, {each}")


def import_people(at: Installation) -> Iterator[Row]:
    file, before = at.folder / "everyone.csv", at.count("contacts")
    importing.write(file, at.people)
    words = [mailwright.PROGRAM, "contact", "import", file, "--list", EVERYONE, "--json"]
    usage = run(at, words)
    if (added := at.count("contacts") - before) != at.people:
        raise NotMeasured(f"{added:,} contacts were added by a file of {at.people:,}")
    yield Row(f"importing {at.people:,} new people", f"{usage}, {at.people / usage.seconds:,.0f} a second")


def start_campaign(at: Installation) -> Iterator[Row]:
    """Start a campaign, and enqueue it as a worker does, in one process that does nothing else."""
    _cancel_campaigns(at, filling.ABOVE)  # Those of the sample would be enqueued too.
    usage = run(at, [sys.executable, "-m", "bench.campaigns", at.url, "--list", EVERYONE])
    walked = json.loads(usage.output.splitlines()[-1])
    rate = walked["people"] / (walked["seconds_to_start"] + walked["seconds_to_walk"])
    grown = walked["megabytes_after"] - walked["megabytes_before"]
    figures = f"{walked['seconds_to_start']:.1f} s until it is started, {rate:,.0f} messages a second, +{grown:,.0f} MB"
    yield Row(f"a campaign to {walked['people']:,} people, until each has a message", f"{usage}, {figures}")


def check_audit(at: Installation) -> Iterator[Row]:
    usage = run(at, [mailwright.PROGRAM, "audit", "--json"])
    yield Row(f"`audit` of {json.loads(usage.output)['accepted']:,} messages", str(usage))


def time_pages(at: Installation) -> Iterator[Row]:
    found: dict[str, list[pages.Timed]] = {}
    for timed in pages.measured(at.stage, at.url, at.folder, times=at.times, only=at.only):
        print(f"{timed.p95:9.1f} ms, {timed.p95_worked:9.1f} ms of CPU time  {timed.path}", file=sys.stderr, flush=True)
        found.setdefault(_group(timed.path), []).append(timed)
    for group, every in found.items():
        late = sum(each.p95 > GOAL_MILLISECONDS for each in every)
        slowest = max(every, key=lambda each: each.p95)
        shown = f"{slowest.p95:.0f} ms ({slowest.p95_worked:.0f} ms of CPU time) for {slowest.path}"
        what = f"{group}: the largest p95 of {len(every)} addresses"
        yield Row(what, f"{shown}; {late} above the goal", f"≤ {GOAL_MILLISECONDS} ms", not late)


def _group(path: str) -> str:
    if path == "/":
        return "Home"
    return next(group for group, starts in GROUPS.items() if path.startswith(starts))


def back_up_and_restore(at: Installation) -> Iterator[Row]:
    file = at.folder / "backup.mailwright"
    before = mailwright.audit(at.url)
    usage = run(at, [mailwright.PROGRAM, "backup", file, "--force"])
    yield Row("`backup`", f"{usage}, a file of {file.stat().st_size / GIGABYTE:.2f} GB")
    with beside(at) as empty:
        usage = run(empty, [mailwright.PROGRAM, "restore", file, "--yes"])
        if (restored := mailwright.audit(empty.url)) != before:
            raise NotMeasured(f"the audit was {before} before the backup and is {restored} in the restored database")
    file.unlink()
    yield Row("`restore` into an empty database", str(usage))


@contextlib.contextmanager
def beside(at: Installation) -> Iterator[Installation]:
    """Create an empty database of the same engine, and a folder for what lies beside it."""
    folder = at.folder / "restored"
    folder.mkdir()
    name = f"{urlsplit(at.url).path.removeprefix('/')}_restored"
    try:
        if at.url.startswith("sqlite"):
            yield replace(at, url=f"sqlite:///{folder}/restored.db", folder=folder)
        else:
            asyncio.run(_administrate(at.url, f"CREATE DATABASE {name}"))
            yield replace(at, url=at.url.replace(urlsplit(at.url).path, f"/{name}", 1), folder=folder)
    finally:
        shutil.rmtree(folder)
        if at.url.startswith("postgresql"):
            asyncio.run(_administrate(at.url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))


async def _administrate(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


def _cancel_campaigns(at: Installation, last: int) -> None:
    for campaign in asyncio.run(at.values(_CAMPAIGNS_IN_LINE.format(last=last))):
        call([mailwright.PROGRAM, "campaign", "cancel", campaign, "--yes"], env=at.environment)


def send(at: Installation) -> Iterator[Row]:
    _cancel_campaigns(at, filling.ABOVE + filling.CAMPAIGNS)  # Campaigns are sent one after the other.
    yield Row("sending, one worker", str(_sending(at)))


def send_beside_retention(at: Installation) -> Iterator[Row]:
    days, before = str(KEPT_DAYS), at.count("messages")
    call([mailwright.PROGRAM, "retention", "set", "messages", days, "--yes"], env=at.environment)
    with at.child([mailwright.PROGRAM, "retention", "run"]) as retention:
        sent = _sending(at)
        memory = Usage()
        memory.sample(retention)
        if retention.exit_code():
            raise NotMeasured(retention.complaint())
        deleted = before - at.count("messages")
        yield Row("sending, one worker, while retention deletes", f"{sent}, retention with {memory.memory}")
        yield Row("messages that retention deleted in this time", f"{deleted:,}")
        began = time.monotonic()
        while retention.exit_code() is None and time.monotonic() - began < at.seconds:
            time.sleep(SAMPLE_SECONDS)
        seconds = time.monotonic() - began
    alone = before - deleted - at.count("messages")
    yield Row("messages that retention deletes while nothing is sent", f"{alone:,}, {alone / seconds:,.0f} a second")


@dataclass(frozen=True, slots=True)
class Sent:
    count: int
    seconds: float
    seconds_to_first: float
    usage: Usage

    def __str__(self) -> str:
        rate = f"{self.count / self.seconds:,.0f} messages a second over {self.seconds:,.0f} s"
        cpu = (self.usage.cpu_seconds + self.usage.server_cpu_seconds) / self.count * 1_000
        first = f"the first {self.seconds_to_first:.1f} s after the start of the worker"
        return f"{rate}, {cpu:.2f} ms of CPU time for each, {first}, {self.usage.memory}"


def _sending(at: Installation) -> Sent:
    """Let a worker send to an HTTP sink for a bounded time, or until nothing arrives any more."""
    with started_http_sink(at.stage.scratch) as sink:
        worker = at.child([mailwright.PROGRAM, "worker", "--drain"], mailwright.http_provider("ses", sink))
        with worker:
            began = time.monotonic()
            _until(sink, worker, lambda: sink.count() > 0 or time.monotonic() - began > FIRST_MESSAGE_SECONDS)
            if not sink.count():
                raise NotMeasured(worker.complaint())
            first, early = time.monotonic(), sink.count()
            usage, cpu, server = Usage(), worker.cpu_seconds(), at.server_cpu_seconds()

            def is_over() -> bool:
                usage.sample(worker)
                return time.monotonic() - first > at.seconds

            _until(sink, worker, is_over)
            count, seconds = sink.count() - early, time.monotonic() - first
            if not count:
                raise NotMeasured(f"{early:,} messages arrived at once, and no other was left")
            usage.cpu_seconds = worker.cpu_seconds() - cpu
            usage.server_cpu_seconds = at.server_cpu_seconds() - server
            if worker.exit_code() is None:
                os.kill(worker.pid, signal.SIGTERM)  # Messages in flight end, so that none is in doubt.
                _until(sink, worker, lambda: False)
    return Sent(count, seconds, first - began, usage)


def _until(sink: HttpSink, worker: Child, reached: Callable[[], bool]) -> None:
    while worker.exit_code() is None and not reached():
        time.sleep(SAMPLE_SECONDS)


STEPS: Final[dict[str, Callable[[Installation], Iterator[Row]]]] = {
    "fill": fill,
    "import": import_people,
    "campaign": start_campaign,
    "size": sizes,
    "audit": check_audit,
    "pages": time_pages,
    "backup": back_up_and_restore,
    "send": send,
    "retention": send_beside_retention,
}


def measured(at: Installation, steps: Sequence[str] = tuple(STEPS)) -> Iterator[Row]:
    """Run the steps. One that fails is a row with its reason, and the others follow."""
    for step in steps:
        try:
            yield from STEPS[step](at)
        except NotMeasured as reason:
            yield Row(step, f"not measured: {reason}")


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    reader.add_argument("database", help="the address of an empty database, or of one that was filled")
    reader.add_argument("folder", type=Path, help="where what lies beside a database is")
    reader.add_argument("--messages", type=int, default=MESSAGES, help=f"messages to fill in ({MESSAGES:,})")
    reader.add_argument("--people", type=int, default=PEOPLE, help=f"people of the import and campaign ({PEOPLE:,})")
    reader.add_argument("--seconds", type=float, default=SECONDS, help=f"how long to send and delete ({SECONDS})")
    reader.add_argument("--times", type=int, default=pages.TIMES, help=f"how often to request a page ({pages.TIMES})")
    reader.add_argument("--only", default="", help="only pages that have this in their address")
    reader.add_argument("--steps", nargs="+", choices=list(STEPS), default=list(STEPS), help="the steps to run")
    asked = reader.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with Stage() as stage:
        facts = (asked.messages, asked.people, asked.seconds, asked.times, asked.only)
        for row in measured(Installation(stage, asked.database, asked.folder.absolute(), *facts), asked.steps):
            print(f"| {row.what} | {row.measured} | {row.goal} |", flush=True)


if __name__ == "__main__":
    main()
