"""Builders for the SMTP tests: a message and a provider."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.providers.smtp.provider import Smtp
from mailwright.providers.smtp.settings import Timeouts
from mailwright.providers.smtp.url import parse_smtp_url
from tests.standins.smtp_sink import SmtpSink

CONTENT = b"Subject: Hello\r\n\r\nHello.\r\n"
SENDER = "bounces@example.com"
READER = "reader@example.com"

# Long enough for a loopback connection on a busy machine.
PATIENT = Timeouts(connect=20.0)


def a_mail(
    *recipients: str,
    content: bytes = CONTENT,
    sender: str = SENDER,
    send_before: Instant | None = None,
    is_bulk: bool = False,
) -> OutgoingMessage:
    return OutgoingMessage("message-1", sender, recipients or (READER,), content, send_before, is_bulk=is_bulk)


@asynccontextmanager
async def smtp_to(
    sink: SmtpSink | str, options: str = "", *, timeouts: Timeouts = PATIENT, clock: Clock | None = None
) -> AsyncIterator[Smtp]:
    url = sink if isinstance(sink, str) else sink.url
    smtp = Smtp(parse_smtp_url(url + options), clock=clock, timeouts=timeouts, hostname="client.test")
    try:
        yield smtp
    finally:
        await smtp.close(grace=SECOND)


def impatient(**changes: float) -> Timeouts:
    return replace(PATIENT, **changes)
