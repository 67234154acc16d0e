"""Builders for the SendGrid tests: a message and a provider."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mailwright.content.mime import EmailParts, build_email
from mailwright.domain.clock import Clock, Instant, ManualClock
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.providers.http import HttpClient
from mailwright.providers.sendgrid.provider import SendGrid, SendGridSettings
from tests.standins.sendgrid import KEY, SendGridStandIn
from tests.unit.content.emails import an_email

OUTBOX_ID = "01990000-0000-7000-8000-000000000001"


def outgoing(parts: EmailParts, *blind: str, send_before: Instant | None = None) -> OutgoingMessage:
    """Return the envelope recipients: To, Cc and blind copies."""
    recipients = (parts.to.address, *[box.address for box in parts.cc], *blind)
    return OutgoingMessage(
        OUTBOX_ID, "bounces@example.com", recipients, build_email(parts), send_before, is_canonical=True
    )


def a_mail(*blind: str, send_before: Instant | None = None, **changes: Any) -> OutgoingMessage:
    return outgoing(an_email(outbox_id=OUTBOX_ID, **changes), *blind, send_before=send_before)


@asynccontextmanager
async def sendgrid_to(
    place: SendGridStandIn | str, *, clock: Clock | None = None, key: str = KEY, **settings: Any
) -> AsyncIterator[SendGrid]:
    url = place if isinstance(place, str) else place.url
    http = HttpClient()
    try:
        yield SendGrid(SendGridSettings(key, url, **settings), http, clock or ManualClock())
    finally:
        await http.close()
