"""Builders for the SES tests: a message, credentials and a provider."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mailwright.domain.clock import Clock, Instant, SystemClock
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.providers.aws import AwsKeyChain, AwsKeys
from mailwright.providers.http import HttpClient
from mailwright.providers.ses.provider import Ses
from mailwright.providers.ses.settings import SesSettings
from tests.standins.ses import ACCESS_KEY, REGION, SECRET_KEY, SesStandIn

SENDER = "news@example.com"
READER = "reader@example.org"
CONTENT = b"From: News <news@example.com>\r\nTo: reader@example.org\r\nSubject: Hello\r\n\r\nHello.\r\n"
OUTBOX_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def a_mail(
    *recipients: str,
    content: bytes = CONTENT,
    sender: str = SENDER,
    send_before: Instant | None = None,
    uses_default_sender: bool = True,
    uses_default_from: bool = True,
) -> OutgoingMessage:
    own = {"uses_default_sender": uses_default_sender, "uses_default_from": uses_default_from}
    return OutgoingMessage(OUTBOX_ID, sender, recipients or (READER,), content, send_before, **own)


def keys_found(secret: str = SECRET_KEY, token: str | None = None) -> Callable[[], Callable[[], AwsKeys]]:
    return lambda: lambda: AwsKeys(ACCESS_KEY, secret, token)


@asynccontextmanager
async def ses_to(
    stand_in: SesStandIn | str,
    *,
    clock: Clock | None = None,
    configuration_set: str | None = None,
    timeout_seconds: float = 20.0,
    keys: Callable[[], Callable[[], AwsKeys]] | None = None,
) -> AsyncIterator[Ses]:
    url = stand_in if isinstance(stand_in, str) else stand_in.url
    clock = clock or SystemClock()
    http = HttpClient()
    settings = SesSettings(REGION, url, configuration_set, timeout_seconds)
    try:
        yield Ses(settings, http, clock, AwsKeyChain(clock, keys or keys_found()))
    finally:
        await http.close()
