"""The `postmark` provider: one message is one request with its fields. It never raises."""

import re
from dataclasses import field
from typing import Any, Final

from mailwright.domain.clock import HOUR, Clock
from mailwright.domain.errors import ConfigurationInvalid
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
from mailwright.providers.parsed_mime.parsed_message import ParsedAttachment, ParsedMailbox, ParsedMessage
from mailwright.providers.postmark.kind import PostmarkFields
from mailwright.providers.protocol import ProviderCheck
from mailwright.providers.purpose import without_purpose
from mailwright.providers.reading_settings import about, missing_setting
from mailwright.providers.responses import ResultTemplates

PROVIDER: Final = "postmark"
# Postmark includes the metadata in every event of the message.
MESSAGE_METADATA: Final = "mailwright_message"
_METADATA_VALUE: Final = re.compile(r".{1,80}")
SENDER_REFUSED: Final = "POSTMARK_SENDER_REFUSED"
_CONFIGURATION = ErrorCategory.CONFIGURATION
_make = ResultTemplates(PROVIDER)

# The text begins with Postmark's error code.
RESPONSE_RULES: Final = (
    rule(422, _make.failed(SENDER_REFUSED, _CONFIGURATION), text="^40[01]:"),
    rule(422, _make.retried("POSTMARK_CREDITS_EXCEEDED", ErrorCategory.QUOTA, after=4 * HOUR), text="^405:"),
    rule(422, _make.failed("POSTMARK_INACTIVE_RECIPIENT"), text="^406:"),
    rule(422, _make.failed("POSTMARK_ACCOUNT_NOT_ALLOWED", _CONFIGURATION), text="^41[23]:"),
    rule(422, _make.failed("POSTMARK_STREAM_REFUSED", _CONFIGURATION), text="^12[0-9][0-9]:|message ?stream"),
    *common_rules(PROVIDER),
)
_STREAM = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True)
class PostmarkSettings:
    server_token: str = field(repr=False)
    stream: str = "outbound"  # Newsletters need a stream for broadcasts.
    url: str = "https://api.postmarkapp.com"
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        require_key(lazy_gettext("Postmark server token"), self.server_token)
        require_https("Postmark", self.url)
        if not _STREAM.fullmatch(self.stream):
            raise ConfigurationInvalid(lazy_gettext("the Postmark message stream must be its ID, for example outbound"))


class Postmark(FieldsApiProvider):
    name = PROVIDER
    table = ResponseTable(PROVIDER, RESPONSE_RULES, sender_refused=SENDER_REFUSED)

    def __init__(
        self, settings: PostmarkSettings, http: HttpClient, clock: Clock, *, reports_events: bool = True
    ) -> None:
        super().__init__(settings, http, clock, reports_events=reports_events)
        self._stream = settings.stream
        self._authorization = {"Accept": "application/json", "X-Postmark-Server-Token": settings.server_token}
        self._headers = {**self._authorization, "Content-Type": "application/json"}

    def build_request(self, message: OutgoingMessage, parsed: ParsedMessage) -> ApiRequest:
        body = to_json(_fields(message, parsed, self._stream))
        return ApiRequest(f"{self._url}/email", self._headers, body)

    def interpret_response(self, reply: HttpResponse) -> SendResult:
        answer = read_object(reply.body)
        message_id = read_message_id(answer.get("MessageID"))
        if reply.status == 200 and answer.get("ErrorCode", 0) == 0 and message_id is not None:
            return sent(PROVIDER, message_id)
        return self.table.interpret(reply.status, self.explanation(reply), retry_after(reply))

    def explanation(self, reply: HttpResponse) -> str:
        error = read_object(reply.body)
        code, text = error.get("ErrorCode"), error.get("Message")
        return explain(
            reply, f"{code}: {text}" if isinstance(code, int) and isinstance(text, str) else None, "Postmark"
        )

    async def check(self) -> ProviderCheck:
        """Check the token by reading the server that it belongs to. Nothing is sent."""
        match await self._fetch("GET", f"{self._url}/server", self._authorization):
            case ProviderCheck() as failure:
                return failure
            case HttpResponse(status=200) as reply:
                is_sandbox = read_object(reply.body).get("DeliveryType") == "Sandbox"
                summary = (
                    lazy_gettext("the server is a sandbox: it delivers nothing")
                    if is_sandbox
                    else lazy_gettext("the server token may send")
                )
                return self._found(summary, "POSTMARK_SANDBOX" if is_sandbox else None)
            case HttpResponse() as reply:
                return self._refused(reply)


def _fields(message: OutgoingMessage, parsed: ParsedMessage, stream: str) -> dict[str, Any]:
    require_content(parsed)
    recipients = assign_recipients(message, parsed)
    # Without X-PM-KeepID, Postmark replaces our Message-ID.
    headers = {**first_headers(parsed), "X-PM-KeepID": "true"}
    fields: dict[str, Any] = {
        "From": format_box(parsed.sender),
        "To": _boxes(recipients.to),
        "Subject": parsed.subject,
        "Headers": [{"Name": name, "Value": value} for name, value in headers.items()],
        "Metadata": _metadata(message),
        "MessageStream": stream,
        # Postmark must not rewrite our links or add its own pixel.
        "TrackOpens": False,
        "TrackLinks": "None",
    }
    optional = {
        "Cc": _boxes(recipients.cc),
        "Bcc": _boxes(recipients.bcc),
        "ReplyTo": _boxes(parsed.reply_to),
        "TextBody": parsed.text,
        "HtmlBody": parsed.html,
        "Attachments": [_attachment(each) for each in parsed.attachments],
    }
    return fields | {name: value for name, value in optional.items() if value}


def _metadata(message: OutgoingMessage) -> dict[str, str]:
    metadata = {MESSAGE_METADATA: message.outbox_id}
    if message.dedupe_key:
        metadata[DEDUPE_TAG] = dedupe_tag(message.dedupe_key, _METADATA_VALUE)
    return metadata


def _boxes(boxes: list[ParsedMailbox]) -> str:
    return ", ".join(format_box(box) for box in boxes)


def _attachment(source: ParsedAttachment) -> dict[str, str]:
    attachment = {
        "Name": source.filename or "attachment",
        "Content": source.content,
        "ContentType": source.content_type,
    }
    return attachment if source.content_id is None else {**attachment, "ContentID": f"cid:{source.content_id}"}


def read_settings(settings: PostmarkFields) -> PostmarkSettings:
    if settings.postmark_server_token is None:
        raise missing_setting("POSTMARK_SERVER_TOKEN", PROVIDER, settings)
    with about("POSTMARK_SERVER_TOKEN, POSTMARK_MESSAGE_STREAM, MAILWRIGHT_POSTMARK_URL"):
        return PostmarkSettings(
            settings.postmark_server_token.get_secret_value(),
            settings.postmark_message_stream,
            without_purpose(settings.postmark_url),
        )


def make_provider(settings: PostmarkFields, clock: Clock, http: HttpClient, *, reports_events: bool) -> Postmark:
    return Postmark(read_settings(settings), http, clock, reports_events=reports_events)
