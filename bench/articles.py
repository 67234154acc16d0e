"""Measure how fast an article is assembled for 100,000 recipients in Ohio. Runs as its own process."""

import argparse
import asyncio
import csv
import gc
import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
from sqlalchemy import func, insert, select, text

from bench.campaigns import megabytes
from bench.children import NotMeasured
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import SystemClock
from mailwright.sources.articles.assembly import PublishStatus, Slice
from mailwright.sources.articles.enqueue import ArticleScheduler
from mailwright.sources.articles.runs import ArticleRuns, RunRequest
from mailwright.sources.articles.slices import SliceStore
from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade
from mailwright.storage.tables import contacts, messages, templates

TENANT = 1
SEED = 20_270_115
FILLED_AT_ONCE = 5_000
# Real division IDs of Ohio, if their file is next to this checkout.
PLACES = Path(__file__).resolve().parents[2] / "shared" / "fixtures" / "ocd" / "us_census_places__state_oh.csv"
US = "ocd-division/country:us"
OHIO = f"{US}/state:oh"
KEY = "spring-vote"
# Together with one slice for everyone, one for the country and one for the state, there are 50 slices.
COUNTIES, TOWNS, HOUSE, SENATE = 15, 22, 5, 5
WORDS = "What is on the ballot here, who stands for which office, and where to vote until half past seven. " * 8

_SUBSCRIPTIONS = (
    "INSERT INTO subscriptions (tenant_id, contact_key, list_key, subscribed_at, source) "
    "SELECT tenant_id, id, 'general', 0, 'import' FROM contacts WHERE tenant_id = :tenant_id"
)


@dataclass(frozen=True, slots=True)
class Assembled:
    readers: int
    slices: int
    variants: int
    seconds: float
    megabytes_before: float
    megabytes_after: float


def measured(url: str, readers: int) -> Assembled:
    """Fill the database and measure in separate processes, so that the memory for filling is not counted."""
    if not PLACES.exists():
        raise NotMeasured("the ids of Ohio are not beside this checkout")
    words = [sys.executable, "-m", "bench.articles", url]
    subprocess.run([*words, "--fill", str(readers)], check=True)
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return Assembled(**json.loads(done.stdout))


async def fill(url: str, readers: int) -> None:
    """Create a database with the slices and `count` contacts in Ohio."""
    database, clock, chance = Database(url), SystemClock(), random.Random(SEED)
    await upgrade(database)
    towns = _towns()
    await SliceStore(database, clock, TemplateStore(database, clock)).put("bench", TENANT, _slices(towns))
    homes = _homes(towns)
    for start in range(0, readers, FILLED_AT_ONCE):
        rows = [
            {
                "contact_id": f"contact-{number}",
                "tenant_id": TENANT,
                "email": f"reader{number * 7919 % readers:07d}@example.com",
                "name": f"Reader {number}",
                "created_at": 0,
                "attributes": orjson.dumps({"ocd_ids": chance.choice(homes)}).decode(),
            }
            for number in range(start, min(start + FILLED_AT_ONCE, readers))
        ]
        async with database.write() as tx:
            await tx.execute(insert(contacts), rows)
    async with database.write() as tx:
        await tx.execute(text(_SUBSCRIPTIONS), {"tenant_id": TENANT})
        await tx.execute(text("ANALYZE"))
    await database.close()


async def assemble(url: str) -> Assembled:
    """Start a run for all of them and continue until every one has a message."""
    gc.freeze()  # As a worker does after its start.
    database, clock = Database(url), SystemClock()
    store = TemplateStore(database, clock)
    before, began = megabytes(), time.perf_counter()
    run, _ = await ArticleRuns(database, clock, store).start(
        "bench", TENANT, RunRequest("bench", KEY, "7f9c24e8-3b12-4c5d-9e6f-0a1b2c3d4e5f", {"state": "OH"})
    )
    conductor = ArticleScheduler(database, clock, store)
    while await conductor.tick():
        pass
    seconds = time.perf_counter() - began
    async with database.read() as tx:
        written = (await tx.execute(select(func.count()).select_from(messages)))[0][0]
        variants = (await tx.execute(select(func.count()).select_from(templates)))[0][0]
    number = len(await SliceStore(database, clock, store).list_slices(TENANT, run.article_key))
    await database.close()
    return Assembled(written, number, variants, seconds, before, megabytes())


def _towns() -> dict[str, list[str]]:
    """Return towns by county. A city's id does not name its county, so it is assigned one deterministically."""
    ids = [row[0] for row in csv.reader(PLACES.read_text(encoding="utf-8").splitlines()[1:])]
    counties = [each for each in ids if each.startswith(f"{OHIO}/county:") and each.count("/") == 3]
    found: dict[str, list[str]] = defaultdict(list)
    for each in ids:
        if each.startswith(f"{OHIO}/place:"):
            found[counties[sum(each.encode()) % len(counties)]].append(each)
        elif each.count("/") == 4:
            found[each.rpartition("/")[0]].append(each)
    return {county: found[county] for county in counties}


def _homes(towns: dict[str, list[str]]) -> list[list[str]]:
    """Return the divisions of each town. A county has one or two districts of each kind."""
    homes = []
    for number, (county, names) in enumerate(towns.items()):
        for place, town in enumerate(names):
            house, senate = (number * 15 // len(towns) + place % 2) % 15, (number * 33 // len(towns) + place % 2) % 33
            homes.append([US, OHIO, county, town, f"{OHIO}/cd:{house + 1}", f"{OHIO}/sldu:{senate + 1}"])
    return homes


def _slices(towns: dict[str, list[str]]) -> list[Slice]:
    counties = list(towns)[::3][:COUNTIES]
    scopes = [US, OHIO, *counties, *(towns[county][0] for county in list(towns)[:TOWNS])]
    scopes += [f"{OHIO}/cd:{number + 1}" for number in range(HOUSE)]
    scopes += [f"{OHIO}/sldu:{number + 1}" for number in range(SENATE)]
    published = PublishStatus.PUBLISHED
    headline = Slice("", KEY, "Dear [[name|reader]],", is_headline=True, title="Vote in May", publish_status=published)
    return [
        headline,
        *(
            Slice("", KEY, f"## {scope}\n\n{WORDS}", section_order=2, scope_ocd_id=scope, publish_status=published)
            for scope in scopes
        ),
    ]


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m bench.articles", description=__doc__)
    reader.add_argument("database", help="the address of an empty database, or of one that was filled")
    reader.add_argument("--fill", type=int, metavar="READERS", help="first add this number of contacts")
    asked = reader.parse_args()
    if asked.fill:
        asyncio.run(fill(asked.database, asked.fill))
        return
    json.dump(asdict(asyncio.run(assemble(asked.database))), sys.stdout)


if __name__ == "__main__":
    main()
