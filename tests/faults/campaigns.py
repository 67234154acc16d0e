"""Kill workers while a campaign is enqueued and sent: every recipient gets one message."""

import asyncio
import random

from sqlalchemy import func, select

from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import SystemClock
from mailwright.domain.states import Status
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.records import Campaign
from mailwright.storage.tables import deliveries, messages, queue_entries
from tests.builders import DEFAULT_TENANT
from tests.campaigns import OPERATOR, a_definition, address_of, join
from tests.faults.figures import Figures
from tests.faults.stage import Stage

WINDOW = 64
SEED = 20_270_115
JOIN_AT_ONCE = 1_000
LONGEST_WALK_SECONDS = 120


async def run(stage: Stage, *, kills: int, readers: int) -> Figures:
    figures, chance = Figures(), random.Random(SEED)
    await stage.open_sink(latency_seconds=0.02)
    for start in range(0, readers, JOIN_AT_ONCE):
        await join(stage.database, [address_of(number) for number in range(start, min(start + JOIN_AT_ONCE, readers))])
    workers = [stage.worker(), stage.worker()]
    campaign = await start_campaign(stage)
    for _ in range(kills):
        chosen = chance.randrange(len(workers))
        await workers[chosen].says("worker_started")
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        workers[chosen].kill()
        workers[chosen] = stage.worker()
    async with asyncio.timeout(LONGEST_WALK_SECONDS):
        while not await _is_walked(stage, campaign):
            await asyncio.sleep(0.1)
    await stage.all_done(seconds=60)

    met = await _met(stage, campaign)
    copies = [outbox_id for outbox_id, count in stage.received().items() if count > 1]
    statuses = await _statuses(stage)
    unheard = statuses.get(Status.SENT, 0) - sum(1 for count in stage.received().values() if count)
    figures.note("kills", kills)
    figures.none("people without a message", [each for each in _everyone(readers) if each not in set(met)])
    figures.expect("messages", len(met), f"{readers}", when=len(met) == readers)
    figures.expect("order", "by address" if met == sorted(met) else "mixed up", "by address", when=met == sorted(met))
    figures.none("messages received twice", copies)
    figures.none("messages recorded as sent but not received", max(0, unheard))
    figures.at_most("in doubt", statuses.get(Status.IN_DOUBT, 0), kills * WINDOW)
    figures.expect("sent or in doubt", _ended(statuses), f"{readers}", when=_ended(statuses) == readers)
    figures.none("audits that did not add up", int(not await stage.identity_holds()))
    return figures


async def start_campaign(stage: Stage) -> Campaign:
    clock = SystemClock()
    campaigns = Campaigns(stage.database, clock, TemplateStore(stage.database, clock))
    campaign = await campaigns.create(OPERATOR, DEFAULT_TENANT, a_definition())
    return await campaigns.start(OPERATOR, campaign.campaign_id)


async def _is_walked(stage: Stage, campaign: Campaign) -> bool:
    mine = queue_entries.c.campaign_key == campaign.key
    async with stage.database.read() as tx:
        rows = await tx.execute(select(queue_entries.c.enqueue_ended_at).where(mine))
    return rows[0].enqueue_ended_at is not None


async def _met(stage: Stage, campaign: Campaign) -> list[str]:
    """Return them in the order in which they were enqueued."""
    mine = messages.c.campaign_key == campaign.key
    async with stage.database.read() as tx:
        rows = await tx.execute(select(messages.c.to_email).where(mine).order_by(messages.c.id))
    return [row.to_email for row in rows]


async def _statuses(stage: Stage) -> dict[str, int]:
    query = select(deliveries.c.status, func.count().label("messages")).group_by(deliveries.c.status)
    async with stage.database.read() as tx:
        return {row.status: row.messages for row in await tx.execute(query)}


def _ended(statuses: dict[str, int]) -> int:
    return statuses.get(Status.SENT, 0) + statuses.get(Status.IN_DOUBT, 0)


def _everyone(readers: int) -> list[str]:
    return [address_of(number) for number in range(readers)]
