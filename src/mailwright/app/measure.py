"""Measure this machine: sample messages from accept to settle, in a temporary database."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import func, select

from mailwright.access.api_keys import Caller
from mailwright.app.wiring import Engine, make_worker, open_engine
from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Accepted
from mailwright.domain.states import EventType
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.outbox.audit import audit
from mailwright.outbox.explain import explain
from mailwright.outbox.queue_gauges import queue_state
from mailwright.sources.api.messages import ApiMessages, RequestContext
from mailwright.storage.tables import events

BATCH = 500
POLL_SECONDS = 0.25

_HTML = """<html><body><h1>Hello {{ name }}</h1><p>Your order {{ order }} has shipped.</p>{% for line in lines %}
<p style="color:#333">{{ line }}</p>{% endfor %}</body></html>"""
_LINES = ["A typical email has some lines of text and a link or two."] * 12

# Receives the number of accepted and the number of sent messages so far.
ReportProgress = Callable[[int, int], None]


class NothingSent(MailwrightError):
    """Not all sample messages were sent, so there is nothing to measure."""


@dataclass(frozen=True, slots=True)
class Measurement:
    count: int
    accept_seconds: float
    deliver_seconds: float
    cpu_seconds: float
    # Mean milliseconds per message for building it, beginning its attempt and getting the response.
    building: float
    marking: float
    sending: float


async def measure(folder: Path, count: int, smtp_url: str | None, report: ReportProgress) -> Measurement:
    async with open_engine(_settings(folder, smtp_url)) as engine:
        caller = await _caller(engine)
        cpu, start = time.process_time(), time.perf_counter()
        first = await _accept(engine, caller, count, report)
        accepted = time.perf_counter()
        await _deliver(engine, count, report)
        delivered = time.perf_counter()
        if (await audit(engine.database)).sent < count:
            why = await explain(engine.database, engine.clock, first, tenant_id=None)
            raise NothingSent(f"Not all sample messages were sent. State of the first: {why.state} ({why.reason}).")
        steps = await _mean_event_times(engine)
        return Measurement(
            count=count,
            accept_seconds=accepted - start,
            deliver_seconds=delivered - accepted,
            cpu_seconds=time.process_time() - cpu,
            building=steps[EventType.VALIDATED] - steps[EventType.RECEIVED],
            marking=steps[EventType.SENT_ATTEMPT] - steps[EventType.VALIDATED],
            sending=steps[EventType.SENT] - steps[EventType.SENT_ATTEMPT],
        )


def _settings(folder: Path, smtp_url: str | None) -> Settings:
    """Ignore the environment and mailwright.toml, so that a measurement never uses a real provider."""
    return Settings.model_construct(
        database_url=f"sqlite:///{folder}/mailwright.db",
        mailbox=folder / "mailbox",
        state=folder / "state",
        provider="mailbox" if smtp_url is None else "smtp",
        smtp_url=None if smtp_url is None else SecretStr(smtp_url),
        sender="Measure <measure@example.com>",
    )


async def _caller(engine: Engine) -> Caller:
    tenant = await tenants.find(engine.database, tenants.DEFAULT)
    await engine.templates.put(tenant.id, "measure", subject="Your order {{ order }}", html=_HTML, text=None)
    return Caller(tenant.id, tenant.name)


async def _accept(engine: Engine, caller: Caller, count: int, report: ReportProgress) -> str:
    """Accept the messages in batches and return the id of the first."""
    messages, first = ApiMessages(engine.database, engine.clock, engine.acceptor), ""
    for start in range(0, count, BATCH):
        bodies = [_body(number) for number in range(start, min(start + BATCH, count))]
        results = await messages.send_batch(RequestContext(caller, f"measure-{start}"), {"messages": bodies})
        if not first and isinstance(results[0], Accepted):
            first = results[0].outbox_id
        report(start + len(bodies), 0)
    return first


def _body(number: int) -> dict[str, object]:
    variables = {"name": f"Recipient {number}", "order": f"A-{number}", "lines": _LINES}
    return {"to": f"recipient{number}@example.com", "templateId": "measure", "variables": variables}


async def _deliver(engine: Engine, count: int, report: ReportProgress) -> None:
    worker = await make_worker(engine)
    delivering = asyncio.create_task(worker.run(drain=True))
    while not delivering.done():
        queue = await queue_state(engine.database, engine.clock.now())
        report(count, count - queue.due - queue.later - queue.sending)
        await asyncio.wait([delivering], timeout=POLL_SECONDS)
    await delivering


async def _mean_event_times(engine: Engine) -> dict[str, float]:
    """Return the mean time of each event type. The difference of two means is a mean duration."""
    async with engine.database.read() as tx:
        rows = await tx.execute(
            select(events.c.type, func.avg(events.c.created_at).label("at")).group_by(events.c.type)
        )
    return {row.type: float(row.at) for row in rows}
