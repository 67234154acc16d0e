"""Pacing: how evenly the sends of one mailout start at a fixed rate. Runs as its own process."""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import uvloop

from bench import job
from bench.migrated import migrated
from mailwright.app.wiring import Engine, make_worker, open_engine
from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7
from mailwright.domain.message import Source
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.ops import logs
from mailwright.ops.settings import load
from mailwright.providers.callbacks import run_with_callback
from mailwright.providers.mailbox.provider import MailboxProvider
from mailwright.providers.protocol import ProviderCheck, ResultCallback, SendHandle
from mailwright.sources.campaigns import external
from mailwright.sources.campaigns.definition import CampaignLimits

RATES = (5, 20, 50)
SECONDS = 6
# A slow mailout is stopped after this time and measured by the messages sent until then. All rates on both engines then
# take a minute.
LATEST_SECONDS = 8


@dataclass(frozen=True, slots=True)
class Evenness:
    """Intervals between the starts of sends, in milliseconds; `ideal` is the interval of the rate."""

    messages: int
    ideal: float
    shortest: float
    mean: float
    longest: float

    @property
    def deviation(self) -> float:
        """Return the deviation of the mean from the ideal, as a fraction of it."""
        return self.mean / self.ideal - 1


class Timed:
    """A mailbox that records when each send starts, by a monotonic clock."""

    reports_events = False
    capacity = 64

    def __init__(self, mailbox: MailboxProvider) -> None:
        self.name = mailbox.name
        self.begun: list[float] = []
        self._mailbox = mailbox

    def send_with_callback(self, message: OutgoingMessage, answered: ResultCallback) -> SendHandle:
        """A send starts when the message is handed over, as with SMTP, SES and SendGrid."""
        self.begun.append(time.perf_counter())
        return run_with_callback(self.send(message), answered)

    async def send(self, message: OutgoingMessage) -> SendResult:
        return await self._mailbox.send(message)

    async def check(self) -> ProviderCheck:
        return await self._mailbox.check()

    async def close(self, grace: Instant = 0) -> None:
        await self._mailbox.close(grace)


def measured(database_url: str, rate: int) -> Evenness:
    words = [sys.executable, "-m", "bench.pacing", database_url, str(rate)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return Evenness(**json.loads(done.stdout))


async def pace(database_url: str, rate: int, folder: Path) -> Evenness:
    emails = rate * SECONDS
    settings = load(database_url=await migrated(database_url), sender=job.SENDER, working_hours="00:00-24:00")
    async with open_engine(settings) as engine:
        await queue_up(engine, rate, emails)
        provider = Timed(MailboxProvider(folder, engine.clock))
        worker = await make_worker(engine, provider)
        working = asyncio.create_task(worker.run())
        latest = time.perf_counter() + LATEST_SECONDS
        while len(provider.begun) < emails and time.perf_counter() < latest:
            await asyncio.sleep(0.2)
        worker.stop()
        await working
    gaps = [1_000 * (after - before) for before, after in pairwise(provider.begun)]
    return Evenness(len(provider.begun), 1_000 / rate, min(gaps), sum(gaps) / len(gaps), max(gaps))


async def queue_up(engine: Engine, rate: int, emails: int) -> None:
    """Enqueue messages like a mailout with this rate, after its page and recipients were read."""
    now = engine.clock.now()
    template = await engine.templates.put(1, "bench", subject=job.SUBJECT, html=job.HTML, text=job.TEXT)
    limits = CampaignLimits(interval_ms=1_000 // rate, one_at_a_time=True)
    campaign = external.ExternalCampaign(uuid7(now), 1, "Pacing", job.SUBJECT, "bench", template.key, emails, limits)
    people = [job.recipient(number) for number in range(emails)]
    recipients = [
        external.ExternalRecipient(each["email"], {"variables": {name: each[name] for name in job.VARIABLES}})
        for each in people
    ]
    async with engine.database.write() as tx:
        key = await external.enqueue_external(tx, campaign, now)
        await external.add_recipients(tx, Source.MAILOUT, key, recipients, now)
        await external.close_recipients(tx, key, now)


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m bench.pacing", description=__doc__)
    reader.add_argument("database", help="the address of an empty database")
    reader.add_argument("rate", type=int, help="messages per second: a divisor of 1,000")
    asked = reader.parse_args()
    logs.configure("ERROR", "console")
    with tempfile.TemporaryDirectory(prefix="mwpacing") as folder:
        json.dump(asdict(uvloop.run(pace(asked.database, asked.rate, Path(folder)))), sys.stdout)


if __name__ == "__main__":
    main()
