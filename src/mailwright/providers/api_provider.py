"""The base classes of providers with an HTTP API: one message is one POST request. They never raise."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from dataclasses import field
from functools import partial
from typing import ClassVar, Protocol
from urllib.parse import urlsplit

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.api_responses import ResponseTable
from mailwright.providers.callbacks import OVER, future_of, run_with_callback, translating_callback
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.providers.parsed_mime import parse_mime, parse_own_mime
from mailwright.providers.parsed_mime.parse_mime import UnreadableMime
from mailwright.providers.parsed_mime.parsed_message import ParsedMessage
from mailwright.providers.protocol import ProviderCheck, ResultCallback, SendHandle
from mailwright.providers.responses import with_status
from mailwright.providers.smtp.settings import is_loopback

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ApiRequest:
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = b""


class ApiSettings(Protocol):
    """What every API needs to know."""

    @property
    def url(self) -> str: ...

    @property
    def timeout_seconds(self) -> float: ...


class ApiProvider(ABC):
    """Converts a message to a request, sends it once and interprets the response."""

    name: ClassVar[str]
    table: ClassVar[ResponseTable]

    def __init__(self, settings: ApiSettings, http: HttpClient, clock: Clock, *, reports_events: bool) -> None:
        """Create the provider. `reports_events`: the provider posts its events to Mailwright."""
        self.reports_events = reports_events
        self._url = settings.url.rstrip("/")
        self._host = urlsplit(settings.url).netloc
        self._http = http
        self._clock = clock
        self._timeout = settings.timeout_seconds

    @property
    def capacity(self) -> int:
        return self._http.connections

    @property
    def bulk_capacity(self) -> int:
        return self._http.connections

    @abstractmethod
    def send_with_callback(self, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle: ...

    @abstractmethod
    def send(self, message: OutgoingMessage) -> Awaitable[SendResult]: ...

    @abstractmethod
    def interpret_response(self, reply: HttpResponse) -> SendResult: ...

    @abstractmethod
    def explanation(self, reply: HttpResponse) -> str:
        """Return the error text of a response, without email addresses."""

    @abstractmethod
    async def check(self) -> ProviderCheck: ...

    async def close(self, grace: Instant = 0) -> None:  # noqa: B027 - complete as it is
        """Do nothing, because the owner of `http` closes the connections, and each send in flight returns a result."""

    def _transmit(self, request: ApiRequest, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle:
        return self._http.post(
            request.url,
            translating_callback(partial(self._interpret, message), self.name, message, on_result),
            headers=request.headers,
            body=request.body,
            timeout_seconds=self._timeout,
            may_begin=lambda: not self._is_late(message),
        )

    def _interpret(self, message: OutgoingMessage, reply: HttpResponse | Disconnect) -> SendResult:
        match reply:
            case HttpResponse():
                return self.table.attribute_fault(self.interpret_response(reply), message)
            case Disconnect() if not reply.is_in_doubt and self._is_late(message):
                return self.table.lock_expired.result("The lease on this message ended before it was sent.")
            case Disconnect():
                return self.table.interpret_disconnect(reply)

    async def _fetch(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpResponse | ProviderCheck:
        """Send a request for `check`. If the connection fails, return that as the result."""
        reply = await self._http.request(method, url, headers=headers, body=body, timeout_seconds=self._timeout)
        if isinstance(reply, HttpResponse):
            return reply
        return self._found(reply.cause, self.table.interpret_disconnect(reply).code)

    def _found(self, summary: str, code: str | None) -> ProviderCheck:
        """Return the result of a check; without a code, it succeeded."""
        return ProviderCheck(code is None, f"{self._host}: {summary}", code)

    def _refused(self, reply: HttpResponse) -> ProviderCheck:
        return self._found(with_status(reply.status, self.explanation(reply)), self.interpret_response(reply).code)

    def _is_late(self, message: OutgoingMessage) -> bool:
        return message.send_before is not None and self._clock.now() >= message.send_before


class FieldsApiProvider(ApiProvider):
    """A provider whose API takes fields instead of MIME, so that the message is parsed first."""

    @abstractmethod
    def build_request(self, message: OutgoingMessage, parsed: ParsedMessage) -> ApiRequest:
        """Build the request. Raise `UnreadableMime` if the message cannot be converted."""

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
            return self.table.invalid_content.result(str(error))
        return await future_of(partial(self._post, parsed), message)

    def _post(self, parsed: ParsedMessage, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle:
        try:
            request = self.build_request(message, parsed)
        except UnreadableMime as error:
            on_result(self.table.invalid_content.result(str(error)))
            return OVER
        return self._transmit(request, message, on_result)


def require_key(label: str, key: str) -> None:
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationInvalid(
            lazy_gettext("the {label} must consist of visible ASCII characters without spaces", label=label)
        )


def require_https(owner: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise ConfigurationInvalid(
            lazy_gettext(
                "the URL of {owner} must begin with https://, because the API key must be encrypted", owner=owner
            )
        )


def _parse_own(message: OutgoingMessage) -> ParsedMessage | None:
    return parse_own_mime.parse(message.content) if message.is_canonical else None
