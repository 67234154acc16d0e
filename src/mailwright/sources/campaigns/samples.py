"""Choose a few real recipients of a draft who would get different emails."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson

from mailwright.audience.segments import audience_query
from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_store import TemplateStore
from mailwright.content.variables import KNOWN_VARIABLES
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import gettext
from mailwright.sources.campaigns.checks import named_audience
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.variants import VariantDraft, draft_variants
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts

SAMPLES: Final = 3
# The samples are chosen from this many recipients, and from those without a name.
_LOOKED_AT: Final = 200
# A list that the content loops over does not count as a missing value of a contact.
_LIST: Final = re.compile(r"\{%-?\s*for\s+\w+\s+in\s+(\w+)")


@dataclass(frozen=True, slots=True)
class SampleContact:
    email: str
    name: str | None
    locale: str | None
    missing: tuple[str, ...]  # the variables of the email that the contact has no value for

    @property
    def label(self) -> str:
        return self.name or self.email

    @property
    def note(self) -> str:
        """Describe what is special about the contact: `No city, no plan. Language: pt.`."""
        lacks = ", ".join(gettext("no {name}", name=name.replace("_", " ")) for name in self.missing)
        parts = [lacks[:1].upper() + lacks[1:] if lacks else gettext("Has a value for every variable")]
        if self.locale:
            parts.append(gettext("Language: {locale}", locale=self.locale))
        return f"{'. '.join(parts)}."


async def choose_samples(
    database: Database, store: TemplateStore, definition: CampaignDefinition, *, tenant_id: int, now: Instant
) -> list[SampleContact]:
    """Return up to three recipients. Those who lack different variables or have another language come first."""
    if not definition.lists and not definition.is_narrowed:
        return []
    drafts, _ = await draft_variants(database, store, definition, tenant_id=tenant_id)
    used = _used_variables(drafts) - definition.variables.keys()
    columns = (contacts.c.email, contacts.c.name, contacts.c.locale, contacts.c.attributes)
    async with database.read() as tx:
        try:
            named = await named_audience(tx, tenant_id, definition)
            members = audience_query(tenant_id, named.lists, named.filter, now).add_columns(*columns)
        except InvalidInput:
            return []  # The pre-send check reports it.
        rows = list(await tx.execute(members.order_by(contacts.c.id).limit(_LOOKED_AT)))
        rows += await tx.execute(members.where(contacts.c.name.is_(None)).order_by(contacts.c.id).limit(1))
    return _different([_sample(row, used) for row in rows])


def _used_variables(drafts: Sequence[VariantDraft]) -> frozenset[str]:
    names: set[str] = set()
    for draft in drafts:
        for text in draft.texts.values():
            try:
                template = Template(subject=text.subject, html=text.html, text=text.text)
            except InvalidTemplate:
                continue  # The pre-send check reports it.
            names |= template.variables.difference(_LIST.findall(text.html))
    return frozenset(names - (KNOWN_VARIABLES - {"name"}))


def _sample(row: Any, used: Iterable[str]) -> SampleContact:
    given = {"name": row.name, "email": row.email, **orjson.loads(row.attributes)}
    missing = tuple(sorted(name for name in used if given.get(name) in (None, "")))
    return SampleContact(row.email, row.name, row.locale, missing)


def _different(found: Sequence[SampleContact]) -> list[SampleContact]:
    by_kind: dict[tuple[tuple[str, ...], str | None], SampleContact] = {}
    for contact in sorted(found, key=lambda contact: len(contact.missing)):
        by_kind.setdefault((contact.missing, contact.locale), contact)
    kinds = list(by_kind.values())
    # The first sample has the most values. The last ones lack the most values and show the worst case.
    chosen = kinds[:1] + kinds[1:][-(SAMPLES - 1) :]
    others = {contact.email: contact for contact in found if contact not in chosen}
    return [*chosen, *others.values()][:SAMPLES]
