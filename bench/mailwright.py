"""Start Mailwright for the benchmarks.

Measurements use documented commands, settings and routes. Only set-up and the isolated claim use internal functions.
"""

import asyncio
import contextlib
import json
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import psutil
from sqlalchemy import text

from bench import http_sink, job
from bench.children import Child, NotMeasured, call
from bench.http_sink import HttpSink, started_http_sink
from bench.migrated import migrated
from bench.race import Counting, Run, race
from bench.sink import Sink, free_port, wait_for_port
from bench.stage import Stage
from mailwright.app.wiring import open_engine
from mailwright.domain.clock import SystemClock
from mailwright.domain.ids import uuid7
from mailwright.domain.message import NewMessage, Source
from mailwright.domain.states import OnDoubt, Priority
from mailwright.ops.settings import load
from mailwright.outbox.claim import Claims
from mailwright.outbox.sending_hold import HoldReason, SendingHold, hold_sending

ACCEPT_BATCH = 2_000
FILL_BATCH = 500_000
CLAIMS_MEASURED = 30
PROGRAM = Path(__file__).parent.parent / ".venv" / "bin" / "mailwright"


def drain(stage: Stage, database_url: str, count: int, *, processes: int = 1) -> Run:
    """Run a worker on a database with `count` due messages until all are settled."""
    drained = _drain if processes == 1 else partial(_drain_together, processes=processes)
    return drained(stage, stage.sink, smtp_provider(stage.sink), database_url, count)


def drain_over_http(stage: Stage, provider: str, database_url: str, count: int) -> Run:
    """Do the same through `ses` or `sendgrid`, to an HTTP sink."""
    with started_http_sink(stage.scratch) as sink:
        run = _drain(stage, sink, http_provider(provider, sink), database_url, count)
        sink.look_at_the_first()
        return run


def _drain(stage: Stage, sink: Counting, provider: Mapping[str, str], database_url: str, count: int) -> Run:
    env = {**environment(database_url), **provider}
    worker = Child([PROGRAM, "worker", "--drain"], stage.log("mailwright-1"), env, stage.scratch)
    run = race(sink, [worker], count, database=_server(stage, database_url), until_exit=True, advance=stage.advance)
    if (settled := audit(database_url)["sent"]) != count:
        raise NotMeasured(f"{count} messages reached the sink, and the audit counts {settled} as sent")
    return run


def _drain_together(
    stage: Stage, sink: Counting, provider: Mapping[str, str], database_url: str, count: int, *, processes: int
) -> Run:
    """Hold sending until all processes have started, so that the time of the first one alone is not counted."""
    env = {**environment(database_url), **provider}
    asyncio.run(_hold(database_url))
    group = Child([PROGRAM, "worker", "--processes", str(processes)], stage.log("mailwright-group"), env, stage.scratch)

    def release() -> None:
        _wait_for(lambda: group.log.read_text().count("worker_started") == processes, group)
        call([PROGRAM, "db", "release", "--due", "send"], env=env, cwd=stage.scratch)

    def settle() -> None:
        _wait_for(lambda: audit(database_url)["sent"] == count, group)

    database = _server(stage, database_url)
    started = {"when_started": release, "when_arrived": settle}
    return race(sink, [group], count, database=database, advance=stage.advance, **started)


async def _hold(database_url: str) -> None:
    async with open_engine(load(database_url=database_url)) as engine:
        await hold_sending(engine.database, SendingHold(HoldReason.REPORTED, SystemClock().now(), "a benchmark"))


