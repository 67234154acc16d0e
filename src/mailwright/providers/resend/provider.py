"""The `resend` provider: one message is one request with its fields. It never raises."""

import re
from dataclasses import field
from typing import Any, Final

from mailwright.domain.clock import HOUR, Clock
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, SendResult, sent
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.api_provider import TIMEOUT_SECONDS, ApiRequest, FieldsApiProvider, require_https, require_key
from mailwright.providers.api_responses import (
    ResponseTable,
    common_rules,
    explain,
    read_message_id,
    read_object,
    retry_after,
    rule,
)
from mailwright.providers.dedupe_tag import DEDUPE_TAG, dedupe_tag
from mailwright.providers.http import HttpClient, HttpResponse
from mailwright.providers.parsed_mime.fields import (
    assign_recipients,
    first_headers,
    format_box,
    require_content,
    to_json,
)
from mailwright.providers.parsed_mime.parsed_message import ParsedAttachment, ParsedMessage
from mailwright.providers.protocol import ProviderCheck
from mailwright.providers.purpose import without_purpose
from mailwright.providers.reading_settings import about, missing_setting
from mailwright.providers.resend.kind import ResendFields
from mailwright.providers.responses import ResultTemplates

PROVIDER: Final = "resend"
# Resend includes this tag in every event of the message.
MESSAGE_TAG: Final = "mailwright_message"
_TAG_VALUE: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
SENDER_REFUSED: Final = "RESEND_SENDER_REFUSED"
_CONFIGURATION = ErrorCategory.CONFIGURATION
_make = ResultTemplates(PROVIDER)

# The text begins with the name of the error.
RESPONSE_RULES: Final = (
    rule(403, _make.failed("RESEND_UNAUTHORIZED", _CONFIGURATION), text=r"^\w*api_key"),
    rule(403, _make.failed(SENDER_REFUSED, _CONFIGURATION), text="domain|from"),
    rule(422, _make.failed(SENDER_REFUSED, _CONFIGURATION), text="^invalid_from_address"),
    # Another request with this key is being processed, or one with other content was accepted in the last 24 hours.
    rule(409, _make.unclear("RESEND_IN_PROGRESS"), text="^concurrent_idempotent_requests"),
    rule(409, _make.in_doubt("RESEND_ALREADY_RECEIVED", ErrorCategory.TRANSIENT), text="^invalid_idempotent_request"),
    rule(429, _make.retried("RESEND_QUOTA_EXCEEDED", ErrorCategory.QUOTA, after=4 * HOUR), text="quota"),
    rule(451, _make.failed("RESEND_SECURITY_ERROR")),
    *common_rules(PROVIDER),
)


@dataclass(frozen=True, slots=True)
class ResendSettings:
    api_key: str = field(repr=False)
    url: str = "https://api.resend.com"
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        require_key(lazy_gettext("Resend API key"), self.api_key)
        require_https("Resend", self.url)


class Resend(FieldsApiProvider):
    name = PROVIDER
    table = ResponseTable(PROVIDER, RESPONSE_RULES, sender_refused=SENDER_REFUSED)

    def __init__(
        self, settings: ResendSettings, http: HttpClient, clock: Clock, *, reports_events: bool = True
    ) -> None:
        super().__init__(settings, http, clock, reports_events=reports_events)
        self._authorization = {"Authorization": f"Bearer {settings.api_key}"}

    def build_request(self, message: OutgoingMessage, parsed: ParsedMessage) -> ApiRequest:
        # With the same key, Resend sends a message once within 24 hours, even if it is resent after a doubt.
        headers = {
            **self._authorization,
            "Content-Type": "application/json",
            "Idempotency-Key": f"mailwright/{message.outbox_id}",
        }
        return ApiRequest(f"{self._url}/emails", headers, to_json(_fields(message, parsed)))

    def interpret_response(self, reply: HttpResponse) -> SendResult:
        message_id = read_message_id(read_object(reply.body).get("id"))
        if reply.status in (200, 201) and message_id is not None:
            return sent(PROVIDER, message_id)
        return self.table.interpret(reply.status, self.explanation(reply), retry_after(reply))

    def explanation(self, reply: HttpResponse) -> str:
        error = read_object(reply.body)
        texts = [error[name] for name in ("name", "message") if isinstance(error.get(name), str)]
        return explain(reply, ": ".join(texts), "Resend")

    async def check(self) -> ProviderCheck:
        """Check the API key by listing domains. A key that may only send is refused there with its own error."""
        match await self._fetch("GET", f"{self._url}/domains", self._authorization):
            case ProviderCheck() as failure:
                return failure
            case HttpResponse(status=200):
                return self._found(lazy_gettext("the API key may send"), None)
            case HttpResponse(status=401) as reply if read_object(reply.body).get("name") == "restricted_api_key":
                return self._found(lazy_gettext("the API key may only send"), None)
            case HttpResponse() as reply:
                return self._refused(reply)


def _fields(message: OutgoingMessage, parsed: ParsedMessage) -> dict[str, Any]:
    require_content(parsed)
    recipients = assign_recipients(message, parsed)
    fields: dict[str, Any] = {
        "from": format_box(parsed.sender),
        "to": [format_box(box) for box in recipients.to],
        "subject": parsed.subject,
        "headers": first_headers(parsed),
        "tags": _tags(message),
    }
    optional = {
        "cc": [format_box(box) for box in recipients.cc],
        "bcc": [format_box(box) for box in recipients.bcc],
        "reply_to": [format_box(box) for box in parsed.reply_to],
        "text": parsed.text,
        "html": parsed.html,
        "attachments": [_attachment(each) for each in parsed.attachments],
    }
    return fields | {name: value for name, value in optional.items() if value}


def _tags(message: OutgoingMessage) -> list[dict[str, str]]:
    tags = {MESSAGE_TAG: message.outbox_id}
    if message.dedupe_key:
        tags[DEDUPE_TAG] = dedupe_tag(message.dedupe_key, _TAG_VALUE)
    return [{"name": name, "value": value} for name, value in tags.items()]


def _attachment(source: ParsedAttachment) -> dict[str, str]:
    attachment = {
        "content": source.content,
        "content_type": source.content_type,
        "filename": source.filename or "attachment",
    }
    return attachment if source.content_id is None else {**attachment, "content_id": source.content_id}


def read_settings(settings: ResendFields) -> ResendSettings:
    if settings.resend_api_key is None:
        raise missing_setting("RESEND_API_KEY", PROVIDER, settings)
    with about("RESEND_API_KEY, MAILWRIGHT_RESEND_URL"):
        return ResendSettings(settings.resend_api_key.get_secret_value(), without_purpose(settings.resend_url))


def make_provider(settings: ResendFields, clock: Clock, http: HttpClient, *, reports_events: bool) -> Resend:
    return Resend(read_settings(settings), http, clock, reports_events=reports_events)
