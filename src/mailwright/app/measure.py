"""Measuring: sample mails through the whole road, on a database that is thrown away, to see what this machine does."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import func, select

from mailwright.app.schema import prepare
from mailwright.app.wiring import Engine, make_worker, open_engine
from mailwright.domain.states import EventType
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.outbox.audit import Audit, audit
from mailwright.sources.api.keys import Caller
from mailwright.sources.api.mail import Asking, Mail
from mailwright.storage.tables import events

BATCH = 500

_HTML = """<html><body><h1>Hello {{ name }}</h1><p>Your order {{ order }} is on its way.</p>{% for line in lines %}
<p style="color:#333">{{ line }}</p>{% endfor %}</body></html>"""
_LINES = ["A mail is about as long as people read: some lines of text, with a link or two."] * 12


@dataclass(frozen=True, slots=True)
class Measured:
    count: int
    accept_seconds: float
    deliver_seconds: float
    cpu_seconds: float
    # Milliseconds that a mail spent between two steps, on average.
    to_build: float
    to_mark: float
    to_send: float
    audit: Audit


async def measure(folder: Path, count: int, smtp_url: str | None, tell: Callable[[int, int], None]) -> Measured:
    """`tell` hears how many mails were accepted and sent so far."""
    async with open_engine(_settings(folder, smtp_url)) as engine:
        await prepare(engine.database)
        caller = await _caller(engine)
        cpu, start = time.process_time(), time.perf_counter()
        await _accept(engine, caller, count, lambda accepted: tell(accepted, 0))
        accepted = time.perf_counter()
        worker = await make_worker(engine)
        await worker.run(drain=True)
        delivered = time.perf_counter()
        tell(count, count)
        steps = await _mean_moments(engine)
        return Measured(
            count=count,
            accept_seconds=accepted - start,
            deliver_seconds=delivered - accepted,
            cpu_seconds=time.process_time() - cpu,
            to_build=steps[EventType.VALIDATED] - steps[EventType.RECEIVED],
            to_mark=steps[EventType.SENT_ATTEMPT] - steps[EventType.VALIDATED],
            to_send=steps[EventType.SENT] - steps[EventType.SENT_ATTEMPT],
            audit=await audit(engine.database),
        )
