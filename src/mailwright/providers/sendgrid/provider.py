"""The `sendgrid` provider: one message is one request of the v3 API. It never raises."""

from dataclasses import field
from typing import Any

import orjson

from mailwright.domain.clock import Clock
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.api_provider import TIMEOUT_SECONDS, ApiRequest, FieldsApiProvider, require_https, require_key
from mailwright.providers.http import HttpClient, HttpResponse
from mailwright.providers.parsed_mime.parsed_message import ParsedMessage
from mailwright.providers.protocol import ProviderCheck
from mailwright.providers.purpose import without_purpose
from mailwright.providers.reading_settings import about, missing_setting
from mailwright.providers.sendgrid import request, responses
from mailwright.providers.sendgrid.kind import SendGridFields

PERMISSION = "mail.send"


@dataclass(frozen=True, slots=True)
class SendGridSettings:
    api_key: str = field(repr=False)
    url: str = "https://api.sendgrid.com"  # Accounts in the EU use https://api.eu.sendgrid.com.
    tracks_opens: bool = False
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        require_key(lazy_gettext("SendGrid API key"), self.api_key)
        require_https("SendGrid", self.url)


class SendGrid(FieldsApiProvider):
    name = responses.PROVIDER
    table = responses.TABLE

    def __init__(
        self, settings: SendGridSettings, http: HttpClient, clock: Clock, *, reports_events: bool = True
    ) -> None:
        super().__init__(settings, http, clock, reports_events=reports_events)
        self._send_url = f"{self._url}/v3/mail/send"
        self._tracks_opens = settings.tracks_opens
        self._authorization = {"Authorization": f"Bearer {settings.api_key}"}
        self._headers = {**self._authorization, "Content-Type": "application/json"}

    def build_request(self, message: OutgoingMessage, parsed: ParsedMessage) -> ApiRequest:
        body = request.build_body(message, parsed, tracks_opens=self._tracks_opens)
        return ApiRequest(self._send_url, self._headers, body)

    def interpret_response(self, reply: HttpResponse) -> SendResult:
        return responses.interpret_response(reply, self._clock.now())

    def explanation(self, reply: HttpResponse) -> str:
        return responses.explanation(reply)

    async def check(self) -> ProviderCheck:
        """Check the API key by reading its permissions. This needs no permission and sends nothing."""
        match await self._fetch("GET", f"{self._url}/v3/scopes", self._authorization):
            case ProviderCheck() as failure:
                return failure
            case HttpResponse(status=200) as reply:
                return self._scopes(reply.body)
            case HttpResponse() as reply:
                return self._refused(reply)

    def _scopes(self, body: bytes) -> ProviderCheck:
        try:
            document: Any = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
        scopes = document.get("scopes") if isinstance(document, dict) else None
        if not isinstance(scopes, list):
            return self._found("the response is not from SendGrid", self.table.unknown_code)
        if PERMISSION not in scopes:
            return self._found(f"the API key lacks the permission {PERMISSION}", "SENDGRID_FORBIDDEN")
        return self._found("the API key may send", None)


def read_settings(settings: SendGridFields) -> SendGridSettings:
    if settings.sendgrid_api_key is None:
        raise missing_setting("SENDGRID_API_KEY", "sendgrid", settings)
    with about("SENDGRID_API_KEY, MAILWRIGHT_SENDGRID_URL"):
        return SendGridSettings(settings.sendgrid_api_key.get_secret_value(), without_purpose(settings.sendgrid_url))


def make_provider(settings: SendGridFields, clock: Clock, http: HttpClient, *, reports_events: bool) -> SendGrid:
    return SendGrid(read_settings(settings), http, clock, reports_events=reports_events)
