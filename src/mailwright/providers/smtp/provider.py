"""The `smtp` provider. It never raises: every failure is a result with a code."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from mailwright.domain.clock import SECOND, Clock, Instant, SystemClock
from mailwright.domain.errors import ConfigurationInvalid, setting_problem
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.settings import Settings
from mailwright.providers.callbacks import future_of
from mailwright.providers.protocol import ProviderCheck, ResultCallback, RetractionCallback, SendHandle
from mailwright.providers.reading_settings import oauth_settings, read_smtp_url
from mailwright.providers.smtp.job import SmtpJob
from mailwright.providers.smtp.login import LoginFailed, log_in
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.providers.smtp.pool import SmtpPool
from mailwright.providers.smtp.responses import PROVIDER
from mailwright.providers.smtp.settings import SmtpAuth, SmtpSettings, Timeouts, Tls
from mailwright.providers.smtp.wire import find_problem

if TYPE_CHECKING:
    from mailwright.providers.http import HttpClient


class Smtp:
    name = PROVIDER
    reports_events = False

    def __init__(
        self,
        settings: SmtpSettings,
        *,
        clock: Clock | None = None,
        timeouts: Timeouts | None = None,
        hostname: str | None = None,
    ) -> None:
        self._settings = settings
        self._timeouts = timeouts or Timeouts()
        self._hostname = hostname or _own_name()
        self._context = tls_context(settings)
        self._pool = SmtpPool(settings, self._context, clock or SystemClock(), self._timeouts, self._hostname)

    @property
    def capacity(self) -> int:
        return sum(self._pool.places())

    @property
    def bulk_capacity(self) -> int:
        first, second = self._pool.places()
        return min(first, self._settings.bulk_connections) + second

    def watch_capacity(self, on_growth: Callable[[], None]) -> None:
        self._pool.on_growth = on_growth

    def watch_retractions(self, on_retraction: RetractionCallback) -> None:
        self._pool.on_retraction = on_retraction

    def send_with_callback(self, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle:
        job = SmtpJob(message, on_result)
        refusal = find_problem(message)
        if refusal is None:
            self._pool.submit(job)
        else:
            job.settle(refusal)
        return job

    def send(self, message: OutgoingMessage) -> asyncio.Future[SendResult]:
        return future_of(self.send_with_callback, message)

    async def check(self) -> ProviderCheck:
        """Open and close a session (EHLO, STARTTLS, AUTH, QUIT) without sending a message."""
        place = f"{self._settings.host}:{self._settings.port}"
        try:
            conversation, features = await log_in(self._settings, self._context, self._timeouts, self._hostname)
        except LoginFailed as failure:
            code, said = failure.result.code, failure.result.original_code
            return ProviderCheck(False, f"{place}: {f'{said} ' if said else ''}{failure.result.message}", code)
        encryption = conversation.transport.tls_version or lazy_gettext("no TLS")
        user = (
            lazy_gettext("logged in as {user}", user=self._settings.user)
            if self._settings.user
            else lazy_gettext("no login")
        )
        pipelining = lazy_gettext("pipelining") if features.pipelining else lazy_gettext("no pipelining")
        try:
            await conversation.ask(SmtpPhase.QUIT, b"QUIT")
        except LoginFailed:
            pass  # The check has succeeded; an error after QUIT does not matter.
        finally:
            conversation.transport.close()
            await conversation.transport.closed
        return ProviderCheck(True, f"{place}: {encryption}, {user}, {pipelining}")

    async def close(self, grace: Instant = 30 * SECOND) -> None:
        await self._pool.close(grace)


def _own_name() -> str | None:
    """Return the host name if it is fully qualified, else None: servers reject partial names. No DNS lookup is made."""
    name = socket.gethostname()
    return name if "." in name and name.isascii() else None


def tls_context(settings: SmtpSettings) -> ssl.SSLContext | None:
    if settings.tls is Tls.NONE:
        return None
    try:
        return ssl.create_default_context(cafile=settings.ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationInvalid(
            lazy_gettext("the certificates in {ca} cannot be read: {error}", ca=settings.ca, error=error)
        ) from error


def read_settings(settings: Settings) -> SmtpSettings:
    found = read_smtp_url("smtp", "MAILWRIGHT_SMTP_URL", settings.smtp_url, settings)
    if found.auth is SmtpAuth.XOAUTH2 and oauth_settings(settings, found.user or "") is None:
        raise ConfigurationInvalid(
            setting_problem(
                "MAILWRIGHT_OAUTH_TOKEN_URL",
                lazy_gettext(
                    "is required when MAILWRIGHT_SMTP_URL has auth=xoauth2, together with "
                    "MAILWRIGHT_OAUTH_CLIENT_ID; or set MAILWRIGHT_OAUTH_SERVICE_ACCOUNT"
                ),
            )
        )
    return found


def make_provider(settings: Settings, clock: Clock, http: "HttpClient | None", *, reports_events: bool) -> Smtp:
    """Create the provider. `http` fetches access tokens, if the server needs them."""
    smtp = read_settings(settings)
    oauth = oauth_settings(settings, smtp.user or "") if smtp.auth is SmtpAuth.XOAUTH2 else None
    if oauth is None or http is None:
        return Smtp(smtp, clock=clock)
    from mailwright.providers.oauth import OAuthTokens  # noqa: PLC0415 - takes 0.1 s, so imported on use

    return Smtp(replace(smtp, tokens=OAuthTokens(oauth, http, clock)), clock=clock)
