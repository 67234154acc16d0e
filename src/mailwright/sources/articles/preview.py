"""Looking: an article as any reader would get it, why each slice is in it or not, and who gets what."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from mailwright.audience import contacts
from mailwright.content.template import RenderedEmail, Template
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Clock
from mailwright.domain.errors import InvalidInput, NotFound
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
    published,
)
from mailwright.sources.articles.compose import compose
from mailwright.sources.articles.runs import UnknownArticle
from mailwright.sources.articles.slices import list_slices
from mailwright.storage.database import Database

_LOOKED_AT = 20_000


@dataclass(frozen=True, slots=True)
class PreviewRecipient:
    """Whose eyes it is looked at with: a contact's, or those of anybody in these divisions."""

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
    """`article` and `rendered` are None where the person gets nothing."""

    recipient: PreviewRecipient
    article: Article | None
    rendered: RenderedEmail | None
    slices: tuple[SliceInclusion, ...]


@dataclass(frozen=True, slots=True)
class VariantCoverage:
    """One variant, and how many readers it would go to."""

    title: str
    slices: tuple[Slice, ...]
    recipients: int


@dataclass(frozen=True, slots=True)
class ArticleCoverage:
    list_key: str
    recipients: int
    skipped: int  # of the audience, for whom there is nothing
    variants: tuple[VariantCoverage, ...]  # the largest first
    unread: tuple[Slice, ...]  # published now, and nobody's


class ArticlePreviews:
    def __init__(self, database: Database, clock: Clock, templates: TemplateStore) -> None:
        self._database = database
        self._clock = clock
        self._templates = templates

    async def find_recipient(self, tenant_id: int, email: str | None, ocd_ids: Collection[str]) -> PreviewRecipient:
        """Divisions that are named count in place of the contact's own."""
        named = tuple(divisions.parse(each, field="ocd_ids") for each in ocd_ids)
        if email is None:
            return PreviewRecipient(named)
        try:
            found = await contacts.find_by_email(self._database, tenant_id, email)
        except NotFound as error:
            raise InvalidInput("there is no contact with this address", field="email") from error
        return PreviewRecipient(
            named or recipients.divisions_of(found.attributes), found.name, found.email, found.attributes
        )

    async def preview(self, tenant_id: int, article_key: str, person: PreviewRecipient) -> ArticlePreview:
        now = self._clock.now()
        known = await self._slices(tenant_id, article_key)
        judged = [SliceInclusion(each, decide_inclusion(each, person.divisions, now)) for each in known]
        chosen = [each.slice for each in judged if each.inclusion.is_included]
        if not chosen:
            return ArticlePreview(person, None, None, tuple(judged))
        article = assemble(chosen)
        composed = await compose(self._templates, tenant_id, article)
        own = {each.variable: each.fill(person.name, person.attributes) for each in composed.placeholders}
        standard = self._templates.standard
        values = {**standard, "name": person.name or "", **own, "email": person.email or standard["email"]}
        rendered = Template(subject=composed.subject, html=composed.html, text=None).render(values)
        return ArticlePreview(person, article, rendered, tuple(judged))

    async def coverage(self, tenant_id: int, article_key: str, given: Mapping[str, str]) -> ArticleCoverage:
        """Asked of everyone, one portion of readers after another: only the number of each variant is kept."""
        now = self._clock.now()
        edition = SliceSet(published(await self._slices(tenant_id, article_key), now))
        counts: Counter[SliceSelection] = Counter()
        after = ""
        async with self._database.read() as tx:
            asked = await recipients.resolve_audience(tx, tenant_id, article_key, given)
            while True:
                found, after = await recipients.recipient_groups(
                    tx, tenant_id, asked, now, after=after, limit=_LOOKED_AT
                )
                if not found:
                    break
                for each in found:
                    if asked.holds_for(each):
                        counts[edition.choose(each.divisions)] += each.number
        skipped = counts.pop((), 0)
        read = {place for choice in counts for place in choice}
        return ArticleCoverage(
            asked.list_key,
            counts.total(),
            skipped,
            tuple(_covered(edition, choice, number) for choice, number in _largest_first(counts)),
            tuple(each for place, each in enumerate(edition.slices) if place not in read),
        )

    async def _slices(self, tenant_id: int, article_key: str) -> tuple[Slice, ...]:
        async with self._database.read() as tx:
            known = await list_slices(tx, tenant_id, article_key)
        if not known:
            raise UnknownArticle(f"there is no article {article_key[:80]}: no slice has this key", field="article_key")
        return SliceSet(known).slices


def _largest_first(counts: Counter[SliceSelection]) -> list[tuple[SliceSelection, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _covered(edition: SliceSet, choice: SliceSelection, recipients: int) -> VariantCoverage:
    chosen = tuple(edition.slices[place] for place in choice)
    return VariantCoverage(assemble(chosen).title, chosen, recipients)
