"""Mailwright's side of the race: the one place of the benchmarks that knows how Mailwright is started.

Everything here goes through the documented names: commands, settings, routes.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.children import Child, NotMeasured, call
from bench.race import Run, race
from bench.sink import free_port, wait_for_port
from bench.stage import Stage

PROGRAM = Path(__file__).parent.parent / ".venv" / "bin" / "mailwright"


def drain(stage: Stage, database_url: str, count: int, *, processes: int = 1) -> Run:
    """Runs workers on a database with `count` due messages until each has been sent and settled."""
    on_postgresql = database_url.startswith("postgresql")
    env = {**environment(database_url), "MAILWRIGHT_PROVIDER": "smtp", "MAILWRIGHT_SMTP_URL": stage.sink.url}
    workers = [
        Child([PROGRAM, "worker", "--drain"], stage.log(f"mailwright-{number}"), env, stage.scratch)
        for number in range(processes)
    ]
    database = stage.postgresql.process if on_postgresql else None
    run = race(stage.sink, workers, count, database=database, until_exit=True, advance=stage.advance)
    if (settled := audit(database_url)["sent"]) != count:
        raise NotMeasured(f"{count} mails came to the sink, and the audit counts {settled} as sent")
    return run


@dataclass(frozen=True, slots=True)
class Service:
    url: str
    key: str
    database_url: str


@contextlib.contextmanager
def serving(stage: Stage, database_url: str) -> Iterator[Service]:
    """The API without a worker, and a key for it."""
    port, env = free_port(), environment(database_url)
    call([PROGRAM, "db", "upgrade"], env=env, cwd=stage.scratch)
    key = call([PROGRAM, "key", "create", "--tenant", "default"], env=env, cwd=stage.scratch).strip()
    command: list[str | Path] = [PROGRAM, "serve", "--no-worker", "--host", "127.0.0.1", "--port", str(port)]
    with Child(command, stage.log("mailwright-serve"), env, stage.scratch) as child:
        wait_for_port(port, child)
        yield Service(f"http://127.0.0.1:{port}", key, database_url)


def audit(database_url: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(call([PROGRAM, "audit", "--json"], env=environment(database_url)))
    return found


def environment(database_url: str) -> dict[str, str]:
    """Settings under which nothing but the machine limits the rate."""
    return {"MAILWRIGHT_DATABASE_URL": database_url, "MAILWRIGHT_WORKING_HOURS": "00:00-24:00"}
