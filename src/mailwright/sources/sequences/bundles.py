"""Sequences with their templates in one file, for another tenant or installation."""

from collections.abc import Sequence
from typing import Any

import orjson

from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import StoredTemplate, TemplateDraft, TemplateStore, latest_by_locale
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.records import StoredSequence
from mailwright.sources.sequences.versions import published_from
from mailwright.storage.database import Database


class TemplatesDiffer(NotPossibleNow):
    """Templates of the file exist already with another content."""

    code = "TEMPLATES_DIFFER"

    def __init__(self, template_ids: Sequence[str]) -> None:
        super().__init__(
            "These templates exist already and differ from the file: {template_ids}. Choose to replace them, which "
            "stores new versions, or give them other IDs in the file.",
            template_ids=", ".join(dict.fromkeys(template_ids)),
        )


@dataclass(frozen=True, slots=True)
class BundledTemplate:
    """A template of a file, in one language."""

    template_id: str
    draft: TemplateDraft

    def is_same(self, stored: StoredTemplate) -> bool:
        ours, theirs = self.draft, (stored.subject, stored.format, stored.text, stored.variables)
        if (ours.subject, ours.format, ours.text, ours.variables) != theirs:
            return False
        if ours.format is TemplateFormat.BLOCKS:
            return bool(orjson.loads(ours.body) == orjson.loads(stored.body))
        return ours.body == stored.body


async def load_templates(database: Database, sequence: StoredSequence) -> list[StoredTemplate]:
    """Return the newest versions of the templates that the draft names, in all languages. Missing ones are left out."""
    steps = published_from(sequence.draft).definition.walk()
    named = dict.fromkeys(step.body.template for step in steps if step.kind is StepKind.SEND)
    async with database.read() as tx:
        return [
            stored
            for template_id in named
            for stored in (await latest_by_locale(tx, sequence.tenant_id, template_id)).values()
        ]


async def add_templates(
    database: Database,
    store: TemplateStore,
    tenant_id: int,
    document: Any,
    bundled: Sequence[BundledTemplate],
    *,
    actor: str,
    replaces: bool,
    keeps_locked: bool = False,
) -> list[str]:
    """Store the templates of a file that the tenant does not have, and return their IDs.

    Nothing is stored if the document is invalid, or if a template exists with other content, unless `replaces` is true.
    `keeps_locked`: blocks that a developer locked must be unchanged.
    """
    published_from(document)
    missing: list[BundledTemplate] = []
    different: list[BundledTemplate] = []
    for each in bundled:
        async with database.read() as tx:
            found = await latest_by_locale(tx, tenant_id, each.template_id)
        stored = found.get(each.draft.locale)
        if stored is None or not each.is_same(stored):
            (missing if not found else different).append(each)
    if different and not replaces:
        raise TemplatesDiffer([each.template_id for each in different])
    wanted = [*missing, *different]
    for each in wanted:  # An invalid one stores none of them.
        draft = each.draft
        await store.compiled(tenant_id, draft.body, draft.format, title=draft.subject, locale=draft.locale)
    for each in wanted:
        await store.write(tenant_id, each.template_id, each.draft, actor=actor, keeps_locked=keeps_locked)
    return list(dict.fromkeys(each.template_id for each in wanted))
