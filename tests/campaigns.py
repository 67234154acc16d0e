"""Campaigns for tests: an audience, a campaign definition, and a harness that manages campaigns."""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import insert, select

from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7
from mailwright.outbox.audit_log import list_entries
from mailwright.sources.campaigns import progress, report
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits
from mailwright.sources.campaigns.progress import CampaignMessageCounts, QueuePosition
from mailwright.sources.campaigns.queue_progress import QueueProgress, queue_progress
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, lists, messages, subscriptions
from tests.builders import DEFAULT_TENANT, Bench

NEWS = "news"
OPERATOR = Actor("operator", DEFAULT_TENANT)
BODY = '<p>Hello {{ name }}, you are on {{ plan }}.</p><p><a href="{{ unsubscribe_url }}">Leave</a></p>'


def address_of(number: int) -> str:
    """Return an address that sorts like the number."""
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
    """Create subscribers of the list, each with the attribute `plan` that the campaign uses."""
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


class CampaignHarness:
    """Manages and inspects the campaigns of a bench."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.database = bench.database
        self.clock = bench.clock
        self.campaigns = Campaigns(bench.database, bench.clock, bench.engine.templates)

    async def create(self, **changes: Any) -> str:
        return (await self.campaigns.create(OPERATOR, DEFAULT_TENANT, a_definition(**changes))).campaign_id

    async def start(self, recipients: int = 0, **changes: Any) -> str:
        """Start a campaign, and create that many subscribers first."""
        if recipients:
            await join(self.database, [address_of(number) for number in range(recipients)])
        campaign_id = await self.create(**changes)
        await self.campaigns.start(OPERATOR, campaign_id)
        return campaign_id

    async def run_scheduler(self) -> None:
        """Run the scheduler until nothing is left to do."""
        while await CampaignScheduler(self.database, self.clock).tick():
            pass

    async def campaign(self, campaign_id: str) -> Campaign:
        return await self.campaigns.find(campaign_id, tenant_id=None)

    async def status(self, campaign_id: str) -> str:
        return (await self.campaign(campaign_id)).status.value

    async def status_of_all(self) -> set[str]:
        return {each.status.value for each in await self.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=100)}

    async def position(self, campaign_id: str) -> QueuePosition:
        campaign = await self.campaign(campaign_id)
        async with self.database.read() as tx:
            found = await progress.find_position(tx, campaign.key)
        assert found is not None
        return found

    async def counts(self, campaign_id: str) -> CampaignMessageCounts:
        position = await self.position(campaign_id)
        async with self.database.read() as tx:
            return await progress.count_messages(tx, position)

    async def deferral(self, campaign_id: str) -> tuple[str | None, Instant | None]:
        """Return the reason of the deferral, and how long it lasts from now."""
        position = await self.position(campaign_id)
        until = None if position.deferred_until is None else position.deferred_until - self.clock.now()
        return position.defer_reason, until

    async def progress(self) -> QueueProgress:
        return await queue_progress(self.database, self.clock, self.bench.engine.defaults, tenant_id=DEFAULT_TENANT)

    async def edit_limits(self, campaign_id: str, **limits: Any) -> None:
        await self.campaigns.edit_limits(OPERATOR, campaign_id, CampaignLimits.model_validate(limits))

    async def report(self, campaign_id: str) -> list[report.ReportRow]:
        campaign = await self.campaign(campaign_id)
        return [row async for row in report.report_rows(self.database, campaign.key)]

    async def addresses(self, campaign_id: str) -> list[str]:
        """Return the recipients of the campaign's messages, in the order of creation."""
        campaign = await self.campaign(campaign_id)
        mine = messages.c.campaign_key == campaign.key
        async with self.database.read() as tx:
            rows = await tx.execute(select(messages.c.to_email).where(mine).order_by(messages.c.id))
        return [row.to_email for row in rows]

    async def audit_actions(self, campaign_id: str) -> list[str]:
        """Return the actions in the audit log, oldest first."""
        entries = await list_entries(self.database, tenant_id=None, limit=100, subject=campaign_id)
        return [entry.action.removeprefix("campaign.") for entry in reversed(entries)]
