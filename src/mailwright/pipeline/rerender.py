"""Render a stored message for display, from its payload and the contact's current data. Nothing is sent."""

import contextlib
from collections.abc import Mapping

from mailwright.content.headers import InvalidHeader
from mailwright.content.raw import InvalidEmail
from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_store import TemplateStore
from mailwright.domain.address import InvalidAddress
from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotFound
from mailwright.outbox.claim import load_unclaimed
from mailwright.outbox.sender_domains import SenderDirectory
from mailwright.pipeline.compose import Composer, SenderIdentity, template_values
from mailwright.pipeline.senders import MessageSenders
from mailwright.storage.database import Database


async def render_message(
    database: Database,
    templates: TemplateStore,
    identity: SenderIdentity,
    outbox_id: str,
    *,
    tenant_id: int,
    at: Instant,
    directory: SenderDirectory | None = None,
) -> bytes | str:
    """Return the complete message with its headers, or a sentence with the reason why it cannot be rendered."""
    async with database.read() as tx:
        messages = await load_unclaimed(tx, [outbox_id], tenant_id=tenant_id, now=at)
    if not messages:
        raise NotFound
    [claimed] = messages
    if "to" not in claimed.payload:
        return "The content was erased together with the contact’s data."
    box = database.secret_box
    senders = MessageSenders(identity.sender, identity.domains, directory=directory, secret_box=box)
    composer = Composer(database, templates, identity, senders=senders, shows_sealed_links=False)
    try:
        return await composer.render_unsigned(claimed, at)
    except (InvalidTemplate, InvalidHeader, InvalidEmail, InvalidAddress) as error:
        return f"The message cannot be rendered: {error}"


async def render_subjects(
    database: Database, subjects: Mapping[str, str], *, tenant_id: int, at: Instant
) -> dict[str, str]:
    """Render the subjects that contain variables, by message id; subjects that cannot be rendered are left out."""
    templated = [outbox_id for outbox_id, subject in subjects.items() if "{{" in subject or "{%" in subject]
    if not templated:
        return {}
    async with database.read() as tx:
        messages = await load_unclaimed(tx, templated, tenant_id=tenant_id, now=at)
    rendered = {}
    for claimed in messages:
        if claimed.content_digest is not None:
            continue  # An application composed the email, so its subject is not a template.
        with contextlib.suppress(InvalidTemplate, KeyError):  # The data was erased, or no longer matches the template.
            template = Template(subject=subjects[claimed.outbox_id], html=None, text="")
            rendered[claimed.outbox_id] = template.render(template_values(claimed.payload, "", None)).subject
    return rendered
