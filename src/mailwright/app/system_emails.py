"""Give the emails that Mailwright writes itself the look of their tenant."""

from mailwright.content.brand_store import load_brand
from mailwright.content.system_email import render_system_email
from mailwright.domain.system_email import SystemEmail
from mailwright.storage.database import Transaction


async def render_branded(tx: Transaction, tenant_id: int, content: SystemEmail) -> str:
    return render_system_email(content, await load_brand(tx, tenant_id))
