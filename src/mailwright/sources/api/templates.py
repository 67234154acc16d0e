"""Find the template version for a request: the latest one in the recipient's locale when it is accepted."""

from collections.abc import Iterable, Mapping

import orjson
from sqlalchemy import func, select

from mailwright.domain import locales
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Transaction
from mailwright.storage.tables import contacts, templates


@dataclass(frozen=True, slots=True)
class RequestedTemplate:
    key: int
    subject: str
    segments: tuple[str, ...] = ()  # The segments whose members see other content.


@dataclass(frozen=True, slots=True)
class RequestedTemplates:
    """The latest versions of the templates that requests name, and the locales of their recipients."""

    by_locale: Mapping[str, Mapping[str, RequestedTemplate]]
    recipient_locales: Mapping[str, str]

    def find(self, template_id: str, to_email: str, locale: str | None) -> RequestedTemplate | None:
        """Return the version in the request's locale, else in the contact's locale, else the default version."""
        versions = self.by_locale.get(template_id)
        return locales.best(versions, locale or self.recipient_locales.get(to_email)) if versions else None

    @property
    def segments(self) -> frozenset[str]:
        return frozenset(
            key for versions in self.by_locale.values() for template in versions.values() for key in template.segments
        )


NO_TEMPLATES = RequestedTemplates({}, {})


async def latest_templates(
    tx: Transaction, tenant_id: int, template_ids: Iterable[str], emails: Iterable[str]
) -> RequestedTemplates:
    """Load the latest version of each template in each locale.

    The contacts in `emails` (of requests without a locale) are looked up only if a template has several locales.
    """
    t = templates.c
    newest = (
        select(t.template_id, func.max(t.version).label("version"))
        .where(t.tenant_id == tenant_id, t.template_id.in_(list(template_ids)), t.deleted_at.is_(None))
        .group_by(t.template_id, t.locale)
        .subquery()
    )
    query = select(t.id, t.template_id, t.locale, t.subject, t.segments).join(
        newest, (newest.c.template_id == t.template_id) & (newest.c.version == t.version)
    )
    found: dict[str, dict[str, RequestedTemplate]] = {}
    for row in await tx.execute(query.where(t.tenant_id == tenant_id)):
        found.setdefault(row.template_id, {})[row.locale] = RequestedTemplate(
            row.id, row.subject, tuple(orjson.loads(row.segments))
        )
    has_choice = any(len(versions) > 1 for versions in found.values())
    return RequestedTemplates(found, await _locales(tx, tenant_id, emails) if has_choice else {})


async def _locales(tx: Transaction, tenant_id: int, emails: Iterable[str]) -> dict[str, str]:
    mine = (contacts.c.tenant_id == tenant_id, contacts.c.email.in_(list(emails)), contacts.c.locale.is_not(None))
    rows = await tx.execute(select(contacts.c.email, contacts.c.locale).where(*mine))
    return {row.email: row.locale for row in rows}