def _wait_for(is_so: Callable[[], bool], child: Child, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline or child.exit_code() is not None:
            raise NotMeasured(child.complaint())
        time.sleep(0.05)


def _server(stage: Stage, database_url: str) -> psutil.Process | None:
    return stage.postgresql.process if database_url.startswith("postgresql") else None


def smtp_provider(sink: Sink) -> dict[str, str]:
    return {"MAILWRIGHT_PROVIDER": "smtp", "MAILWRIGHT_SMTP_URL": sink.url}


def http_provider(name: str, sink: HttpSink) -> dict[str, str]:
    return {
        "MAILWRIGHT_PROVIDER": name,
        "MAILWRIGHT_SES_URL": f"{sink.url}?purpose=test",
        "AWS_REGION": http_sink.REGION,
        "AWS_ACCESS_KEY_ID": http_sink.ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": http_sink.SECRET_KEY,
        "MAILWRIGHT_SENDGRID_URL": f"{sink.url}?purpose=test",
        "SENDGRID_API_KEY": http_sink.SENDGRID_KEY,
    }


@dataclass(frozen=True, slots=True)
class Service:
    url: str
    key: str
    database_url: str
    pid: int


@contextlib.contextmanager
def serving(
    stage: Stage, database_url: str, more: Mapping[str, str] = MappingProxyType({}), *, processes: int = 1
) -> Iterator[Service]:
    """Serve the API without a worker and create a key; `more` are additional settings."""
    port, env = free_port(), {**environment(database_url), **more}
    call([PROGRAM, "db", "upgrade"], env=env, cwd=stage.scratch)
    key = call([PROGRAM, "key", "create", "--tenant", "default"], env=env, cwd=stage.scratch).strip()
    command: list[str | Path] = [PROGRAM, "serve", "--no-worker", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--processes", str(processes)]
    with Child(command, stage.log("mailwright-serve"), env, stage.scratch) as child:
        wait_for_port(port, child)
        # The port is open before the application is loaded; this request is answered when it is ready.
        urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30).close()
        _wait_for(lambda: child.log.read_text().count("api_started") == processes, child)
        yield Service(f"http://127.0.0.1:{port}", key, database_url, child.pid)


def audit(database_url: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(call([PROGRAM, "audit", "--json"], env=environment(database_url)))
    return found


def environment(database_url: str) -> dict[str, str]:
    """Return settings without limits."""
    return {"MAILWRIGHT_DATABASE_URL": database_url, "MAILWRIGHT_WORKING_HOURS": "00:00-24:00"}


def prepare(database_url: str, count: int) -> None:
    """Create a database with the job's template and `count` due campaign messages."""
    asyncio.run(_prepare(database_url, count))


async def _prepare(database_url: str, count: int) -> None:
    async with open_engine(load(database_url=await migrated(database_url))) as engine:
        template = await engine.templates.put(1, "bench", subject=job.SUBJECT, html=job.HTML, text=job.TEXT)
        for start in range(0, count, ACCEPT_BATCH):
            numbers = range(start, min(count, start + ACCEPT_BATCH))
            await engine.acceptor.accept([_campaign_message(number, template.key) for number in numbers])


def _campaign_message(number: int, template_key: int) -> NewMessage:
    person = job.recipient(number)
    return NewMessage(
        outbox_id=uuid7(SystemClock().now()),
        tenant_id=1,
        source=Source.CAMPAIGN,
        request_id=f"bench-{number}",
        to_email=person["email"],
        subject=job.SUBJECT,
        payload={"to": person["email"], "variables": {name: person[name] for name in job.VARIABLES}},
        external_id=str(number),
        dedupe_key=f"bench:{number}",
        template_key=template_key,
        on_doubt=OnDoubt.HOLD,
        priority=Priority.BULK,
        is_bulk=True,
    )


def prepare_receipts(database_url: str, count: int, *, has_text: bool) -> None:
    """Create a database with `count` due messages of the API, each with its own HTML."""
    asyncio.run(_prepare_receipts(database_url, count, has_text=has_text))


async def _prepare_receipts(database_url: str, count: int, *, has_text: bool) -> None:
    async with open_engine(load(database_url=await migrated(database_url))) as engine:
        for start in range(0, count, ACCEPT_BATCH):
            numbers = range(start, min(count, start + ACCEPT_BATCH))
            await engine.acceptor.accept([_receipt(number, has_text=has_text) for number in numbers])


def _receipt(number: int, *, has_text: bool) -> NewMessage:
    to, own = job.recipient(number)["email"], str(number)
    content = {"to": to, "subject": job.RECEIPT_SUBJECT.replace("@@", own), "html": job.RECEIPT.replace("@@", own)}
    if has_text:
        content["text"] = job.RECEIPT_TEXT.replace("@@", own)
    return NewMessage(
        outbox_id=uuid7(SystemClock().now()),
        tenant_id=1,
        source=Source.API,
        request_id=f"bench-{number}",
        to_email=to,
        subject=content["subject"],
        payload=content,
        external_id=own,
    )


def prepare_claims(database_url: str, rows: int) -> None:
    """Create an outbox of `rows` messages, of which 90 % are sent and 10 % are due."""
    asyncio.run(_prepare_claims(database_url, rows))


async def _prepare_claims(database_url: str, rows: int) -> None:
    """Let the database copy one message: ten million through the API would take an hour."""
    async with open_engine(load(database_url=await migrated(database_url))) as engine:
        await engine.acceptor.accept([_campaign_message(0, 1)])
        for start in range(1, rows, FILL_BATCH):
            last = min(rows, start + FILL_BATCH) - 1
            async with engine.database.write() as tx:
                for table in (_FILL_MESSAGES, _FILL_DELIVERIES):
                    await tx.execute(text(table), {"first": start, "last": last})
        async with engine.database.write() as tx:
            await tx.execute(text("ANALYZE"))


# A recursive query, which both engines support, yields the numbers, so that no rows are transferred.
_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT CAST(:first AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < :last) "
_FILL_MESSAGES = (
    "INSERT INTO messages (outbox_id, tenant_id, source, request_id, to_email, external_id, subject, payload,"
    " retry_policy, on_doubt, is_bulk, created_at) " + _NUMBERS + "SELECT m.outbox_id || '-' || n.i, m.tenant_id,"
    " m.source, m.request_id, n.i || m.to_email, m.external_id, m.subject, m.payload, m.retry_policy, m.on_doubt,"
    " m.is_bulk, m.created_at FROM n, messages AS m WHERE m.id = 1"
)
_FILL_DELIVERIES = (
    "INSERT INTO deliveries (message_key, tenant_id, lane, status, claimable_at, next_attempt_at, attempts, claims,"
    " resends, sent_at) " + _NUMBERS + "SELECT n.i + 1, d.tenant_id, d.lane,"
    " CASE WHEN n.i % 10 = 0 THEN 'PENDING' ELSE 'SENT' END, d.claimable_at, d.next_attempt_at, 0, 0, 0,"
    " CASE WHEN n.i % 10 = 0 THEN NULL ELSE d.claimable_at END FROM n, deliveries AS d WHERE d.message_key = 1"
)


def claim_seconds(database_url: str) -> float:
    """Measure a claim of a hundred messages and release them again."""
    return asyncio.run(_claim_seconds(database_url))


async def _claim_seconds(database_url: str) -> float:
    async with open_engine(load(database_url=database_url)) as engine:
        claims = Claims(engine.database, engine.clock, "bench", 60_000)
        taken: list[float] = []
        for _ in range(CLAIMS_MEASURED):
            started = time.perf_counter()
            claimed = await claims.claim(100)
            taken.append(time.perf_counter() - started)
            await claims.release(claimed)
        return statistics.median(taken)
