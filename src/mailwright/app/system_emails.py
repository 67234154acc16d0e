"""Apply the tenant's brand kit to the emails that Mailwright writes itself."""

from mailwright.access.account_notices import AccountNotices
from mailwright.audience.double_opt_in import ConfirmationLinks, DoubleOptIn
from mailwright.content.brand_store import load_brand
from mailwright.content.system_email import render_system_email
from mailwright.domain.clock import Clock
from mailwright.domain.system_email import SystemEmail
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.ops.settings import Settings
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, get_or_create_secret
from mailwright.storage.database import Database, Transaction


async def render_branded(tx: Transaction, tenant_id: int, content: SystemEmail) -> str:
    return render_system_email(content, await load_brand(tx, tenant_id))


def make_account_notices(settings: Settings, database: Database, clock: Clock) -> AccountNotices:
    return AccountNotices(
        database, clock, public_url=settings.public_url, render=render_branded, language=settings.language
    )


async def make_double_opt_in(settings: Settings, database: Database, clock: Clock) -> DoubleOptIn:
    """Return the double opt-in service. It signs links with the same secret as the other recipient links."""
    given = settings.unsubscribe_secret
    secret = given.get_secret_value() if given else await get_or_create_secret(database, UNSUBSCRIBE_SECRET)
    return DoubleOptIn(
        database, clock, ConfirmationLinks(settings.public_url, UnsubscribeTokens(secret)), render_branded
    )
