"""Deliver outgoing webhooks to an endpoint that answers at once. Runs as its own process.

`python -m bench.outgoing_webhooks DATABASE URL [EVENTS]` creates that many events of one tenant with one endpoint.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

import uvloop

from bench.migrated import migrated
from mailwright.app.outbound_webhooks import make_webhook_dispatcher
from mailwright.app.wiring import Engine, open_engine
from mailwright.domain.ids import uuid7s
from mailwright.domain.message import Event, NewMessage, Source
from mailwright.domain.states import EventType
from mailwright.events.outbound.endpoints import WebhookEndpointInput, WebhookEndpoints
from mailwright.ops import logs
from mailwright.ops.settings import load
from mailwright.outbox.settle import append_events, event_row

ACCEPT_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Delivered:
    events: int
    seconds: float
    cpu_seconds: float  # CPU time of this process, from the event to the recorded response.

    @property
    def per_second(self) -> float:
        return self.events / self.seconds

    @property
    def per_cpu_second(self) -> float:
        return self.events / self.cpu_seconds


def measured(database_url: str, url: str, events: int) -> Delivered:
    words = [sys.executable, "-m", "bench.outgoing_webhooks", database_url, f"{url}/webhook", str(events)]
    return Delivered(**json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout))


async def deliver(database_url: str, url: str, events: int) -> Delivered:
    settings = load(database_url=await migrated(database_url), webhook_private=True)
    async with open_engine(settings) as engine:
        endpoints = WebhookEndpoints(engine.database, engine.clock, allows_private=True)
        await endpoints.create(1, WebhookEndpointInput(url, (EventType.SENT.value,)), actor="bench")
        await write_events(engine, events)
        dispatcher = make_webhook_dispatcher(settings, engine.database, engine.clock)
        began, cpu_began = time.perf_counter(), time.process_time()
        while await dispatcher.dispatch_due():
            await dispatcher.wait_until_idle()
        await dispatcher.dispatch_all()
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        await dispatcher.close()
    return Delivered(events, seconds, cpu_seconds)


async def write_events(engine: Engine, events: int) -> None:
    now = engine.clock.now()
    for start in range(0, events, ACCEPT_BATCH):
        numbers = range(start, min(events, start + ACCEPT_BATCH))
        await engine.acceptor.accept(
            [
                NewMessage(
                    outbox_id, 1, Source.API, "bench", f"reader{number}@readers.example", "Hello", {"to": "a@b.c"}
                )
                for number, outbox_id in zip(numbers, uuid7s(now, len(numbers)), strict=True)
            ]
        )
        rows = [event_row(number + 1, 1, Event(EventType.SENT, now, {"attempt": 1})) for number in numbers]
        await engine.database.transact(lambda tx, rows=rows: append_events(tx, rows))  # type: ignore[misc]


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m bench.outgoing_webhooks", description=__doc__)
    reader.add_argument("database")
    reader.add_argument("url")
    reader.add_argument("events", type=int, nargs="?", default=5_000)
    asked = reader.parse_args()
    logs.configure("ERROR", "console")
    json.dump(asdict(uvloop.run(deliver(asked.database, asked.url, asked.events))), sys.stdout)


if __name__ == "__main__":
    main()
