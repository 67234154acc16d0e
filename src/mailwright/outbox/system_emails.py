"""Emails that Mailwright writes itself, such as confirmations and invitations. They go through the outbox."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7
from mailwright.domain.message import ACCOUNT_EMAIL, SEALED_LINK, NewMessage, Source
from mailwright.domain.system_email import SystemEmail
from mailwright.storage.database import Transaction

# Returns the HTML of an email in the look of a tenant.
RenderSystemEmail = Callable[[Transaction, int, SystemEmail], Awaitable[str]]

# The request IDs of messages about accounts begin with this. Only administrators see them in the local mailbox.
ACCOUNT_PREFIX: Final = "account-"


async def write_system_email(
    tx: Transaction,
    render: RenderSystemEmail,
    content: SystemEmail,
    *,
    tenant_id: int,
    to: str,
    subject: str,
    prefix: str,
    now: Instant,
    expires_at: Instant | None = None,
    sealed_link: str | None = None,
) -> NewMessage:
    """Return the message. `sealed_link` is an encrypted link that replaces the link of the content on sending."""
    html, message_id = await render(tx, tenant_id, content), uuid7(now)
    payload: dict[str, Any] = {"to": to, "subject": subject, "html": html, "text": content.text}
    is_for_user = prefix == ACCOUNT_PREFIX
    if is_for_user:
        payload[ACCOUNT_EMAIL] = True
    if sealed_link is not None:
        payload[SEALED_LINK] = sealed_link
    return NewMessage(
        outbox_id=message_id,
        tenant_id=tenant_id,
        source=Source.API,
        request_id=f"{prefix}{message_id}",
        to_email=to,
        subject=subject,
        payload=payload,
        expires_at=expires_at,
        creates_contact=not is_for_user,
        external_id=f"{ACCOUNT_PREFIX}user" if is_for_user else None,  # Every message names its recipient.
    )
