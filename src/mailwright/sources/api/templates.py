"""Which version of a template a request means: the latest for its reader at the moment it is accepted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import func, select

from mailwright.domain import locales
from mailwright.storage.database import Transaction
from mailwright.storage.tables import contacts, templates


@dataclass(frozen=True, slots=True)
class Template:
    key: int
    subject: str


@dataclass(frozen=True, slots=True)
class Templates:
    """The templates that requests name, and the locales of the people whom they write to."""

    by_locale: Mapping[str, Mapping[str, Template]]
    readers: Mapping[str, str]

    def find(self, template_id: str, to_email: str, locale: str | None) -> Template | None:
        """In the locale of the request, else in that of the contact, else for everyone."""
        texts = self.by_locale.get(template_id)
        return locales.best(texts, locale or self.readers.get(to_email)) if texts else None


NO_TEMPLATES = Templates({}, {})


async def latest_templates(
    tx: Transaction, tenant_id: int, template_ids: Iterable[str], emails: Iterable[str]
) -> Templates:
    """`emails` are the readers whose requests name no locale; they are looked up only where that makes a difference."""
    t = templates.c
    newest = (
        select(t.template_id, func.max(t.version).label("version"))
        .where(t.tenant_id == tenant_id, t.template_id.in_(list(template_ids)))
        .group_by(t.template_id, t.locale)
        .subquery()
    )
    query = select(t.id, t.template_id, t.locale, t.subject).join(
        newest, (newest.c.template_id == t.template_id) & (newest.c.version == t.version)
    )
    found: dict[str, dict[str, Template]] = {}
    for row in await tx.execute(query.where(t.tenant_id == tenant_id)):
        found.setdefault(row.template_id, {})[row.locale] = Template(row.id, row.subject)
    has_choice = any(len(texts) > 1 for texts in found.values())
    return Templates(found, await _locales(tx, tenant_id, emails) if has_choice else {})


async def _locales(tx: Transaction, tenant_id: int, emails: Iterable[str]) -> dict[str, str]:
    mine = (contacts.c.tenant_id == tenant_id, contacts.c.email.in_(list(emails)), contacts.c.locale.is_not(None))
    rows = await tx.execute(select(contacts.c.email, contacts.c.locale).where(*mine))
    return {row.email: row.locale for row in rows}
