"""The archive: campaigns that everyone may read, each opened by its author. Nothing of any reader is in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, select, update

from mailwright.audience.lists import list_all
from mailwright.content.template import InvalidTemplate, RenderedEmail, Template
from mailwright.content.template_store import StoredTemplate, TemplateStore
from mailwright.domain import locales
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.ids import is_uuid
from mailwright.outbox import audit_log
from mailwright.sources.campaigns.campaigns import Actor
from mailwright.sources.campaigns.entries import CampaignSnapshot
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaigns, queue_entries, tenants

NEWEST: Final = 2**63 - 1
# Issues of all lists of a tenant are looked through in portions of so many.
_PORTION: Final = 200


class NotPublishable(NotPossibleNow):
    """The campaign cannot be shown without a reader."""

    code = "CAMPAIGN_NOT_SHOWABLE"


@dataclass(frozen=True, slots=True)
class ArchivedCampaign:
    """One campaign, as it stands in the archive."""

    key: int
    campaign_id: str
    tenant_id: int
    tenant: str
    name: str
    sent_at: Instant
    archived_at: Instant | None
    content: CampaignSnapshot

    @property
    def lists(self) -> tuple[str, ...]:
        return self.content.lists


@dataclass(frozen=True, slots=True)
class ArchiveLinks:
    """What stands in for a reader's own links."""

    subscribe: str
    itself: str
    postal_address: str = ""


class Archive:
    def __init__(self, database: Database, clock: Clock, templates: TemplateStore) -> None:
        self._database = database
        self._clock = clock
        self._templates = templates

    async def publish(self, acting: Actor, campaign_id: str) -> ArchivedCampaign:
        """Everyone may read it from now on, in the archive of each of its lists."""
        found = await self.find(campaign_id, tenant_id=acting.tenant_id)
        try:
            await self.rendered(found, None, ArchiveLinks("", ""))
        except InvalidTemplate as error:
            raise NotPublishable(
                f"The campaign cannot be shown without a reader: {error}. Give its variables defaults."
            ) from error
        if found.archived_at is not None:
            return found
        return await self._change(acting, found, self._clock.now(), "publish")

    async def withdraw(self, acting: Actor, campaign_id: str) -> ArchivedCampaign:
        """Only its readers may read it again; copies that others made of it are theirs."""
        found = await self.find(campaign_id, tenant_id=acting.tenant_id)
        return found if found.archived_at is None else await self._change(acting, found, None, "withdraw")

    async def find(self, campaign_id: str, *, tenant_id: int | None) -> ArchivedCampaign:
        """Also one that is not open to everyone, for whoever may open it."""
        if not is_uuid(campaign_id):
            raise NotFound
        mine = campaigns.c.campaign_id == campaign_id
        if tenant_id is not None:
            mine = and_(mine, campaigns.c.tenant_id == tenant_id)
        async with self._database.read() as tx:
            rows = await tx.execute(_issues().where(mine))
            if not rows and await tx.execute(select(campaigns.c.id).where(mine)):
                raise NotPossibleNow("The campaign has not started: nobody has read it yet.")
        if not rows:
            raise NotFound
        return _issue(rows[0])

    async def issue(self, tenant_id: int, list_key: str, campaign_id: str) -> ArchivedCampaign:
        """For everyone: only what is open to them, and under a list that it was sent to."""
        try:
            found = await self.find(campaign_id, tenant_id=tenant_id)
        except NotPossibleNow as error:
            raise NotFound from error
        if found.archived_at is None or list_key not in found.lists:
            raise NotFound
        return found

    async def places(self, issue: ArchivedCampaign) -> list[str]:
        """The lists under which everyone can read it now."""
        if issue.archived_at is None:
            return []
        public = {each.list_key for each in await list_all(self._database, issue.tenant_id) if each.is_public}
        return [each for each in issue.lists if each in public]

    async def issues(
        self, tenant_id: int, list_key: str, *, limit: int, before: int = NEWEST
    ) -> list[ArchivedCampaign]:
        """The latest first."""
        found: list[ArchivedCampaign] = []
        async with self._database.read() as tx:
            while len(found) < limit:
                rows = await _portion(tx, tenant_id, before)
                found += [issue for row in rows if list_key in (issue := _issue(row)).lists]
                if len(rows) < _PORTION:
                    break
                before = rows[-1].id
        return found[:limit]

    async def rendered(self, issue: ArchivedCampaign, locale: str | None, around: ArchiveLinks) -> RenderedEmail:
        """As someone of this locale would get it, without a name, an address or anything else of theirs."""
        stored = await self._template(issue, locale)
        template = Template(subject=stored.subject, html=stored.html, text=stored.text)
        values: dict[str, Any] = dict.fromkeys(template.variables, "")
        variables: Mapping[str, Any] = issue.content.payload.get("variables", {})
        return template.render(
            {
                **values,
                **variables,
                "name": "",
                "email": "",
                "unsubscribe_url": around.subscribe,
                "preferences_url": around.subscribe,
                "web_view_url": around.itself,
                "postal_address": around.postal_address,
            }
        )

    async def _template(self, issue: ArchivedCampaign, locale: str | None) -> StoredTemplate:
        """The first version: the winner, where an experiment was decided."""
        key = locales.best(issue.content.variants[0].templates, locale)
        await self._templates.load([key])
        stored = self._templates.cached(key)
        if stored is None:
            raise NotFound
        return stored

    async def _change(
        self, acting: Actor, issue: ArchivedCampaign, archived_at: Instant | None, action: str
    ) -> ArchivedCampaign:
        async with self._database.write() as tx:
            mine = campaigns.c.id == issue.key
            await tx.execute(update(campaigns).where(mine).values(archived_at=archived_at))
            await audit_log.record(
                tx,
                self._clock.now(),
                actor=acting.actor,
                action=f"campaign.{action}",
                subject=issue.campaign_id,
                tenant_id=issue.tenant_id,
            )
            return _issue((await tx.execute(_issues().where(mine)))[0])


async def _portion(tx: Transaction, tenant_id: int, before: int) -> list[Any]:
    c = campaigns.c
    open_to_all = and_(c.tenant_id == tenant_id, c.archived_at.is_not(None), c.id < before)
    return list(await tx.execute(_issues().where(open_to_all).order_by(c.id.desc()).limit(_PORTION)))


def _issues() -> Any:
    c, q = campaigns.c, queue_entries.c
    joined = campaigns.join(queue_entries, q.campaign_key == c.id).join(tenants, tenants.c.id == c.tenant_id)
    columns = (c.id, c.campaign_id, c.tenant_id, c.name, c.archived_at, q.created_at, q.content)
    return select(*columns, tenants.c.name.label("tenant")).select_from(joined)


def _issue(row: Any) -> ArchivedCampaign:
    content = CampaignSnapshot.read(row.content)
    return ArchivedCampaign(
        row.id, row.campaign_id, row.tenant_id, row.tenant, row.name, row.created_at, row.archived_at, content
    )
