"""Cc and Bcc copies that the receiving server deferred. Each becomes a separate message, which is retried alone."""

from collections.abc import Sequence
from typing import Any

from mailwright.domain import address
from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7s
from mailwright.domain.message import EMAIL_ID, Claimed, Delivered, NewMessage, Source
from mailwright.domain.retry import DEFERRALS
from mailwright.domain.states import OnDoubt, Priority

_RECIPIENT_FIELDS = ("to", "toName", "cc", "bcc")


def deferred_copies(delivered: Sequence[Delivered], now: Instant) -> dict[int, list[NewMessage]]:
    """Return the messages that retry deferred copies, by the key of the delivered message."""
    return {
        each.claimed.message_key: [
            _copy(each.claimed, recipient, outbox_id, now + DEFERRALS.delay(outbox_id, 1))
            for recipient, outbox_id in zip(
                each.deferred_recipients, uuid7s(now, len(each.deferred_recipients)), strict=True
            )
        ]
        for each in delivered
        if each.deferred_recipients
    }


def _copy(claimed: Claimed, recipient: str, outbox_id: str, due_at: Instant) -> NewMessage:
    email = address.normal(recipient)
    return NewMessage(
        outbox_id=outbox_id,
        tenant_id=claimed.tenant_id,
        source=Source(claimed.source),
        request_id=claimed.request_id,
        to_email=email,
        subject=claimed.payload.get("subject", ""),
        payload=_payload(claimed, email),
        dedupe_key=f"copy:{claimed.outbox_id}:{email}",
        template_key=claimed.template_key,
        retry_policy=claimed.retry_policy,
        on_doubt=OnDoubt.HOLD if claimed.is_bulk else OnDoubt.RESEND,
        priority=Priority.BULK if claimed.is_bulk else Priority.TRANSACTIONAL,
        is_bulk=claimed.is_bulk,
        list_key=claimed.list_key,
        scheduled_at=due_at,
        expires_at=claimed.expires_at,
    )


def _payload(claimed: Claimed, email: str) -> dict[str, Any]:
    """Return the content for one recipient. The headers still show all recipients of the original message."""
    payload = claimed.payload
    shown = {name: payload[name] for name in ("to", "toName", "cc") if name in payload}
    content = {name: value for name, value in payload.items() if name not in _RECIPIENT_FIELDS}
    return {EMAIL_ID: claimed.outbox_id, **content, "to": email, "copy": {"of": claimed.outbox_id, **shown}}
