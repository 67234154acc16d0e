"""The long fault runs: `python -m tests.faults [kills …] [--quick] [--engine …]`. Exit 1 on any miss."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from mailwright.ops import logs
from tests.engines import postgresql, sqlite_template, valkey_server
from tests.faults import (
    backups,
    bursts,
    campaigns,
    clicks,
    copies,
    disks,
    drains,
    erasures,
    failovers,
    forms,
    freezes,
    hourly_limits,
    http_answers,
    http_phases,
    kills,
    lossy_failovers,
    notifications,
    outages,
    partitions,
    phases,
    poison,
    poolers,
    provider_changes,
    repeats,
    rolling,
    same_key,
    sequences,
    smtp_fuzz,
    submissions,
    supervised,
    templates,
    vanishing,
    webhooks,
)
from tests.faults.figures import Figures
from tests.faults.stage import a_stage
from tests.pgbouncer import is_pgbouncer_here, pgbouncer

ENGINES = ("sqlite", "postgresql")
SHARED_CONNECTIONS = 4  # Of all processes behind a pooler.


@dataclass(frozen=True, slots=True)
class Run:
    fault: str
    title: str
    work: Callable[..., Awaitable[Figures]]  # Called with the engine's name and these sizes.
    long: dict[str, Any]
    quick: dict[str, Any]
    engines: tuple[str, ...] = ENGINES
    long_on_postgresql: dict[str, Any] | None = None

    def sizes(self, engine: str, *, quick: bool) -> dict[str, Any]:
        if quick:
            return self.quick
        return self.long_on_postgresql if engine == "postgresql" and self.long_on_postgresql else self.long


def staged(work: Callable[..., Awaitable[Figures]]) -> Callable[..., Awaitable[Figures]]:
    """Run a fault that needs only an empty database."""

    async def run(engine: str, **sizes: Any) -> Figures:
        async with a_database(engine) as url, a_stage(url) as stage:
            return await work(stage, **sizes)

    return run


@asynccontextmanager
async def a_database(engine: str) -> AsyncIterator[str]:
    if engine == "postgresql":
        with postgresql() as server:
            yield await server.create()
        return
    with tempfile.TemporaryDirectory(prefix="mwfault") as folder:
        file = Path(folder) / "mailwright.db"
        file.write_bytes(sqlite_template())
        yield f"sqlite:///{file}"


async def lost_database(_engine: str, **sizes: Any) -> Figures:
    with postgresql() as server:
        async with a_stage(await server.create()) as stage:
            return await outages.run(stage, server, **sizes)


async def vanished_database(_engine: str, **sizes: Any) -> Figures:
    far = vanishing.FarServer()
    if not far.can_be_made():
        figures = Figures()
        figures.note("skipped", "a network namespace needs root and iproute2")
        return figures
    try:
        with postgresql() as server:
            url = await server.create()
            async with a_stage(far.url(server, url)) as stage:
                return await vanishing.run(stage, far, **sizes)
    finally:
        far.remove()


async def upgraded_while_sending(_engine: str, **sizes: Any) -> Figures:
    with postgresql() as server, tempfile.TemporaryDirectory(prefix="mwold") as folder:
        if (previous := rolling.previous_release(Path(folder))) is None:
            figures = Figures()
            figures.note("skipped", "the history of the repository is not here")
            return figures
        async with a_stage(await server.create_empty()) as stage:
            return await rolling.run(stage, previous, **sizes)


async def behind_a_pooler(_engine: str, **sizes: Any) -> Figures:
    if not is_pgbouncer_here():
        figures = Figures()
        figures.note("skipped", "PgBouncer is not installed")
        return figures
    with postgresql() as server:
        url = await server.create()
        with pgbouncer(url, "transaction", size=SHARED_CONNECTIONS) as address:
            async with a_stage(address) as stage:
                return await poolers.run(stage, url, connections=12, most_sessions=SHARED_CONNECTIONS, **sizes)


async def standby_takes_over(_engine: str, **sizes: Any) -> Figures:
    with postgresql() as primary, tempfile.TemporaryDirectory(prefix="mwpg") as folder:
        Path(folder).chmod(0o777)  # The standby runs as another user.
        name = urlsplit(await primary.create()).path.strip("/")
        pair = failovers.Pair(primary, Path(folder) / "data")
        try:
            await pair.wait_for_standby()
            async with a_stage(pair.url(name)) as stage:
                return await failovers.run(stage, pair, **sizes)
        finally:
            pair.standby.stop()


async def standby_lacks_commits(_engine: str, *, seconds: tuple[float, ...], **sizes: Any) -> Figures:
    """Lose the commits of each of these times, on one machine and on two in turn."""
    figures = Figures()
    for number, lost_seconds in enumerate(seconds):
        with postgresql() as primary, tempfile.TemporaryDirectory(prefix="mwpg") as folder:
            name = urlsplit(await primary.create()).path.strip("/")
            async with lossy_failovers.a_lossy_pair(primary, Path(folder)) as pair, a_stage(pair.url(name)) as stage:
                machines = number % 2 + 1
                found = await lossy_failovers.run(stage, pair, lost_seconds=lost_seconds, machines=machines, **sizes)
        figures.all += [replace(each, name=f"{lost_seconds:g} s: {each.name}") for each in found.all]
    return figures


async def lost_valkey(engine: str, **sizes: Any) -> Figures:
    async with a_database(engine) as url, a_stage(url) as stage:
        with valkey_server() as valkey:
            return await outages.without_valkey(stage, valkey, **sizes)


async def many_webhooks(engine: str, **sizes: Any) -> Figures:
    logs.configure("WARNING")  # Half of the work is done in this process.
    async with (
        a_database(engine) as first,
        a_database(engine) as second,
        a_stage(first) as in_order,
        a_stage(second) as shuffled,
    ):
        return await webhooks.run(in_order, shuffled, **sizes)


async def small_disk(_engine: str) -> Figures:
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="mwdisk") as folder:
        if not disks.can_mount(Path(folder)):
            figures.note("skipped", "mounting a small disk needs root; the run before this one says the same")
            return figures
        await disks.full_file_system(figures, Path(folder))
        await disks.read_only(figures, Path(folder))
    return figures


SQLITE, POSTGRESQL = ("sqlite",), ("postgresql",)
RUNS = (
    Run(
        "smtp-fuzz",
        "random commands, bytes and lost connections over SMTP",
        staged(smtp_fuzz.run),
        long={"scripts": 20_000},
        quick={"scripts": 300},
        long_on_postgresql={"scripts": 5_000},
    ),
    Run(
        "kills",
        "kill -9 of workers at random",
        staged(kills.run),
        long={"kills": 100, "messages": 20_000},
        quick={"kills": 8, "messages": 1_500},
        long_on_postgresql={"kills": 100, "messages": 10_000},
    ),
    Run(
        "hourly-limits",
        "kill -9 of workers under an hourly limit",
        staged(hourly_limits.run),
        long={"kills": 20, "limit": 2_000},
        quick={"kills": 4, "limit": 300},
    ),
    Run(
        "processes",
        "kill -9 of a supervisor and its three processes",
        staged(supervised.run),
        long={"kills": 60, "messages": 12_000, "supervisor_every": 6},
        quick={"kills": 6, "messages": 900, "supervisor_every": 3},
        long_on_postgresql={"kills": 60, "messages": 6_000, "supervisor_every": 6},
    ),
    Run(
        "campaigns",
        "kill -9 amid a campaign",
        staged(campaigns.run),
        long={"kills": 40, "readers": 30_000},
        quick={"kills": 4, "readers": 1_500},
    ),
    Run(
        "sequences",
        "kill -9 amid a sequence",
        staged(sequences.run),
        long={"kills": 100, "people": 20_000},
        quick={"kills": 5, "people": 1_000},
    ),
    Run(
        "repeats",
        "kill -9 amid recurring campaigns",
        staged(repeats.run),
        long={"kills": 30, "drafts": 20, "readers": 100},
        quick={"kills": 5, "drafts": 5, "readers": 20},
    ),
    Run(
        "provider-changes",
        "killed while another provider is adopted",
        staged(provider_changes.run),
        long={"kills": 20, "messages": 6_000},
        quick={"kills": 3, "messages": 300},
    ),
    Run("phases", "killed at every step", staged(phases.kills), {}, {}),
    Run("phases", "cut at every step", staged(phases.cuts), {}, {}),
    Run("phases", "connection cut during a large message", staged(phases.cut_during_a_large_message), {}, {}),
    Run("phases", "claimed and not marked", staged(phases.claimed_only), {"messages": 1_000}, {}),
    Run(
        "http-phases",
        "killed at every step of a request",
        staged(http_phases.kills),
        long={},
        quick={"moments": (http_phases.AMID_A_LARGE_BODY, http_phases.AFTER_THE_BODY)},
    ),
    Run(
        "http-answers",
        "a provider that answers anything",
        staged(http_answers.run),
        long={},
        quick={"statuses": http_answers.SOME_STATUSES, "large_answers": 5},
    ),
    Run("drains", "SIGTERM under load", staged(drains.run), {"stops": 50}, {"stops": 6}),
    Run("freezes", "stopped past the lock", staged(freezes.run), {"freezes": 20}, {"freezes": 4}),
    Run("outages", "PostgreSQL lost", lost_database, {"outages": 20}, {"outages": 4}, POSTGRESQL),
    Run(
        "vanishing",
        "machine of PostgreSQL vanishes",
        vanished_database,
        long={"times": 6, "seconds": 30, "bulk": 5_000, "transactional": 500},
        quick={"times": 2, "seconds": 12, "bulk": 500, "transactional": 50},
        engines=POSTGRESQL,
    ),
    Run(
        "partitions",
        "worker, server or all of them cut off from PostgreSQL",
        staged(partitions.run),
        long={"readers": 5_000, "seconds": 15},
        quick={"readers": 500, "seconds": 6},
        engines=POSTGRESQL,
    ),
    Run(
        "rolling",
        "previous release beside the upgrade and the new one",
        upgraded_while_sending,
        long={"kills": 20, "clients": 8},
        quick={"kills": 4, "clients": 2},
        engines=POSTGRESQL,
    ),
    Run(
        "failovers",
        "synchronous standby takes over",
        standby_takes_over,
        long={"bulk": 5_000, "transactional": 500},
        quick={"bulk": 250, "transactional": 50},
        engines=POSTGRESQL,
    ),
    Run(
        "poolers",
        "all processes share four connections of PgBouncer in transaction mode",
        behind_a_pooler,
        long={"bulk": 5_000, "transactional": 500},
        quick={"bulk": 250, "transactional": 50},
        engines=POSTGRESQL,
    ),
    Run(
        "lossy-failovers",
        "asynchronous standby takes over without the latest commits",
        standby_lacks_commits,
        long={"seconds": (0.05, 0.5, 2, 10), "bulk": 5_000, "transactional": 500},
        quick={"seconds": (0.05, 2), "bulk": 1_000, "transactional": 100},
        engines=POSTGRESQL,
    ),
    Run("outages", "Valkey flushed, frozen, gone", lost_valkey, {"limit": 1_000}, {"limit": 200}),
    Run("backups", "backup and restore killed at each step", staged(backups.run), {"points": 10}, {"points": 3}),
    Run("copies", "database put back without its marker", staged(copies.run), {"messages": 1_000}, {"messages": 100}),
    Run("disks", "database locked", staged(disks.locked), {"seconds": 60}, {"seconds": 1}, SQLITE),
    Run("disks", "files cannot grow", staged(disks.full), {}, {}, SQLITE),
    Run("disks", "full disk, read-only disk", small_disk, {}, {}, SQLITE),
    Run(
        "poison",
        "a message that kills the worker before the attempt",
        staged(poison.before_the_attempt),
        {"innocents": 2_000},
        {"innocents": 300},
    ),
    Run(
        "poison",
        "a message that kills the worker during the attempt",
        staged(poison.during_the_attempt),
        {"innocents": 500},
        {"innocents": 150},
    ),
    Run(
        "notifications",
        "a queue whose workers are killed",
        staged(notifications.run),
        {"kills": 20, "events": 100, "readers": 100},
        {"kills": 3, "events": 20, "readers": 50},
    ),
    Run(
        "clicks",
        "server killed during clicks",
        staged(clicks.run),
        {"kills": 10, "clicks": 10_000},
        {"kills": 2, "clicks": 400},
    ),
    Run(
        "erasures",
        "people erased while a message is in doubt",
        staged(erasures.run),
        {"kills": 20, "people": 400},
        {"kills": 3, "people": 30},
    ),
    Run(
        "bursts",
        "bursts of clicks through two servers, one of which is killed",
        staged(bursts.run),
        {"kills": 5, "emails": 3_000},
        {"kills": 1, "emails": 200},
    ),
    Run("same-key", "one key from 50 clients", staged(same_key.run), {"keys": 1_000}, {"keys": 50}),
    Run(
        "submissions",
        "kill -9 of SMTP servers",
        staged(submissions.run),
        {"kills": 20, "emails": 10_000},
        {"kills": 2, "emails": 300},
    ),
    Run("webhooks", "repeated, shuffled, malformed", many_webhooks, {"webhooks": 20_000}, {"webhooks": 2_000}),
    Run("forms", "random forms and bodies", staged(forms.run), {"forms": 5_000}, {"forms": 300}),
    Run(
        "templates",
        "templates that exhaust stack, memory or time",
        templates.run,
        {"templates": 20_000},
        {"templates": 500},
        SQLITE,
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="kills", help="which; all when none is named")
    parser.add_argument("--quick", action="store_true", help="small sizes: minutes, not half an hour")
    parser.add_argument("--engine", choices=ENGINES, help="one only")
    given = parser.parse_args()
    wanted = set(given.faults) or {run.fault for run in RUNS}
    console = Console(width=None if sys.stdout.isatty() else 140)
    missed = 0
    for run in RUNS:
        for engine in run.engines:
            if run.fault in wanted and given.engine in (None, engine):
                missed += not _show(console, run, engine, run.sizes(engine, quick=given.quick))
    console.print("[red]Some bars were missed.[/]" if missed else "[green]Every bar was reached.[/]")
    return 1 if missed else 0


def _show(console: Console, run: Run, engine: str, sizes: dict[str, Any]) -> bool:
    """Run one fault and print its figures as soon as they are known."""
    started = time.monotonic()
    try:
        figures = asyncio.run(run.work(engine, **sizes))
    except Exception as error:  # A run that raises is a miss; the others still count.
        figures = Figures()
        figures.expect("the run itself", f"{type(error).__name__}: {error}", "to its end", when=False)
    title = f"{run.fault} {run.title} ({engine}), {time.monotonic() - started:.0f} s"
    table = Table("", "figure", "found", "bar", title=title, title_justify="left", title_style="bold")
    for figure in figures.all:
        mark = "[green]✓[/]" if figure.bar and figure.is_reached else "[red]✗[/]" if figure.bar else ""
        table.add_row(mark, figure.name, str(figure.found), figure.bar)
    console.print(table)
    return not figures.misses


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
