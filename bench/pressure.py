"""Measure how long transactional messages wait behind a campaign, and how many messages a campaign still sends after it
was stopped.

`python -m bench.pressure` runs a worker against a slow SMTP relay and prints one table. The worker runs in its own
process and polls the database, as it does without Valkey.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from time import monotonic

import uvloop
from sqlalchemy import func, select
from tests.standins.smtp_sink import Received, SmtpSink

from bench import job
from bench.migrated import migrated
from bench.stage import Stage
from mailwright.app.wiring import Engine, open_engine
from mailwright.domain.ids import uuid7
from mailwright.domain.message import NewMessage, Source
from mailwright.domain.states import Status
from mailwright.ops import logs
from mailwright.ops.settings import load
from mailwright.outbox import tenants
from mailwright.sources.campaigns import external
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.definition import CampaignLimits
from mailwright.sources.campaigns.records import Actor
from mailwright.storage.tables import deliveries

RELAY_SECONDS = (0.05, 0.3, 1.0, 3.0)
BACKLOG = 5_000
TRANSACTIONAL = 40
SECONDS_BETWEEN = 0.25
ACTOR = Actor("bench", None)


class SlowRelay(SmtpSink):
    """Records when the content of each message arrived and when the relay replied, by recipient."""

    def __init__(self, seconds: float) -> None:
        super().__init__(delay_seconds=seconds)
        self.arrived_at: dict[str, float] = {}
        self.replied_at: dict[str, float] = {}

    def note(self, message: Received) -> None:
        self.arrived_at[message.recipients[0]] = monotonic()

    async def accept(self, message: Received) -> None:
        self.replied_at[message.recipients[0]] = monotonic()
        self.count += 1


@dataclass
class Row:
    """The measurements for one relay time; seconds, and numbers of messages."""

    relay_seconds: float
    own: list[float] = field(default_factory=list)  # From accept to the relay's reply, for the campaign's tenant.
    other: list[float] = field(default_factory=list)  # The same for another tenant.
    after: dict[str, int] = field(default_factory=dict)  # Messages that began after pause, cancel or closing time.
    in_doubt: int = 0
    connections: int = 0  # Connections that were open when the worker was killed.


class Trial:
    """A campaign of 5,000 messages, a slow relay and one worker process."""

    def __init__(self, engine: Engine, relay: SlowRelay, folder: Path) -> None:
        self.engine = engine
        self.relay = relay
        self.campaigns = Campaigns(engine.database, engine.clock, engine.templates)
        self._folder = folder
        self._worker: asyncio.subprocess.Process | None = None

    async def queue_campaign(self, limits: CampaignLimits) -> str:
        now = self.engine.clock.now()
        template = await self.engine.templates.put(1, "bench", subject=job.SUBJECT, html=job.HTML, text=job.TEXT)
        campaign = external.ExternalCampaign(
            uuid7(now), 1, "Pressure", job.SUBJECT, "bench", template.key, BACKLOG, limits
        )
        people = [job.recipient(number) for number in range(BACKLOG)]
        recipients = [
            external.ExternalRecipient(each["email"], {"variables": {name: each[name] for name in job.VARIABLES}})
            for each in people
        ]
        async with self.engine.database.write() as tx:
            key = await external.enqueue_external(tx, campaign, now)
            await external.add_recipients(tx, Source.MAILOUT, key, recipients, now)
            await external.close_recipients(tx, key, now)
        return campaign.campaign_id

    async def accept(self, number: int, tenant_id: int) -> str:
        email = f"reset{number}@example.com"
        payload = {"to": email, "subject": "Reset your password", "html": "<p>Reset your password</p>"}
        message = NewMessage(
            uuid7(self.engine.clock.now()), tenant_id, Source.API, f"pressure-{number}", email, "Reset", payload
        )
        await self.engine.acceptor.accept([message])
        return email

    async def marked(self) -> int:
        query = select(func.count()).where(deliveries.c.status == Status.SENT_ATTEMPT)
        async with self.engine.database.read() as tx:
            return int((await tx.execute(query))[0][0])

    async def start_worker(self) -> asyncio.subprocess.Process:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("MAILWRIGHT_")}
        settings = {
            "MAILWRIGHT_DATABASE_URL": self.engine.settings.database_url,
            "MAILWRIGHT_PROVIDER": "smtp",
            "MAILWRIGHT_REQUIRE_SENDER_DOMAINS": "false",
            "MAILWRIGHT_SMTP_URL": f"{self.relay.url}?tls=none&purpose=test",
            "MAILWRIGHT_FROM": job.SENDER,
        }
        with (self._folder / "worker.log").open("ab") as log:
            self._worker = worker = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mailwright", "worker", env={**ours, **settings}, stdout=log, stderr=log
            )
        async with asyncio.timeout(60):
            while self.relay.count < 1:
                await asyncio.sleep(0.05)
        # All connections are open and busy.
        await asyncio.sleep(2 + 2 * self.relay.delay_seconds)
        return worker

    async def end(self) -> None:
        if self._worker is not None and self._worker.returncode is None:
            self._worker.kill()
            await self._worker.wait()


@contextlib.asynccontextmanager
async def a_trial(stage: Stage, storage: str, seconds: float) -> AsyncIterator[Trial]:
    with stage.sqlite_url() if storage == "sqlite" else stage.postgresql_url() as empty:
        url = await migrated(empty)
        settings = load(database_url=url, sender=job.SENDER, working_hours="00:00-24:00")
        async with open_engine(settings) as engine, SlowRelay(seconds) as relay:
            trial = Trial(engine, relay, stage.scratch)
            try:
                yield trial
            finally:
                await trial.end()


async def measure_waiting(trial: Trial, row: Row) -> None:
    """Accept transactional messages of two tenants while the campaign is being sent."""
    other = await tenants.create(trial.engine.database, trial.engine.clock, "other")
    await trial.queue_campaign(CampaignLimits())
    worker = await trial.start_worker()
    accepted: dict[str, tuple[float, list[float]]] = {}
    for number in range(TRANSACTIONAL):
        tenant_id, times = (1, row.own) if number % 2 else (other.id, row.other)
        begun = monotonic()
        accepted[await trial.accept(number, tenant_id)] = begun, times
        await asyncio.sleep(SECONDS_BETWEEN)
    while any(email not in trial.relay.replied_at for email in accepted):
        await asyncio.sleep(0.05)
    worker.terminate()
    await worker.wait()
    for email, (begun, times) in accepted.items():
        times.append(trial.relay.replied_at[email] - begun)


async def measure_stop(trial: Trial, row: Row, how: str) -> None:
    """Count the messages that began after the campaign had to stop."""
    limits, ends_at = CampaignLimits(), 0
    if how == "closing":
        # At a whole minute, when all connections are busy even on a slow machine.
        ends_at = (trial.engine.clock.now() + 30_000) // 60_000 + 1
        closes = datetime.fromtimestamp(ends_at * 60, UTC).strftime("%H:%M")
        limits = CampaignLimits(working_hours=f"00:00-{'24:00' if closes == '00:00' else closes}", timezone="UTC")
    campaign_id = await trial.queue_campaign(limits)
    worker = await trial.start_worker()
    match how:
        case "pause":
            await trial.campaigns.pause(ACTOR, campaign_id)
        case "cancel":
            await trial.campaigns.cancel(ACTOR, campaign_id)
        case _:
            await asyncio.sleep(max(0, ends_at * 60 - trial.engine.clock.now() / 1000))
    stopped = monotonic()
    seen = -1
    while seen != (seen := trial.relay.count):
        await asyncio.sleep(3 + 2 * trial.relay.delay_seconds)
    worker.terminate()
    await worker.wait()
    row.after[how] = sum(arrived > stopped for arrived in trial.relay.arrived_at.values())


async def measure_kill(trial: Trial, row: Row) -> None:
    """Kill the worker and count the messages whose attempt it had begun."""
    await trial.queue_campaign(CampaignLimits())
    worker = await trial.start_worker()
    row.connections = len(trial.relay.writers)
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    row.in_doubt = await trial.marked()


async def measure(stage: Stage, storage: str, relays: Sequence[float], parts: Sequence[str]) -> list[Row]:
    rows = []
    for seconds in relays:
        row = Row(seconds)
        for part in parts:
            async with a_trial(stage, storage, seconds) as trial:
                match part:
                    case "waiting":
                        await measure_waiting(trial, row)
                    case "kill":
                        await measure_kill(trial, row)
                    case _:
                        await measure_stop(trial, row, part)
        rows.append(row)
        print(table([row]), file=sys.stderr, flush=True)  # A later part may fail.
    return rows


def table(rows: Sequence[Row]) -> str:
    lines = [
        "| relay time | p99 for the campaign's tenant | p99 for another tenant | began after pause | after cancel"
        " | after closing time | marked at a kill | connections |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        after = [str(row.after.get(how, "")) for how in ("pause", "cancel", "closing")]
        cells = [f"{row.relay_seconds:g} s", _p99(row.own), _p99(row.other), *after, str(row.in_doubt)]
        lines.append(f"| {' | '.join([*cells, str(row.connections)])} |")
    return "\n".join(lines)


def _p99(times: Sequence[float]) -> str:
    return f"{quantiles(times, n=100, method='inclusive')[-1]:.2f} s" if len(times) > 1 else ""


def main() -> None:
    parts = ("waiting", "pause", "cancel", "closing", "kill")
    reader = argparse.ArgumentParser(prog="python -m bench.pressure", description=__doc__)
    reader.add_argument("--engine", choices=("sqlite", "postgresql"), default="sqlite")
    reader.add_argument("--relay", type=float, nargs="*", default=RELAY_SECONDS, help="seconds per message")
    reader.add_argument("--part", nargs="*", choices=parts, default=parts)
    asked = reader.parse_args()
    logs.configure("ERROR", "console")
    with Stage() as stage:
        print(table(uvloop.run(measure(stage, asked.engine, asked.relay, asked.part))))


if __name__ == "__main__":
    main()
