"""The plan of a campaign: what would be sent, to whom and when, as data that a second person can approve."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import orjson
from sqlalchemy import select

from mailwright.audience.eligibility import Exclusion
from mailwright.content.presend_checks import PresendContext, PresendIssue
from mailwright.content.template_store import TemplateStore
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.limits import DefaultLimits
from mailwright.sources.campaigns.approval_gate import digests_of
from mailwright.sources.campaigns.checks import check_campaign
from mailwright.sources.campaigns.enqueue import count_new_recipients
from mailwright.sources.campaigns.entries import CampaignSnapshot
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.forecast_drafts import DRAFT_ID, ForecastDraft
from mailwright.sources.campaigns.records import Campaign, as_text, entry_of
from mailwright.sources.campaigns.repeat_records import find_place, load_repeat
from mailwright.sources.campaigns.review import digest_draft
from mailwright.sources.campaigns.variants import CampaignProblem, VariantDraft
from mailwright.sources.sender_rules import SenderRules
from mailwright.sources.value_digest import hash_value
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import templates


@dataclass(frozen=True, slots=True)
class PlannedContent:
    """The content of one variant in one language. The empty locale is the default."""

    variant: str
    share: int  # percent of the audience
    locale: str
    subject: str
    html: str
    text: str | None

    @property
    def digest(self) -> str:
        return hash_value([self.subject, self.html, self.text])


@dataclass(frozen=True, slots=True)
class PlannedRepeat:
    """The schedule on which a draft is sent repeatedly."""

    schedule: str  # such as `mon, thu at 09:00 Europe/Lisbon`
    feed: str | None
    next_times: tuple[Instant, ...]  # Empty while it is paused.


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    campaign: Campaign
    computed_at: Instant
    digests: str  # of everything but the number of recipients, by part
    recipients: int
    sender: str | None
    contents: tuple[PlannedContent, ...]
    excluded: Mapping[Exclusion, int] = field(default_factory=dict)
    problems: tuple[CampaignProblem, ...] = ()
    warnings: tuple[PresendIssue, ...] = ()
    finishes_at: Instant | None = None
    is_end_unknown: bool = False  # the end depends on a send rate that was not measured yet
    repeat: PlannedRepeat | None = None  # None if the campaign is sent once

    @property
    def digest(self) -> str:
        """The digest that an approver signs."""
        repeat = [] if self.repeat is None else [self.repeat.schedule, self.repeat.feed]
        return hash_value([self.campaign.campaign_id, self.digests, self.recipients, *repeat])

    @property
    def definition(self) -> dict[str, Any]:
        """The definition of the campaign as the API shows it."""
        definition: dict[str, Any] = orjson.loads(as_text(self.campaign.definition))
        return definition

    def as_text(self) -> str:
        """Serialize the data that a later comparison needs."""
        files = [
            {"attachmentId": each.attachment_id, "filename": each.filename, "sizeBytes": each.size_bytes}
            for each in self.campaign.attachments
        ]
        contents = [
            {name: getattr(each, name) for name in ("variant", "locale", "subject", "html", "text")}
            for each in self.contents
        ]
        stored = {"definition": self.definition, "attachments": files, "sender": self.sender, "contents": contents}
        if self.repeat is not None:
            stored |= {"repeat": self.repeat.schedule, "feed": self.repeat.feed}
        return orjson.dumps({**stored, "recipients": self.recipients, "finishesAt": self.finishes_at}).decode()


class CampaignPlans:
    def __init__(
        self, database: Database, clock: Clock, store: TemplateStore, rules: SenderRules, defaults: DefaultLimits
    ) -> None:
        self._database = database
        self._clock = clock
        self._store = store
        self._rules = rules
        self._defaults = defaults

    async def make(self, campaign: Campaign) -> CampaignPlan:
        """Return the plan of a campaign as it is now. This counts the audience and simulates the queue."""
        is_draft = campaign.status is CampaignStatus.DRAFT
        return await (self._plan_draft(campaign) if is_draft else self._plan_started(campaign))

    async def _plan_draft(self, campaign: Campaign) -> CampaignPlan:
        tenant_id, definition, now = campaign.tenant_id, campaign.definition, self._clock.now()
        check = await check_campaign(
            self._database,
            self._store,
            definition,
            tenant_id=tenant_id,
            now=now,
            facts=PresendContext(postal_address=self._rules.postal_address, limits=self._defaults.limits),
            counts_excluded=True,
            rules=self._rules,
            attachments=campaign.attachments,
        )
        draft = ForecastDraft(definition, tenant_id, check.planned)
        found = await forecast(self._database, self._clock, self._defaults, tenant_id=tenant_id, draft=draft)
        course = next(each for each in found.campaigns if each.campaign_id == DRAFT_ID)
        async with self._database.read() as tx:
            repeat = await find_repeat(tx, campaign, self._defaults.limits.timezone)
        return CampaignPlan(
            campaign,
            now,
            await digest_draft(tenant_id, definition, check.content, campaign.attachments, self._rules),
            check.planned,
            await self._rules.sender_of(tenant_id, definition.sender) or self._rules.sender,
            tuple(_contents(check.drafts)),
            check.excluded,
            check.problems,
            check.warnings,
            course.finishes_at,
            course.is_rate_unknown,
            repeat,
        )

    async def _plan_started(self, campaign: Campaign) -> CampaignPlan:
        tenant_id, now = campaign.tenant_id, self._clock.now()
        async with self._database.read() as tx:
            entry = await entry_of(tx, campaign)
            digests = await digests_of(tx, entry, entry.content.filter)
            recipients = entry.recipients + await count_new_recipients(tx, entry, now)
            contents = await _frozen_contents(tx, entry.content)
        found = await forecast(self._database, self._clock, self._defaults, tenant_id=tenant_id)
        course = next((each for each in found.campaigns if each.campaign_id == campaign.campaign_id), None)
        sender = await self._rules.sender_of(tenant_id, campaign.definition.sender) or self._rules.sender
        return CampaignPlan(
            campaign,
            now,
            digests,
            recipients,
            sender,
            tuple(contents),
            finishes_at=course.finishes_at if course else None,
            is_end_unknown=course is not None and course.is_rate_unknown,
        )


async def find_repeat(tx: Transaction, campaign: Campaign, zone: str) -> PlannedRepeat | None:
    """Return the schedule of a draft as a plan states it, or None if the draft does not repeat."""
    try:
        found = await load_repeat(tx, campaign, zone)
    except NotFound:
        return None
    schedule = found.schedule
    days = schedule.month_days or schedule.weekdays
    place = await find_place(tx, campaign.tenant_id, schedule, zone)
    return PlannedRepeat(f"{', '.join(map(str, days))} at {schedule.time} {place}", found.feed, found.next_times)


def _contents(drafts: Sequence[VariantDraft]) -> list[PlannedContent]:
    return [
        PlannedContent(draft.name, draft.share, locale, text.subject, text.html, text.text)
        for draft in drafts
        for locale, text in sorted(draft.texts.items())
    ]


async def _frozen_contents(tx: Transaction, content: CampaignSnapshot) -> list[PlannedContent]:
    keys = {key for variant in content.variants for key in variant.templates.values()}
    t = templates.c
    rows = await tx.execute(select(t.id, t.subject, t.html, t.text).where(t.id.in_(keys)))
    stored = {row.id: row for row in rows}
    return [
        PlannedContent(variant.name, variant.share, locale, stored[key].subject, stored[key].html, stored[key].text)
        for variant in content.variants
        for locale, key in sorted(variant.templates.items())
    ]
