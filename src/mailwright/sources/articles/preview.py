"""Preview an article as any recipient, explain each slice, and count the recipients of each variant."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from mailwright.audience import contacts
from mailwright.content.template import RenderedEmail, Template
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.articles import divisions, recipients
from mailwright.sources.articles.assembly import (
    Article,
    Inclusion,
    Slice,
    SliceSelection,
    SliceSet,
    assemble,
    decide_inclusion,
    explain_inclusion,
    narrowest_scope,
    published,
)
from mailwright.sources.articles.compose import compose
from mailwright.sources.articles.profiles.audience import check_list, find_profile, sendable_pages
from mailwright.sources.articles.profiles.table import ProfileSource, table_of
from mailwright.sources.articles.recipients import ArticleAudience
from mailwright.sources.articles.runs import UnknownArticle
from mailwright.sources.articles.slices import list_slices
from mailwright.storage.database import Database

PAGE_SIZE = 20_000


@dataclass(frozen=True, slots=True)
class PreviewRecipient:
    """The recipient of a preview: a contact, or an imaginary recipient in these divisions."""

    divisions: tuple[str, ...] = ()
    name: str | None = None
    email: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SliceInclusion:
    slice: Slice
    inclusion: Inclusion

    @property
    def reason(self) -> str:
        return explain_inclusion(self.slice, self.inclusion)


@dataclass(frozen=True, slots=True)
class ArticlePreview:
    """The article of one recipient. `article` and `rendered` are None if no slice matches."""

    recipient: PreviewRecipient
    article: Article | None
    rendered: RenderedEmail | None
    slices: tuple[SliceInclusion, ...]


@dataclass(frozen=True, slots=True)
class VariantCoverage:
    """One variant, and how many recipients it would have."""

    title: str
    slices: tuple[Slice, ...]
    recipients: int

    @property
    def scope(self) -> str | None:
        return narrowest_scope(self.slices)


@dataclass(frozen=True, slots=True)
class ArticleCoverage:
    list_key: str
    source: str | None  # the table of another program with the recipients; None for contacts
    recipients: int
    skipped: int  # recipients in the audience for whom no slice matches
    variants: tuple[VariantCoverage, ...]  # largest first
    unread: tuple[Slice, ...]  # published, but nobody in the audience gets them


class ArticlePreviews:
    def __init__(
        self, database: Database, clock: Clock, templates: TemplateStore, profiles: ProfileSource | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._templates = templates
        self._profiles = profiles

    async def find_recipient(self, tenant_id: int, email: str | None, ocd_ids: Collection[str]) -> PreviewRecipient:
        """Find the contact or profile, if an address is given. The given divisions replace its own."""
        named = tuple(divisions.parse(each, field="ocd_ids") for each in ocd_ids)
        if email is None:
            return PreviewRecipient(named)
        if (table := await table_of(self._profiles, tenant_id)) is not None:
            profile = await find_profile(table, email)
            return PreviewRecipient(named or profile.divisions, profile.name, profile.email, profile.attributes)
        try:
            contact = await contacts.find_by_email(self._database, tenant_id, email)
        except NotFound as error:
            raise InvalidInput("There is no contact with this address", field="email") from error
        return PreviewRecipient(
            named or recipients.divisions_of(contact.attributes), contact.name, contact.email, contact.attributes
        )

    async def preview(self, tenant_id: int, article_key: str, recipient: PreviewRecipient) -> ArticlePreview:
        now = self._clock.now()
        existing = await self._slices(tenant_id, article_key)
        inclusions = [SliceInclusion(each, decide_inclusion(each, recipient.divisions, now)) for each in existing]
        chosen = [each.slice for each in inclusions if each.inclusion.is_included]
        if not chosen:
            return ArticlePreview(recipient, None, None, tuple(inclusions))
        article = assemble(chosen)
        composed = await compose(self._templates, tenant_id, article)
        own = {each.variable: each.fill(recipient.name, recipient.attributes) for each in composed.placeholders}
        standard = self._templates.standard
        values = {**standard, "name": recipient.name or "", **own, "email": recipient.email or standard["email"]}
        rendered = Template(subject=composed.subject, html=composed.html, text=None).render(values)
        return ArticlePreview(recipient, article, rendered, tuple(inclusions))

    async def coverage(self, tenant_id: int, article_key: str, given: Mapping[str, str]) -> ArticleCoverage:
        """Count the recipients of each variant, in batches of contacts, so that only the counts stay in memory."""
        now = self._clock.now()
        slices = SliceSet(published(await self._slices(tenant_id, article_key), now))
        async with self._database.read() as tx:
            audience = await recipients.resolve_audience(tx, tenant_id, article_key, given)
        table = await table_of(self._profiles, tenant_id)
        if table is None:
            counts = await self._count_contacts(tenant_id, audience, slices, now)
        else:
            check_list(table, audience)
            counts = Counter[SliceSelection]()
            async for page in sendable_pages(self._database, table, tenant_id, audience):
                counts.update(slices.select(recipient.divisions) for recipient in page)
        skipped = counts.pop((), 0)
        covered = {position for selection in counts for position in selection}
        return ArticleCoverage(
            audience.list_key,
            None if table is None else table.description,
            counts.total(),
            skipped,
            tuple(_covered(slices, selection, number) for selection, number in _largest_first(counts)),
            tuple(each for position, each in enumerate(slices.slices) if position not in covered),
        )

    async def _count_contacts(
        self, tenant_id: int, audience: ArticleAudience, slices: SliceSet, now: Instant
    ) -> Counter[SliceSelection]:
        counts: Counter[SliceSelection] = Counter()
        after = ""
        async with self._database.read() as tx:
            while True:
                groups, after = await recipients.recipient_groups(
                    tx, tenant_id, audience, now, after=after, limit=PAGE_SIZE
                )
                if not groups:
                    return counts
                for group in groups:
                    if audience.includes(group):
                        counts[slices.select(group.divisions)] += group.number

    async def _slices(self, tenant_id: int, article_key: str) -> tuple[Slice, ...]:
        async with self._database.read() as tx:
            existing = await list_slices(tx, tenant_id, article_key)
        if not existing:
            raise UnknownArticle(
                "There is no article {article_key}: no slice has this key",
                field="article_key",
                article_key=article_key[:80],
            )
        return SliceSet(existing).slices


def _largest_first(counts: Counter[SliceSelection]) -> list[tuple[SliceSelection, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _covered(slices: SliceSet, selection: SliceSelection, recipients: int) -> VariantCoverage:
    chosen = tuple(slices.slices[position] for position in selection)
    return VariantCoverage(assemble(chosen).title, chosen, recipients)
