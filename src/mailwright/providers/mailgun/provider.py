"""The `mailgun` provider: one message is one request with its MIME bytes. It never raises."""

import asyncio
import re
import secrets
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import field
from typing import Final

from mailwright.domain.clock import HOUR, Clock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, SendResult, sent
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.api_provider import TIMEOUT_SECONDS, ApiProvider, ApiRequest, require_https, require_key
from mailwright.providers.api_responses import (
    ResponseTable,
    common_rules,
    explain,
    read_message_id,
    read_object,
    retry_after,
    rule,
)
from mailwright.providers.callbacks import future_of
from mailwright.providers.dedupe_tag import DEDUPE_TAG
from mailwright.providers.http import HttpClient, HttpResponse
from mailwright.providers.mailgun.kind import MailgunFields
from mailwright.providers.protocol import ProviderCheck, ResultCallback, SendHandle
from mailwright.providers.purpose import without_purpose
from mailwright.providers.reading_settings import about, missing_setting
from mailwright.providers.responses import ResultTemplates

PROVIDER: Final = "mailgun"
# Mailgun includes this variable in every event of the message.
MESSAGE_VARIABLE: Final = "mailwright_message"
_make = ResultTemplates(PROVIDER)
SENDER_REFUSED: Final = "MAILGUN_SENDER_REFUSED"

RESPONSE_RULES: Final = (
    # The limit of the account or of the domain is used up; Mailgun counts it per hour, day or month.
    rule(402, _make.retried("MAILGUN_LIMIT_EXCEEDED", ErrorCategory.QUOTA, after=HOUR)),
    rule(403, _make.retried("MAILGUN_LIMIT_EXCEEDED", ErrorCategory.QUOTA, after=HOUR), text=r"\blimit|quota"),
    rule(400, _make.failed(SENDER_REFUSED, ErrorCategory.CONFIGURATION), text=r"'?from'? (?:parameter|address)"),
    *common_rules(PROVIDER),
)
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class MailgunSettings:
    api_key: str = field(repr=False)
    domain: str = ""
    url: str = "https://api.mailgun.net"  # Domains in the EU use https://api.eu.mailgun.net.
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        require_key(lazy_gettext("Mailgun API key"), self.api_key)
        require_https("Mailgun", self.url)
        if not _DOMAIN.fullmatch(self.domain.lower()):
            raise ConfigurationInvalid(
                lazy_gettext("the Mailgun domain must be a domain name, for example mg.example.com")
            )


class Mailgun(ApiProvider):
    name = PROVIDER
    table = ResponseTable(PROVIDER, RESPONSE_RULES, sender_refused=SENDER_REFUSED)

    def __init__(
        self, settings: MailgunSettings, http: HttpClient, clock: Clock, *, reports_events: bool = True
    ) -> None:
        super().__init__(settings, http, clock, reports_events=reports_events)
        self._send_url = f"{self._url}/v3/{settings.domain.lower()}/messages.mime"
        login = b64encode(f"api:{settings.api_key}".encode()).decode()
        self._authorization = {"Authorization": f"Basic {login}"}

    def send_with_callback(self, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle:
        fields = [("to", address) for address in message.recipients]
        # Mailgun must not rewrite our links or add its own pixel.
        fields += [(f"o:tracking{part}", "no") for part in ("", "-clicks", "-opens")]
        fields.append((f"v:{MESSAGE_VARIABLE}", message.outbox_id))
        if message.dedupe_key:
            fields.append((f"v:{DEDUPE_TAG}", message.dedupe_key))
        return self._transmit(self._form(fields, message.content), message, on_result)

    def send(self, message: OutgoingMessage) -> asyncio.Future[SendResult]:
        return future_of(self.send_with_callback, message)

    def interpret_response(self, reply: HttpResponse) -> SendResult:
        message_id = read_message_id(read_object(reply.body).get("id"))
        if reply.status == 200 and message_id is not None:
            return sent(PROVIDER, message_id)
        return self.table.interpret(reply.status, self.explanation(reply), retry_after(reply))

    def explanation(self, reply: HttpResponse) -> str:
        return explain(reply, read_object(reply.body).get("message"), "Mailgun")

    async def check(self) -> ProviderCheck:
        """Check the key and the domain with a request without a message, which Mailgun rejects after checking both.

        Reading the domain would need a key with more permissions than to send.
        """
        empty = self._form([("o:testmode", "yes")], None)
        match await self._fetch("POST", empty.url, empty.headers, empty.body):
            case ProviderCheck() as failure:
                return failure
            case HttpResponse(status=400) as reply if read_object(reply.body):
                return self._found(lazy_gettext("the API key may send"), None)
            case HttpResponse() as reply:
                return self._refused(reply)

    def _form(self, fields: Iterable[tuple[str, str]], content: bytes | None) -> ApiRequest:
        boundary = f"mailwright-{secrets.token_hex(16)}"
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields
        ]
        body = "".join(parts).encode()
        if content is not None:
            disposition = 'form-data; name="message"; filename="message.mime"'
            head = f"--{boundary}\r\nContent-Disposition: {disposition}\r\nContent-Type: message/rfc822\r\n\r\n"
            body = b"".join((body, head.encode(), content, b"\r\n"))
        headers = {**self._authorization, "Content-Type": f"multipart/form-data; boundary={boundary}"}
        return ApiRequest(self._send_url, headers, body + f"--{boundary}--\r\n".encode())


def read_settings(settings: MailgunFields) -> MailgunSettings:
    if settings.mailgun_api_key is None:
        raise missing_setting("MAILGUN_API_KEY", PROVIDER, settings)
    if settings.mailgun_domain is None:
        raise missing_setting("MAILGUN_DOMAIN", PROVIDER, settings)
    with about("MAILGUN_API_KEY, MAILGUN_DOMAIN, MAILWRIGHT_MAILGUN_URL"):
        return MailgunSettings(
            settings.mailgun_api_key.get_secret_value(), settings.mailgun_domain, without_purpose(settings.mailgun_url)
        )


def make_provider(settings: MailgunFields, clock: Clock, http: HttpClient, *, reports_events: bool) -> Mailgun:
    return Mailgun(read_settings(settings), http, clock, reports_events=reports_events)
