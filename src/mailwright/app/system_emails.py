"""Apply the tenant's brand kit to the emails that Mailwright writes itself."""

from mailwright.access.account_notices import AccountNotices
from mailwright.content.brand_store import load_brand
from mailwright.content.system_email import render_system_email
from mailwright.domain.clock import Clock
from mailwright.domain.system_email import SystemEmail
from mailwright.ops.settings import Settings
from mailwright.storage.database import Database, Transaction


async def render_branded(tx: Transaction, tenant_id: int, content: SystemEmail) -> str:
    return render_system_email(content, await load_brand(tx, tenant_id))


def make_account_notices(settings: Settings, database: Database, clock: Clock) -> AccountNotices:
    return AccountNotices(
        database, clock, public_url=settings.public_url, render=render_branded, language=settings.language
    )
