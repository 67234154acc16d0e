"""The target URLs of tracked links. A link's ID is derived from its target."""

from collections.abc import Collection, Mapping
from typing import Final

from sqlalchemy import delete, select

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.tracking_tokens import LIFETIME_DAYS
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import tracked_links

STORE_LINKS = statement(__package__, "store_links")

# Lifetime of a link, a little longer than the lifetime of its tokens.
KEPT_FOR: Final = (LIFETIME_DAYS + 7) * DAY


async def store_links(database: Database, links: Mapping[str, tuple[int, str]], now: Instant) -> None:
    """Store the tenant and the URL of each link, or extend its lifetime."""
    rows = [{"link_id": link_id, "tenant_id": tenant, "url": url} for link_id, (tenant, url) in sorted(links.items())]
    await database.transact(lambda tx: tx.count(STORE_LINKS, links=rows, now=now))


async def find_link(database: Database, link_id: str) -> str | None:
    async with database.read() as tx:
        rows = await tx.execute(select(tracked_links.c.url).where(tracked_links.c.link_id == link_id))
    return rows[0].url if rows else None


async def find_targets(database: Database, tenant_id: int, link_ids: Collection[str]) -> dict[str, str]:
    """Return the targets of a tenant's links by their IDs."""
    links = tracked_links.c
    query = select(links.link_id, links.url).where(links.tenant_id == tenant_id, links.link_id.in_(sorted(link_ids)))
    async with database.read() as tx:
        return {row.link_id: row.url for row in await tx.execute(query)} if link_ids else {}


async def newest_links(database: Database, limit: int) -> dict[str, str]:
    """Return the links that were used last."""
    query = select(tracked_links.c.link_id, tracked_links.c.url).order_by(tracked_links.c.used_at.desc()).limit(limit)
    async with database.read() as tx:
        return {row.link_id: row.url for row in await tx.execute(query)}


async def delete_expired_links(database: Database, now: Instant) -> None:
    async with database.write() as tx:
        await tx.execute(delete(tracked_links).where(tracked_links.c.used_at < now - KEPT_FOR))
