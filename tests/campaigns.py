"""Campaigns for tests: an audience, a campaign for it, and a desk from which an operator handles it."""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import insert, select

from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7
from mailwright.outbox.audit_log import list_entries
from mailwright.sources.campaigns import progress, report
from mailwright.sources.campaigns.campaigns import Actor, Campaign, Campaigns
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits
from mailwright.sources.campaigns.progress import CampaignMessageCounts, QueuePosition, QueueProgress
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, lists, messages, subscriptions
from tests.builders import DEFAULT_TENANT, Bench

NEWS = "news"
OPERATOR = Actor("operator", DEFAULT_TENANT)
BODY = '<p>Hello {{ name }}, you are on {{ plan }}.</p><p><a href="{{ unsubscribe_url }}">Leave</a></p>'


def address_of(number: int) -> str:
    """Sorts as the number does."""
    return f"reader{number:05}@example.com"


def a_definition(**changes: Any) -> CampaignDefinition:
    plain: dict[str, Any] = {
        "name": "News of January",
        "content": {"subject": "News for {{ name }}", "body": BODY},
        "lists": [NEWS],
    }
    return CampaignDefinition.model_validate({**plain, **changes})


async def a_list(database: Database, list_key: str = NEWS, *, tenant_id: int = DEFAULT_TENANT) -> None:
    values = {"tenant_id": tenant_id, "list_key": list_key, "name": list_key, "is_public": True, "created_at": 0}
    async with database.write() as tx:
        known = select(lists.c.id).where(lists.c.tenant_id == tenant_id, lists.c.list_key == list_key)
        if not await tx.execute(known):
            await tx.execute(insert(lists).values(**values))


async def join(
    database: Database,
    addresses: Sequence[str],
    list_key: str = NEWS,
    *,
    tenant_id: int = DEFAULT_TENANT,
    **fields: Any,
) -> None:
    """People who are on the list; each has a plan, as the campaign wants to tell it."""
    attributes = orjson.dumps({"plan": "pro", **fields.pop("attributes", {})}).decode()
    await a_list(database, list_key, tenant_id=tenant_id)
    plain = {"tenant_id": tenant_id, "name": "Ann", "attributes": attributes, "created_at": 0, **fields}
    async with database.write() as tx:
        rows = [{"contact_id": uuid7(1_800_000_000_000), "email": email, **plain} for email in addresses]
        await tx.execute(insert(contacts), rows)
        mine = select(contacts.c.id).where(contacts.c.tenant_id == tenant_id, contacts.c.email.in_(addresses))
        on = {"tenant_id": tenant_id, "list_key": list_key, "subscribed_at": 0, "source": "test"}
        keys = [row.id for row in await tx.execute(mine)]
        await tx.execute(insert(subscriptions), [{"contact_key": key, **on} for key in keys])


class Desk:
    """An operator's view of the campaigns on a bench."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.database = bench.database
        self.clock = bench.clock
        self.campaigns = Campaigns(bench.database, bench.clock, bench.engine.templates)

    async def create(self, **changes: Any) -> str:
        return (await self.campaigns.create(OPERATOR, DEFAULT_TENANT, a_definition(**changes))).campaign_id

    async def start(self, readers: int = 0, **changes: Any) -> str:
        """A started campaign; its audience is made for it where a number is given."""
        if readers:
            await join(self.database, [address_of(number) for number in range(readers)])
        campaign_id = await self.create(**changes)
        await self.campaigns.start(OPERATOR, campaign_id)
        return campaign_id

    async def walk(self) -> None:
        """As any worker would, until there is nothing more to do."""
        while await CampaignScheduler(self.database, self.clock).tick():
            pass

    async def campaign(self, campaign_id: str) -> Campaign:
        return await self.campaigns.find(campaign_id, tenant_id=None)

    async def status(self, campaign_id: str) -> str:
        return (await self.campaign(campaign_id)).status.value

    async def place(self, campaign_id: str) -> QueuePosition:
        campaign = await self.campaign(campaign_id)
        async with self.database.read() as tx:
            found = await progress.find_position(tx, campaign.key, self.clock.now())
        assert found is not None
        return found

    async def counts(self, campaign_id: str) -> CampaignMessageCounts:
        place = await self.place(campaign_id)
        async with self.database.read() as tx:
            return await progress.count_messages(tx, place)

    async def waits(self, campaign_id: str) -> tuple[str | None, Instant | None]:
        """Why, and for how long from now."""
        place = await self.place(campaign_id)
        until = None if place.deferred_until is None else place.deferred_until - self.clock.now()
        return place.defer_reason, until

    async def poll(self) -> QueueProgress:
        return await progress.queue_progress(self.database, self.clock, tenant_id=DEFAULT_TENANT)

    async def edit_limits(self, campaign_id: str, **limits: Any) -> None:
        await self.campaigns.edit_limits(OPERATOR, campaign_id, CampaignLimits.model_validate(limits))

    async def report(self, campaign_id: str) -> list[report.ReportRow]:
        campaign = await self.campaign(campaign_id)
        return [row async for row in report.report_rows(self.database, campaign.key)]

    async def addresses(self, campaign_id: str) -> list[str]:
        """Who has a message of the campaign, in the order in which they were met."""
        campaign = await self.campaign(campaign_id)
        mine = messages.c.campaign_key == campaign.key
        async with self.database.read() as tx:
            rows = await tx.execute(select(messages.c.to_email).where(mine).order_by(messages.c.id))
        return [row.to_email for row in rows]

    async def journal(self, campaign_id: str) -> list[str]:
        """The oldest first."""
        found = await list_entries(self.database, tenant_id=None, limit=100, subject=campaign_id)
        return [deed.action.removeprefix("campaign.") for deed in reversed(found)]
