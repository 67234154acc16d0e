"""The `sendgrid` provider: one message is one request of the v3 API. It never raises."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.providers.callbacks import OVER, future_of, run_with_callback, translating_callback
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.providers.protocol import ProviderCheck, ResultCallback, SendHandle
from mailwright.providers.responses import with_status
from mailwright.providers.sendgrid import parse_mime, parse_own_mime, request, responses
from mailwright.providers.sendgrid.parse_mime import UnreadableMime
from mailwright.providers.sendgrid.parsed_message import ParsedMessage
from mailwright.providers.smtp.settings import is_loopback

TIMEOUT_SECONDS = 30.0
PERMISSION = "mail.send"


@dataclass(frozen=True, slots=True)
class SendGridSettings:
    api_key: str = field(repr=False)
    url: str = "https://api.sendgrid.com"  # Accounts in the EU use https://api.eu.sendgrid.com.
    tracks_opens: bool = False
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        if not self.api_key or not self.api_key.isascii() or not self.api_key.isprintable() or " " in self.api_key:
            raise ConfigurationInvalid("the SendGrid API key must consist of visible ASCII characters without spaces")
        parts = urlsplit(self.url)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            raise ConfigurationInvalid("SendGrid's URL must begin with https://, because the API key must be encrypted")


class SendGrid:
    name = responses.PROVIDER

    def __init__(
        self, settings: SendGridSettings, http: HttpClient, clock: Clock, *, reports_events: bool = True
    ) -> None:
        """Create the provider. `reports_events`: SendGrid posts its events to Mailwright."""
        self.reports_events = reports_events
        self._http = http
        self._clock = clock
        self._url = settings.url.rstrip("/")
        self._send_url = f"{self._url}/v3/mail/send"
        self._host = urlsplit(settings.url).netloc
        self._timeout = settings.timeout_seconds
        self._tracks_opens = settings.tracks_opens
        self._authorization = {"Authorization": f"Bearer {settings.api_key}"}
        self._headers = {**self._authorization, "Content-Type": "application/json"}

    @property
    def capacity(self) -> int:
        return self._http.connections

    @property
    def bulk_capacity(self) -> int:
        return self._http.connections

    def send_with_callback(self, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle:
        parsed = _parse_own(message)
        return (
            run_with_callback(self.send(message), on_result)
            if parsed is None
            else self._post(parsed, message, on_result)
        )

    async def send(self, message: OutgoingMessage) -> SendResult:
        parsed = _parse_own(message)
        try:
            if parsed is None:
                # Messages that our writer did not produce can be of any size: parse them in a thread.
                parsed = await asyncio.to_thread(parse_mime.parse, message.content)
        except UnreadableMime as error:
            return responses.INVALID_CONTENT.result(str(error))
        return await future_of(partial(self._post, parsed), message)

    def _post(self, parsed: ParsedMessage, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle:
        try:
            body = request.build_body(message, parsed, tracks_opens=self._tracks_opens)
        except UnreadableMime as error:
            on_result(responses.INVALID_CONTENT.result(str(error)))
            return OVER
        return self._http.post(
            self._send_url,
            translating_callback(partial(self._interpret, message), self.name, message, on_result),
            headers=self._headers,
            body=body,
            timeout_seconds=self._timeout,
            may_begin=lambda: not self._is_late(message),
        )

    def _interpret(self, message: OutgoingMessage, reply: HttpResponse | Disconnect) -> SendResult:
        match reply:
            case HttpResponse():
                return responses.attribute_fault(responses.interpret_response(reply, self._clock.now()), message)
            case Disconnect() if not reply.is_in_doubt and self._is_late(message):
                return responses.LOCK_EXPIRED.result("The lease on this message ended before it was sent.")
            case Disconnect():
                return responses.interpret_disconnect(reply)

    async def check(self) -> ProviderCheck:
        """Check the API key by reading its permissions. This needs no permission and sends nothing."""
        reply = await self._http.request(
            "GET", f"{self._url}/v3/scopes", headers=self._authorization, timeout_seconds=self._timeout
        )
        match reply:
            case Disconnect():
                return ProviderCheck(False, f"{self._host}: {reply.cause}", responses.interpret_disconnect(reply).code)
            case HttpResponse(status=200):
                return self._scopes(reply.body)
            case HttpResponse():
                result = responses.interpret_response(reply, self._clock.now())
                description = with_status(reply.status, responses.explanation(reply))
                return ProviderCheck(False, f"{self._host}: {description}", result.code)

    async def close(self, grace: Instant = 0) -> None:
        """Do nothing, because the owner of `http` closes the connections, and each send in flight returns a result."""

    def _is_late(self, message: OutgoingMessage) -> bool:
        return message.send_before is not None and self._clock.now() >= message.send_before

    def _scopes(self, body: bytes) -> ProviderCheck:
        try:
            document: Any = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
        scopes = document.get("scopes") if isinstance(document, dict) else None
        if not isinstance(scopes, list):
            return ProviderCheck(False, f"{self._host}: the response is not from SendGrid", responses.UNKNOWN.code)
        if PERMISSION not in scopes:
            return ProviderCheck(
                False, f"{self._host}: the API key lacks the permission {PERMISSION}", "SENDGRID_FORBIDDEN"
            )
        return ProviderCheck(True, f"{self._host}: the API key may send")


def _parse_own(message: OutgoingMessage) -> ParsedMessage | None:
    return parse_own_mime.parse(message.content) if message.is_canonical else None
