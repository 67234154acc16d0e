"""Kill workers while recurring campaigns are made and started: each occurrence is sent once to everyone."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import func, select, update

from mailwright.content.blocks.feed import FeedItem
from mailwright.content.template_store import TemplateStore
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import HOUR, SystemClock
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.repeats import CampaignRepeats
from mailwright.sources.recurrence_fields import ScheduleFields
from mailwright.storage.tables import campaign_repeats, campaigns, messages, queue_entries
from tests.builders import DEFAULT_TENANT
from tests.campaigns import OPERATOR, a_definition, address_of, join
from tests.faults.figures import Figures
from tests.faults.stage import Stage

SEED: Final = 20_270_117
LONGEST_SECONDS: Final = 120
# Far from the time of the test, so that no time of the schedule is reached or becomes overdue meanwhile.
DISTANCE: Final = 6 * HOUR


async def run(stage: Stage, *, kills: int, drafts: int, readers: int) -> Figures:
    figures, chance = Figures(), random.Random(SEED)
    await stage.open_sink(latency_seconds=0.005)
    await join(stage.database, [address_of(number) for number in range(readers)])
    schedule = _schedule()
    await _repeating(stage, schedule, drafts)
    workers = [stage.worker(), stage.worker()]
    for _ in range(kills):
        chosen = chance.randrange(len(workers))
        await workers[chosen].says("worker_started")
        await _make_due(stage, schedule)
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        workers[chosen].kill()
        workers[chosen] = stage.worker()
        async with asyncio.timeout(LONGEST_SECONDS):
            while await _unmade(stage):
                await asyncio.sleep(0.1)
    async with asyncio.timeout(LONGEST_SECONDS):
        while await _unwalked(stage):
            await asyncio.sleep(0.1)
    await stage.all_done(seconds=60)

    made, written = await _made(stage), await _written(stage)
    copies = [outbox_id for outbox_id, count in stage.received().items() if count > 1]
    figures.note("kills", kills)
    figures.expect("drafts that were sent", len(made), f"{drafts}", when=len(made) == drafts)
    figures.none("drafts with lost or doubled campaigns", [key for key, count in made.items() if count != kills])
    wanted = kills * drafts
    figures.none("people with lost or doubled emails", [who for who, count in written.items() if count != wanted])
    figures.expect("people", len(written), f"{readers}", when=len(written) == readers)
    figures.none("messages received twice", copies)
    figures.none("audits that did not add up", int(not await stage.identity_holds()))
    return figures


def _schedule() -> ScheduleFields:
    time = datetime.fromtimestamp((SystemClock().now() - DISTANCE) / 1000, UTC)
    return ScheduleFields(time=f"{time:%H:%M}", timezone="UTC")


async def _no_feed(url: str) -> Sequence[FeedItem]:
    raise AssertionError(f"No campaign has a feed: {url}.")


async def _repeating(stage: Stage, schedule: ScheduleFields, drafts: int) -> None:
    clock = SystemClock()
    templates = TemplateStore(stage.database, clock)
    service = Campaigns(stage.database, clock, templates)
    repeats = CampaignRepeats(stage.database, clock, service, templates, fetch=_no_feed)
    for number in range(drafts):
        draft = await service.create(OPERATOR, DEFAULT_TENANT, a_definition(name=f"News {number}"))
        await repeats.set(OPERATOR, draft.campaign_id, schedule)


async def _make_due(stage: Stage, schedule: ScheduleFields) -> None:
    """Let every schedule be due, as if its latest time had not been handled."""
    latest = schedule.recurrence.latest_until(SystemClock().now(), UTC)
    async with stage.database.write() as tx:
        await tx.execute(update(campaign_repeats).values(next_at=latest))


async def _unmade(stage: Stage) -> int:
    """Return how many schedules still have something to do."""
    r = campaign_repeats.c
    waiting = (r.next_at <= SystemClock().now()) | r.starting_key.is_not(None)
    async with stage.database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(campaign_repeats).where(waiting)))[0][0])


async def _unwalked(stage: Stage) -> int:
    q = queue_entries.c
    async with stage.database.read() as tx:
        return int((await tx.execute(select(func.count()).where(q.enqueue_ended_at.is_(None))))[0][0])


async def _made(stage: Stage) -> Counter[str]:
    """Return how many campaigns were made from each draft, by its name."""
    c = campaigns.c
    async with stage.database.read() as tx:
        rows = await tx.execute(select(c.name).where(c.status != CampaignStatus.DRAFT))
    return Counter(row.name.partition(",")[0] for row in rows)


async def _written(stage: Stage) -> dict[str, int]:
    m = messages.c
    query = select(m.to_email, func.count().label("emails")).group_by(m.to_email)
    async with stage.database.read() as tx:
        return {row.to_email: row.emails for row in await tx.execute(query)}
