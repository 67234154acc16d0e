"""Which version of a template a request means: the latest at the moment it is accepted."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import func, select

from mailwright.storage.database import Transaction
from mailwright.storage.tables import templates


@dataclass(frozen=True, slots=True)
class Template:
    key: int
    subject: str


async def latest_templates(tx: Transaction, tenant_id: int, template_ids: Iterable[str]) -> dict[str, Template]:
    t = templates.c
    newest = (
        select(t.template_id, func.max(t.version).label("version"))
        .where(t.tenant_id == tenant_id, t.template_id.in_(list(template_ids)))
        .group_by(t.template_id)
        .subquery()
    )
    query = select(t.id, t.template_id, t.subject).join(
        newest, (newest.c.template_id == t.template_id) & (newest.c.version == t.version)
    )
    rows = await tx.execute(query.where(t.tenant_id == tenant_id))
    return {row.template_id: Template(row.id, row.subject) for row in rows}
