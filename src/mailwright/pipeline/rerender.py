"""Once more: the mail of a message as its reader got it or will get it, for people who look after it.

It is built anew from what the message says and from what is known of its reader now; nothing of it is ever sent.
"""

import contextlib
from collections.abc import Mapping

from mailwright.content.headers import InvalidHeader
from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_store import TemplateStore
from mailwright.domain.address import InvalidAddress
from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotFound
from mailwright.outbox.claim import load_unclaimed
from mailwright.pipeline.compose import Composer, SenderIdentity, template_values
from mailwright.storage.database import Database


async def render_message(
    database: Database,
    templates: TemplateStore,
    identity: SenderIdentity,
    outbox_id: str,
    *,
    tenant_id: int,
    at: Instant,
) -> bytes | str:
    """The mail whole, with its headers; or a sentence that says why there is none."""
    async with database.read() as tx:
        found = await load_unclaimed(tx, [outbox_id], tenant_id=tenant_id, now=at)
    if not found:
        raise NotFound
    [claimed] = found
    if "to" not in claimed.payload:
        return "What this mail said was erased with its reader’s other data."
    composer = Composer(database, templates, identity, signer=None, threads=None)
    try:
        return await composer.render_unsigned(claimed, at)
    except (InvalidTemplate, InvalidHeader, InvalidAddress) as error:
        return f"The mail cannot be built: {error}"


async def render_subjects(
    database: Database, subjects: Mapping[str, str], *, tenant_id: int, at: Instant
) -> dict[str, str]:
    """Subjects as their readers see them, by the message's id: those that have something to fill in, and could be."""
    open_ones = [outbox_id for outbox_id, subject in subjects.items() if "{{" in subject or "{%" in subject]
    if not open_ones:
        return {}
    async with database.read() as tx:
        found = await load_unclaimed(tx, open_ones, tenant_id=tenant_id, now=at)
    filled = {}
    for claimed in found:
        with contextlib.suppress(InvalidTemplate, KeyError):  # erased, or no longer what the template asks for
            template = Template(subject=subjects[claimed.outbox_id], html=None, text="")
            filled[claimed.outbox_id] = template.render(template_values(claimed.payload, "", None)).subject
    return filled
