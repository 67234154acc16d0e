"""Sections of the dashboard that many tenants never use. They are shown when switched on, configured or in use."""

from enum import StrEnum

from sqlalchemy import exists, select

from mailwright.app.wiring import Engine
from mailwright.outbox.tenants import change
from mailwright.storage.tables import mailouts, slices, tenants


class Section(StrEnum):
    ARTICLES = "articles"
    MAILOUTS = "mailouts"
    NOTIFICATIONS = "notifications"


async def load_sections(engine: Engine, tenant_id: int) -> dict[Section, bool]:
    """Return the sections that the tenant sees.

    The value is true if it was switched on, and false if it is shown because the tenant uses it.
    """
    settings = engine.settings
    used = (
        exists().where(slices.c.tenant_id == tenant_id).label(Section.ARTICLES),
        exists().where(mailouts.c.tenant_id == tenant_id).label(Section.MAILOUTS),
    )
    async with engine.database.read() as tx:
        rows = await tx.execute(select(tenants.c.name, tenants.c.sections, *used).where(tenants.c.id == tenant_id))
    if not rows:
        return {}
    [row] = rows
    is_used = {
        Section.ARTICLES: bool(row.articles),
        Section.MAILOUTS: bool(row.mailouts) or (bool(settings.notion_token) and settings.mailout_tenant == row.name),
        Section.NOTIFICATIONS: engine.open_notifications is not None and settings.notify_tenant == row.name,
    }
    chosen = row.sections.split()
    return {each: each in chosen for each in Section if each in chosen or is_used[each]}


async def switch_sections(engine: Engine, tenant: str, chosen: set[Section], *, actor: str) -> None:
    """Show these sections in the navigation, in addition to those in use."""
    names = " ".join(each for each in Section if each in chosen)
    await change(engine.database, tenant, actor=actor, clock=engine.clock, sections=names)
