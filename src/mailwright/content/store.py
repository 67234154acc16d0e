"""Templates of tenants: stored as versions that never change, and compiled once in each process."""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, insert, select

from mailwright.content.headers import Mailbox
from mailwright.content.layout import Frame, Layout
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.storage.database import Database
from mailwright.storage.tables import templates

CACHED = 1_000


@dataclass(frozen=True, slots=True)
class StoredTemplate:
    key: int
    tenant_id: int
    template_id: str
    version: int
    subject: str
    html: str
    text: str | None
    created_at: Instant


class TemplateStore:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: OrderedDict[int, StoredTemplate] = OrderedDict()

    async def put(
        self, tenant_id: int, template_id: str, *, subject: str, html: str, text: str | None
    ) -> StoredTemplate:
        """A new version. What is wrong with a template is said now, not when the first mail is built."""
        if not template_id or len(template_id) > 100:
            raise InvalidInput("a template id has 1 to 100 characters", field="templateId")
        Layout.compile(Frame(Mailbox("check@localhost")), subject=subject, html=html, text=text)
        async with self._database.write() as tx:
            same = (templates.c.tenant_id == tenant_id) & (templates.c.template_id == template_id)
            newest = (await tx.execute(select(func.max(templates.c.version)).where(same)))[0][0]
            values = {
                "tenant_id": tenant_id,
                "template_id": template_id,
                "version": (newest or 0) + 1,
                "subject": subject,
                "html": html,
                "text": text,
                "created_at": self._clock.now(),
            }
            rows = await tx.execute(insert(templates).values(**values).returning(templates))
        return _stored(rows[0])

    async def latest(self, tenant_id: int, template_id: str) -> StoredTemplate:
        same = (templates.c.tenant_id == tenant_id) & (templates.c.template_id == template_id)
        async with self._database.read() as tx:
            rows = await tx.execute(select(templates).where(same).order_by(templates.c.version.desc()).limit(1))
        if not rows:
            raise NotFound(f"there is no template {template_id[:80]!r}", field="templateId")
        return _stored(rows[0])

    async def load(self, keys: Collection[int]) -> None:
        """Makes these versions known, so that `known` answers without a database."""
        missing = [key for key in keys if key not in self._known]
        if not missing:
            return
        async with self._database.read() as tx:
            rows = await tx.execute(select(templates).where(templates.c.id.in_(missing)))
        for row in rows:
            self._known[row.id] = _stored(row)
        while len(self._known) > max(CACHED, len(keys)):
            self._known.popitem(last=False)

    def known(self, key: int) -> StoredTemplate | None:
        return self._known.get(key)


def _stored(row: Any) -> StoredTemplate:
    return StoredTemplate(
        row.id, row.tenant_id, row.template_id, row.version, row.subject, row.html, row.text, row.created_at
    )
