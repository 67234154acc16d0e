"""Wire the recorder of DMARC reports."""

from mailwright.app.sender_directory import make_directory
from mailwright.domain.clock import Clock
from mailwright.domain.sender_policy import known_domain
from mailwright.events.dmarc.recorder import DmarcRecorder
from mailwright.ops.settings import Settings
from mailwright.outbox.dmarc_reports import list_totals
from mailwright.outbox.sender_domains import SenderDirectory, find_domain
from mailwright.storage.database import Database


def make_dmarc_recorder(
    settings: Settings, database: Database, clock: Clock, directory: SenderDirectory | None = None
) -> DmarcRecorder:
    known = directory or make_directory(settings, database, clock)
    return DmarcRecorder(database, clock, known, selector=settings.dkim_selector)


async def require_reported_domain(database: Database, directory: SenderDirectory, tenant_id: int, name: str) -> str:
    """Return the tenant's domain of this name: a sender domain, one in the settings, or one with stored reports."""
    domain = known_domain(name)
    if (await directory.current()).home_of(domain) == (tenant_id, domain):
        return domain
    if any(each.domain == domain for each in await list_totals(database, tenant_id, 0)):
        return domain
    async with database.read() as tx:
        return (await find_domain(tx, tenant_id, domain)).domain
