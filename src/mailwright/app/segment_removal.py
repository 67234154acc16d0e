"""Delete a segment unless a draft campaign, a template or a sequence names it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import and_, func, or_, select

from mailwright.audience import segments
from mailwright.content.segments_used import IN_SEGMENTS, segments_used
from mailwright.content.template import InvalidTemplate
from mailwright.content.template_store import RESERVED_CHARACTER
from mailwright.domain.clock import Clock
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox.campaign_uses import CampaignUse, find_uses
from mailwright.outbox.sequence_uses import SEGMENTS, SequenceUse, find_sequence_uses
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import templates


@dataclass(frozen=True, slots=True)
class TemplateUse:
    """A template whose newest version in some language has a condition on a segment."""

    template_id: str

    @property
    def name(self) -> str:
        return self.template_id


SegmentUser = CampaignUse | TemplateUse | SequenceUse


class SegmentInUse(NotPossibleNow):
    """A draft campaign, a template or a sequence uses this segment."""

    code = "SEGMENT_IN_USE"

    def __init__(self, name: str, uses: tuple["SegmentUser", ...]) -> None:
        first = uses[0]
        if isinstance(first, TemplateUse):
            reason = lazy_gettext("the template {name} has a condition on it", name=first.name)
            remedy = lazy_gettext("Change or delete the template first.")
        else:
            reason, remedy = first.sentence, first.remedy
        super().__init__(
            "The segment {name} cannot be deleted because {reason}. {remedy}", name=name, reason=reason, remedy=remedy
        )
        self.uses = uses


async def delete_segment(database: Database, clock: Clock, tenant_id: int, segment_key: str, *, actor: str) -> None:
    """Delete a segment, or raise `SegmentInUse`. Started campaigns keep the filter that they started with."""
    found = await segments.find(database, tenant_id, segment_key)
    async with database.read() as tx:
        drafts = await _drafts(tx, tenant_id, segment_key)
        in_templates = await _templates(tx, tenant_id, segment_key)
        in_sequences = await find_sequence_uses(tx, tenant_id, SEGMENTS, segment_key)
    uses: tuple[SegmentUser, ...] = (*drafts, *in_templates, *in_sequences)
    if uses:
        raise SegmentInUse(found.name, uses)
    await segments.delete_segment(database, tenant_id, segment_key, actor=actor, clock=clock)


async def _drafts(tx: Transaction, tenant_id: int, segment_key: str) -> list[CampaignUse]:
    def names_it(definition: Mapping[str, Any]) -> bool:
        named = (definition.get("segment"), *definition.get("excludeSegments", ()))
        content = definition.get("content") or {}
        written = [content.get(name) for name in ("subject", "body", "text")]
        return segment_key in named or _asks_about(segment_key, *written)

    return [each for each in await find_uses(tx, tenant_id, names_it) if each.is_draft]


async def _templates(tx: Transaction, tenant_id: int, segment_key: str) -> list[TemplateUse]:
    t = templates.c
    own = and_(t.tenant_id == tenant_id, t.template_id.not_like(f"%{RESERVED_CHARACTER}%"), t.deleted_at.is_(None))
    newest = select(func.max(t.id)).where(own).group_by(t.template_id, t.locale)
    asks = or_(*(column.contains(IN_SEGMENTS, autoescape=True) for column in (t.subject, t.html, t.text)))
    query = select(t.template_id, t.subject, t.html, t.text).where(t.id.in_(newest), asks).order_by(t.template_id)
    rows = await tx.execute(query)
    found = [row.template_id for row in rows if _asks_about(segment_key, row.subject, row.html, row.text)]
    return [TemplateUse(template_id) for template_id in dict.fromkeys(found)]


def _asks_about(segment_key: str, *sources: str | None) -> bool:
    """Return whether a source has a condition on the segment. A block names it in JSON, other formats in a tag."""
    try:
        used = segments_used(*sources)
    except InvalidTemplate:
        return True  # It cannot be parsed, so it may use any segment.
    blocks = (f'"segment":"{segment_key}"', f'"segment": "{segment_key}"')
    return segment_key in used or any(each in source for source in sources if source for each in blocks)
