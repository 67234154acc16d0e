"""Once more: the mail of a message as its reader got it or will get it, for people who look after it.

It is built anew from what the message says and from what is known of its reader now; nothing of it is ever sent.
"""

from mailwright.content.headers import HeaderRefused
from mailwright.content.store import TemplateStore
from mailwright.content.template import TemplateFailed
from mailwright.domain.address import InvalidAddress
from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotFound
from mailwright.outbox.claim import looked_at
from mailwright.pipeline.road import Identity, Road
from mailwright.storage.database import Database


async def mail_of(
    database: Database, templates: TemplateStore, identity: Identity, outbox_id: str, *, tenant_id: int, at: Instant
) -> bytes | str:
    """The mail whole, with its headers; or a sentence that says why there is none."""
    async with database.read() as tx:
        claimed = await looked_at(tx, outbox_id, tenant_id=tenant_id, now=at)
    if claimed is None:
        raise NotFound
    if "to" not in claimed.payload:
        return "What this mail said was erased with its reader’s other data."
    road = Road(database, templates, identity, signer=None, threads=None)
    try:
        return await road.once_more(claimed, at)
    except (TemplateFailed, HeaderRefused, InvalidAddress) as error:
        return f"The mail cannot be built: {error}"
