"""Measure what retention costs a worker that is sending, with millions of old messages in the database.

`python -m bench.retention --engine postgresql --messages 5000000` fills a database with old messages of the API, lets
workers send in slices (every second slice while `mailwright retention run` runs), and then deletes the rest.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import time
from dataclasses import dataclass

from sqlalchemy import text

from bench import mailwright
from bench.children import Child, NotMeasured, call, tree_cpu_seconds
from bench.migrated import migrated
from bench.race import POLL_SECONDS
from bench.stage import Stage
from mailwright.app.wiring import open_engine
from mailwright.domain.clock import DAY, SystemClock
from mailwright.domain.ids import uuid7
from mailwright.domain.lanes import lane_number
from mailwright.domain.message import NewMessage, Source
from mailwright.domain.states import Priority
from mailwright.ops import logs
from mailwright.ops.settings import load
from mailwright.outbox.tallies import CAMPAIGNS, LINKS, TENANTS
from mailwright.storage.partitions import ensure_event_partitions

AGE = 60 * DAY
HTML = f"<p>{'Your order is on its way. ' * 20}</p>"
FILL_BATCH = 250_000
SLICE = 20_000
ACCEPT_BATCH = 500
START_SECONDS = 5.0  # Until retention has started and works.
LANE = lane_number(Priority.TRANSACTIONAL, 1)

_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT CAST(:first AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < :last)"
_MESSAGES = (
    "INSERT INTO messages (id, outbox_id, tenant_id, source, request_id, to_email, subject, payload, retry_policy,"
    f" on_doubt, is_bulk, created_at) {_NUMBERS} SELECT i, '01900000-0000-7000-8000-' || (100000000000 + i), 1, 'api',"
    " 'request-' || i, 'reader' || i || '@example.com', 'Order ' || i || ' is on its way', :payload, 'standard',"
    " 'resend', false, :at + i / 1000 FROM n"
)
_DELIVERIES = (
    "INSERT INTO deliveries (message_key, tenant_id, lane, status, claimable_at, attempts, claims, resends, provider,"
    f" duration_ms, attempted_at, sent_at) {_NUMBERS} SELECT i, 1, {LANE}, 'SENT', :at, 1, 0, 0, 'smtp', 40,"
    " :at + i / 1000, :at + i / 1000 FROM n"
)
_EVENTS = (
    f"INSERT INTO events (message_key, tenant_id, type, created_at, metadata) {_NUMBERS}, story(type, step) AS (SELECT"
    " 'RECEIVED', 0 UNION ALL SELECT 'VALIDATED', 1 UNION ALL SELECT 'SENT_ATTEMPT', 2 UNION ALL SELECT 'SENT', 3)"
    """ SELECT i, 1, type, :at + i / 1000 + step, '{"provider"\\: "smtp", "attempt"\\: 1}' FROM n CROSS JOIN story"""
    " ORDER BY i, step"
)
_ACCEPTED = "INSERT INTO accepted_counts (tenant_id, source, accepted, created_at) VALUES (1, 'api', :accepted, :at)"
_TALLIED = "INSERT INTO installation (name, value) SELECT :name, CAST(max(id) AS text) FROM events"
_NEXT_KEY = "SELECT setval(pg_get_serial_sequence('messages', 'id'), :highest)"


@dataclass(frozen=True, slots=True)
class Slice:
    """Measured from the first message to the last, while the worker is sending."""

    seconds: float
    cpu_seconds: float  # Of the worker, the database server and retention.

    @property
    def rate(self) -> float:
        return SLICE / self.seconds

    @property
    def cpu_per_message_ms(self) -> float:
        return self.cpu_seconds / SLICE * 1000


async def fill(url: str, count: int) -> None:
    """Let the database write `count` sent messages with four events each."""
    async with open_engine(load(database_url=await migrated(url))) as engine:
        at = SystemClock().now() - AGE
        await ensure_event_partitions(engine.database, at)
        payload = f'{{"to": "reader@example.com", "subject": "Your order", "html": "{HTML}"}}'
        for first in range(1, count + 1, FILL_BATCH):
            values = {"first": first, "last": min(first + FILL_BATCH - 1, count), "at": at}
            async with engine.database.write() as tx:
                await tx.execute(text(_MESSAGES), {**values, "payload": payload})
                await tx.execute(text(_DELIVERIES), values)
                await tx.execute(text(_EVENTS), values)
            print(f"filled {values['last']:,}", file=sys.stderr, flush=True)
        async with engine.database.write() as tx:
            await tx.execute(text(_ACCEPTED), {"accepted": count, "at": at})
            if engine.database.dialect == "postgresql":
                await tx.execute(text(_NEXT_KEY), {"highest": count})
            for account in (TENANTS, CAMPAIGNS, LINKS):  # Tallying is not measured.
                await tx.execute(text(_TALLIED), {"name": account.cursor})
            await tx.execute(text("ANALYZE"))


async def accept_slice(url: str) -> None:
    async with open_engine(load(database_url=url)) as engine:
        for start in range(0, SLICE, ACCEPT_BATCH):
            await engine.acceptor.accept([_message(number) for number in range(start, start + ACCEPT_BATCH)])


def _message(number: int) -> NewMessage:
    email = f"customer{number}@example.com"
    content = {"to": email, "subject": "Your order", "html": HTML}
    return NewMessage(uuid7(SystemClock().now()), 1, Source.API, f"bench-{number}", email, "Your order", content)


def rule_on(url: str) -> None:
    call([mailwright.PROGRAM, "retention", "set", "messages", "30", "--yes"], env=mailwright.environment(url))


def measure(stage: Stage, url: str, *, with_retention: bool) -> Slice:
    """Let a worker send one slice, with retention running at the same time or not."""
    env = mailwright.environment(url)
    asyncio.run(accept_slice(url))
    with contextlib.ExitStack() as running:
        children = []
        if with_retention:
            children.append(Child([mailwright.PROGRAM, "retention", "run"], stage.log("retention"), env, stage.scratch))
        sending = {**env, **mailwright.smtp_provider(stage.sink)}
        worker = Child([mailwright.PROGRAM, "worker", "--drain"], stage.log("worker"), sending, stage.scratch)
        for child in (*children, worker):
            running.enter_context(child)
            time.sleep(START_SECONDS if child is not worker else 0)
        before = stage.sink.count()

        def cpu_seconds() -> float:
            server = tree_cpu_seconds(stage.postgresql.process) if url.startswith("postgresql") else 0.0
            return server + sum(child.cpu_seconds() for child in (*children, worker))

        def arrived(count: int) -> tuple[float, float]:
            while stage.sink.count() - before < count:
                if worker.exit_code() is not None:
                    raise NotMeasured(worker.complaint())
                time.sleep(POLL_SECONDS)
            return time.monotonic(), cpu_seconds()

        (first_at, first_cpu), (last_at, last_cpu) = arrived(1), arrived(SLICE)
        while worker.exit_code() is None:
            time.sleep(POLL_SECONDS)
        return Slice(last_at - first_at, last_cpu - first_cpu)


def delete_rest(stage: Stage, url: str) -> str:
    """Delete all old messages while nothing is sent, and return a sentence with the result."""
    env, began = mailwright.environment(url), time.monotonic()
    with Child([mailwright.PROGRAM, "retention", "run", "--json"], stage.log("rest"), env, stage.scratch) as child:
        while child.exit_code() is None:
            time.sleep(1)
        return f"the rest was deleted in {time.monotonic() - began:.0f} s, exit code {child.exit_code()}"


def table(found: dict[bool, list[Slice]]) -> str:
    lines = ["| retention | slices | messages per second | CPU ms per message |", "|---|---|---|---|"]
    for is_on, rows in found.items():
        rate = statistics.median(each.rate for each in rows)
        cpu = statistics.median(each.cpu_per_message_ms for each in rows)
        lines.append(f"| {'on' if is_on else 'off'} | {len(rows)} | {rate:.0f} | {cpu:.3f} |")
    return "\n".join(lines)


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m bench.retention", description=__doc__)
    reader.add_argument("--engine", choices=("sqlite", "postgresql"), default="postgresql")
    reader.add_argument("--messages", type=int, default=500_000)
    reader.add_argument("--slices", type=int, default=12)
    reader.add_argument("--keep-rest", action="store_true", help="do not delete what is left at the end")
    asked = reader.parse_args()
    logs.configure("ERROR", "console")
    with Stage() as stage, stage.sqlite_url() if asked.engine == "sqlite" else stage.postgresql_url() as url:
        asyncio.run(fill(url, asked.messages))
        rule_on(url)
        found: dict[bool, list[Slice]] = {False: [], True: []}
        for number in range(asked.slices):
            is_on = bool(number % 2)
            found[is_on].append(measure(stage, url, with_retention=is_on))
            print(table({on: rows for on, rows in found.items() if rows}), file=sys.stderr, flush=True)
        print(table(found))
        print(mailwright.audit(url))
        if not asked.keep_rest:
            print(delete_rest(stage, url))
            print(mailwright.audit(url))


if __name__ == "__main__":
    main()
