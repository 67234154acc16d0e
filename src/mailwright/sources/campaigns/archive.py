"""The public archive: campaigns that their authors have published, without any recipient's data."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import and_, select, update

from mailwright.audience.lists import list_all
from mailwright.content.segments_used import IN_SEGMENTS
from mailwright.content.template import InvalidTemplate, RenderedEmail, Template
from mailwright.content.template_store import StoredTemplate, TemplateStore
from mailwright.domain import locales
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox import audit_log
from mailwright.sources.campaigns.entries import CampaignSnapshot
from mailwright.sources.campaigns.records import Actor
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaigns, queue_entries, tenants

NEWEST: Final = 2**63 - 1
# All campaigns of a tenant are read in batches of this size and then filtered by list.
_BATCH_SIZE: Final = 200


class NotPublishable(NotPossibleNow):
    """The campaign cannot be published, because it needs a recipient's data."""

    code = "CAMPAIGN_NOT_SHOWABLE"


@dataclass(frozen=True, slots=True)
class ArchivedCampaign:
    key: int
    campaign_id: str
    tenant_id: int
    tenant: str
    name: str
    sent_at: Instant
    published_at: Instant | None
    content: CampaignSnapshot

    @property
    def lists(self) -> tuple[str, ...]:
        return self.content.lists


@dataclass(frozen=True, slots=True)
class ArchiveLinks:
    """Public links that replace the recipient's own links."""

    subscribe: str
    itself: str
    postal_address: str = ""


class Archive:
    def __init__(self, database: Database, clock: Clock, templates: TemplateStore) -> None:
        self._database = database
        self._clock = clock
        self._templates = templates

    async def publish(self, actor: Actor, campaign_id: str) -> ArchivedCampaign:
        """Show the campaign to everyone, in the archive of each of its lists."""
        campaign = await self.find(campaign_id, tenant_id=actor.tenant_id)
        try:
            await self.render(campaign, None, ArchiveLinks("", ""))
        except InvalidTemplate as error:
            raise NotPublishable(
                "The campaign cannot be published without recipient data: {error}. Give its variables default values.",
                error=error,
            ) from error
        if campaign.published_at is not None:
            return campaign
        return await self._change(actor, campaign, self._clock.now(), "publish")

    async def withdraw(self, actor: Actor, campaign_id: str) -> ArchivedCampaign:
        """Remove the campaign from the archive. Its recipients can still read it through their own links."""
        campaign = await self.find(campaign_id, tenant_id=actor.tenant_id)
        return campaign if campaign.published_at is None else await self._change(actor, campaign, None, "withdraw")

    async def find(self, campaign_id: str, *, tenant_id: int | None) -> ArchivedCampaign:
        """Return the campaign, whether it is published or not."""
        if not is_uuid(campaign_id):
            raise NotFound
        condition = campaigns.c.campaign_id == campaign_id
        if tenant_id is not None:
            condition = and_(condition, campaigns.c.tenant_id == tenant_id)
        async with self._database.read() as tx:
            rows = await tx.execute(_archived_campaigns().where(condition))
            if not rows and await tx.execute(select(campaigns.c.id).where(condition)):
                raise NotPossibleNow("The campaign has not been started.")
        if not rows:
            raise NotFound
        return _archived_campaign(rows[0])

    async def find_public(self, tenant_id: int, list_key: str, campaign_id: str) -> ArchivedCampaign:
        """Return a published campaign that was sent to the list."""
        try:
            campaign = await self.find(campaign_id, tenant_id=tenant_id)
        except NotPossibleNow as error:
            raise NotFound from error
        if campaign.published_at is None or list_key not in campaign.lists:
            raise NotFound
        return campaign

    async def public_lists(self, campaign: ArchivedCampaign) -> list[str]:
        """Return the lists in whose archive the campaign is shown now."""
        if campaign.published_at is None:
            return []
        public = {each.list_key for each in await list_all(self._database, campaign.tenant_id) if each.is_public}
        return [list_key for list_key in campaign.lists if list_key in public]

    async def list_public(
        self, tenant_id: int, list_key: str, *, limit: int, before: int = NEWEST
    ) -> list[ArchivedCampaign]:
        """Return the published campaigns of the list, newest first."""
        found: list[ArchivedCampaign] = []
        async with self._database.read() as tx:
            while len(found) < limit:
                rows = await _read_batch(tx, tenant_id, before)
                found += [campaign for row in rows if list_key in (campaign := _archived_campaign(row)).lists]
                if len(rows) < _BATCH_SIZE:
                    break
                before = rows[-1].id
        return found[:limit]

    async def render(self, campaign: ArchivedCampaign, locale: str | None, links: ArchiveLinks) -> RenderedEmail:
        """Render the email for the locale, without a name, an address or other data of a recipient."""
        stored = await self._template(campaign, locale)
        template = Template(subject=stored.subject, html=stored.html, text=stored.text)
        values: dict[str, Any] = dict.fromkeys(template.variables, "")
        values[IN_SEGMENTS] = dict.fromkeys(campaign.content.segments, False)
        variables: Mapping[str, Any] = campaign.content.payload.get("variables", {})
        return template.render(
            {
                **values,
                **variables,
                "name": "",
                "email": "",
                "unsubscribe_url": links.subscribe,
                "preferences_url": links.subscribe,
                "web_view_url": links.itself,
                "postal_address": links.postal_address,
            }
        )

    async def _template(self, campaign: ArchivedCampaign, locale: str | None) -> StoredTemplate:
        """Return the template of the first variant, which is the winner of a decided A/B test."""
        key = locales.best(campaign.content.variants[0].templates, locale)
        await self._templates.load([key])
        stored = self._templates.cached(key)
        if stored is None:
            raise NotFound
        return stored

    async def _change(
        self, actor: Actor, campaign: ArchivedCampaign, published_at: Instant | None, action: str
    ) -> ArchivedCampaign:
        async with self._database.write() as tx:
            condition = campaigns.c.id == campaign.key
            await tx.execute(update(campaigns).where(condition).values(published_at=published_at))
            await audit_log.record(
                tx,
                self._clock.now(),
                actor=actor.name,
                action=f"campaign.{action}",
                subject=campaign.campaign_id,
                tenant_id=campaign.tenant_id,
                detail={"name": campaign.name},
            )
            return _archived_campaign((await tx.execute(_archived_campaigns().where(condition)))[0])


async def _read_batch(tx: Transaction, tenant_id: int, before: int) -> list[Any]:
    c = campaigns.c
    is_public = and_(c.tenant_id == tenant_id, c.published_at.is_not(None), c.id < before)
    return list(await tx.execute(_archived_campaigns().where(is_public).order_by(c.id.desc()).limit(_BATCH_SIZE)))


def _archived_campaigns() -> Any:
    c, q = campaigns.c, queue_entries.c
    joined = campaigns.join(queue_entries, q.campaign_key == c.id).join(tenants, tenants.c.id == c.tenant_id)
    columns = (c.id, c.campaign_id, c.tenant_id, c.name, c.published_at, q.created_at, q.content)
    return select(*columns, tenants.c.name.label("tenant")).select_from(joined)


def _archived_campaign(row: Any) -> ArchivedCampaign:
    return ArchivedCampaign(
        key=row.id,
        campaign_id=row.campaign_id,
        tenant_id=row.tenant_id,
        tenant=row.tenant,
        name=row.name,
        sent_at=row.created_at,
        published_at=row.published_at,
        content=CampaignSnapshot.read(row.content),
    )
