"""Measure how fast an audience is enqueued, and the memory that it needs. Runs as its own process."""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select, text

from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import SystemClock
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade
from mailwright.storage.tables import campaigns as campaigns_table
from mailwright.storage.tables import lists, queue_entries

TENANT = 1
FILLED_AT_ONCE = 50_000
DEFINITION: dict[str, Any] = {
    "name": "To everyone",
    "content": {"subject": "Hello {{ name }}", "body": "<p>{{ city }}</p><p>{{ unsubscribe_url }}</p>"},
}

_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT CAST(:first AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < :last) "
_CONTACTS = (
    "INSERT INTO contacts (id, contact_id, tenant_id, email, name, created_at, attributes) "
    + _NUMBERS
    + "SELECT i + 1, 'contact-' || i, 1, (1000000000 + i * 7919 % :people) || '@example.com', 'Ann', 0,"
    """ '{"city": "Rome"}' FROM n"""
)
_SUBSCRIPTIONS = (
    "INSERT INTO subscriptions (tenant_id, contact_key, list_key, subscribed_at, source) "
    + _NUMBERS
    + "SELECT 1, i + 1, 'news', 0, 'import' FROM n"
)


@dataclass(frozen=True, slots=True)
class Walked:
    people: int
    seconds_to_start: float
    seconds_to_walk: float
    megabytes_before: float
    megabytes_after: float

    @property
    def per_second(self) -> float:
        return self.people / (self.seconds_to_start + self.seconds_to_walk)


def measured(url: str, people: int) -> Walked:
    """Fill the database and measure in separate processes, so that the memory for filling is not counted."""
    words = [sys.executable, "-m", "bench.campaigns", url]
    subprocess.run([*words, "--fill", str(people)], check=True)
    walked = subprocess.run(words, check=True, capture_output=True, text=True)
    return Walked(**json.loads(walked.stdout))


async def fill(url: str, people: int) -> None:
    """Create a database with `count` subscribers of one list, in random address order."""
    database = Database(url)
    await upgrade(database)
    one = {"tenant_id": TENANT, "list_key": "news", "name": "News", "is_public": True, "created_at": 0}
    async with database.write() as tx:
        await tx.execute(insert(lists).values(**one))
    for start in range(0, people, FILLED_AT_ONCE):
        part = {"first": start, "last": min(start + FILLED_AT_ONCE, people) - 1}
        async with database.write() as tx:
            await tx.execute(text(_CONTACTS), {**part, "people": people})
            await tx.execute(text(_SUBSCRIPTIONS), part)
    async with database.write() as tx:
        await tx.execute(text("ANALYZE"))
    await database.close()


async def walk(url: str, list_key: str) -> Walked:
    """Start a campaign for all subscribers of a list and continue until every one has a message."""
    database, clock = Database(url), SystemClock()
    campaigns = Campaigns(database, clock, TemplateStore(database, clock))
    acting = Actor("bench", TENANT)
    definition = CampaignDefinition.model_validate({**DEFINITION, "lists": [list_key]})
    campaign = await campaigns.create(acting, TENANT, definition)
    before, began = megabytes(), time.perf_counter()
    await campaigns.start(acting, campaign.campaign_id)
    started = time.perf_counter()
    conductor = CampaignScheduler(database, clock)
    while await conductor.tick():
        pass
    ended = time.perf_counter()
    async with database.read() as tx:
        mine = queue_entries.c.campaign_key == campaigns_table.c.id
        entry = select(queue_entries.c.recipients).join(campaigns_table, mine)
        [row] = await tx.execute(entry.where(campaigns_table.c.campaign_id == campaign.campaign_id))
    await database.close()
    return Walked(row.recipients, started - began, ended - started, before, megabytes())


def megabytes() -> float:
    """Return the private memory of the process, without the pages that SQLite maps from its file."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon:")]
    return int(line.split()[1]) / 1024


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m bench.campaigns", description=__doc__)
    reader.add_argument("database", help="the address of an empty database, or of one that was filled")
    reader.add_argument("--fill", type=int, metavar="PEOPLE", help="first add this number of contacts")
    reader.add_argument("--list", default="news", help="the list that receives the campaign")
    asked = reader.parse_args()
    if asked.fill:
        asyncio.run(fill(asked.database, asked.fill))
        return
    json.dump(asdict(asyncio.run(walk(asked.database, asked.list))), sys.stdout)


if __name__ == "__main__":
    main()
