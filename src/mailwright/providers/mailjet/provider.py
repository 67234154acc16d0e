"""The `mailjet` provider: one message is one request of the Send API v3.1 with its fields. It never raises."""

from base64 import b64encode
from dataclasses import field
from typing import Any, Final

from mailwright.domain.clock import Clock
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, SendResult, sent
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.api_provider import TIMEOUT_SECONDS, ApiRequest, FieldsApiProvider, require_https, require_key
from mailwright.providers.api_responses import ResponseTable, common_rules, explain, read_object, retry_after, rule
from mailwright.providers.dedupe_tag import DEDUPE_TAG
from mailwright.providers.http import HttpClient, HttpResponse
from mailwright.providers.mailjet.kind import PROVIDER, MailjetFields
from mailwright.providers.parsed_mime.fields import (
    STRUCTURAL_HEADERS,
    assign_recipients,
    first_headers,
    require_content,
    to_json,
)
from mailwright.providers.parsed_mime.parsed_message import ParsedAttachment, ParsedMailbox, ParsedMessage
from mailwright.providers.protocol import ProviderCheck
from mailwright.providers.purpose import without_purpose
from mailwright.providers.reading_settings import about, missing_setting
from mailwright.providers.responses import ResultTemplates, one_line

SENDER_REFUSED: Final = "MAILJET_SENDER_REFUSED"
# Mailjet refuses a message with one of these headers, because it writes them itself.
_REFUSED_HEADERS: Final = frozenset(
    {
        *STRUCTURAL_HEADERS,
        "authentication-results",
        "delivered-to",
        "domainkey-status",
        "list-id",
        "message-id",
        "received-spf",
        "sender",
        "user-agent",
        "x-csa-complaints",
        "x-feedback-id",
        "x-mailer",
    }
)
_REFUSED_PREFIXES: Final = ("x-mj-", "x-mailjet-")
_CONFIGURATION = ErrorCategory.CONFIGURATION
_make = ResultTemplates(PROVIDER)

# The text begins with Mailjet's error code.
RESPONSE_RULES: Final = (
    rule(401, _make.failed("MAILJET_ACCOUNT_SUSPENDED", _CONFIGURATION), text="^mj-0001:"),
    rule(400, _make.failed(SENDER_REFUSED, _CONFIGURATION), text="^send-000[678]:", to=403),
    rule(400, _make.failed("MAILJET_TOO_LARGE"), text="^mj-0011:"),
    *common_rules(PROVIDER),
)


@dataclass(frozen=True, slots=True)
class MailjetSettings:
    api_key: str
    secret_key: str = field(repr=False)
    url: str = "https://api.mailjet.com"  # Accounts in the US use https://api.us.mailjet.com.
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        require_key(lazy_gettext("Mailjet API key"), self.api_key.replace(":", " "))
        require_key(lazy_gettext("Mailjet secret key"), self.secret_key)
        require_https("Mailjet", self.url)


class Mailjet(FieldsApiProvider):
    name = PROVIDER
    table = ResponseTable(PROVIDER, RESPONSE_RULES, sender_refused=SENDER_REFUSED)

    def __init__(
        self, settings: MailjetSettings, http: HttpClient, clock: Clock, *, reports_events: bool = True
    ) -> None:
        super().__init__(settings, http, clock, reports_events=reports_events)
        self._send_url = f"{self._url}/v3.1/send"
        login = b64encode(f"{settings.api_key}:{settings.secret_key}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}

    def build_request(self, message: OutgoingMessage, parsed: ParsedMessage) -> ApiRequest:
        body = to_json({"Messages": [_fields(message, parsed)]})
        return ApiRequest(self._send_url, self._headers, body)

    def interpret_response(self, reply: HttpResponse) -> SendResult:
        result = _result(reply)
        message_id = _message_id(result)
        if reply.status in (200, 201) and result.get("Status") == "success" and message_id is not None:
            return sent(PROVIDER, message_id)
        return self.table.interpret(_status(reply), self.explanation(reply), retry_after(reply))

    def explanation(self, reply: HttpResponse) -> str:
        error = _error(reply)
        texts = (error.get("ErrorCode"), error.get("ErrorMessage"))
        return explain(reply, ": ".join(text for text in texts if isinstance(text, str) and text), "Mailjet")

    async def check(self) -> ProviderCheck:
        """Check both keys with a request without a message, which Mailjet refuses after it has checked them."""
        match await self._fetch("POST", self._send_url, self._headers, to_json({"Messages": []})):
            case ProviderCheck() as failure:
                return failure
            case HttpResponse(status=400) as reply if _error(reply):
                return self._found(lazy_gettext("the API key may send"), None)
            case HttpResponse() as reply:
                return self._refused(reply)


def _fields(message: OutgoingMessage, parsed: ParsedMessage) -> dict[str, Any]:
    require_content(parsed)
    recipients = assign_recipients(message, parsed)
    fields: dict[str, Any] = {
        "From": _box(parsed.sender),
        "To": [_box(box) for box in recipients.to],
        "Subject": parsed.subject,
        "CustomID": message.outbox_id,  # Mailjet includes it in every event of the message.
        "TemplateLanguage": False,
        # Mailjet must not rewrite our links or add its own pixel.
        "TrackOpens": "disabled",
        "TrackClicks": "disabled",
    }
    files = parsed.attachments
    optional = {
        "Cc": [_box(box) for box in recipients.cc],
        "Bcc": [_box(box) for box in recipients.bcc],
        "ReplyTo": _box(parsed.reply_to[0]) if parsed.reply_to else None,  # The API takes only one.
        "TextPart": parsed.text,
        "HTMLPart": parsed.html,
        "Headers": _headers(parsed),
        "Attachments": [_attachment(each) for each in files if each.content_id is None],
        "InlinedAttachments": [_attachment(each) for each in files if each.content_id is not None],
        "EventPayload": to_json({DEDUPE_TAG: message.dedupe_key}).decode() if message.dedupe_key else None,
    }
    return fields | {name: value for name, value in optional.items() if value}


def _box(box: ParsedMailbox) -> dict[str, str]:
    name = one_line(box.name)
    return {"Email": box.address, "Name": name} if name else {"Email": box.address}


def _headers(parsed: ParsedMessage) -> dict[str, str]:
    found = first_headers(parsed, _REFUSED_HEADERS)
    return {name: value for name, value in found.items() if not name.lower().startswith(_REFUSED_PREFIXES)}


def _attachment(source: ParsedAttachment) -> dict[str, str]:
    attachment = {
        "ContentType": source.content_type,
        "Filename": source.filename or "attachment",
        "Base64Content": source.content,
    }
    return attachment if source.content_id is None else {**attachment, "ContentID": source.content_id}


def _result(reply: HttpResponse) -> dict[str, Any]:
    """Return the result of our only message; an empty one if the whole request failed."""
    return _first(read_object(reply.body).get("Messages"))


def _error(reply: HttpResponse) -> dict[str, Any]:
    """Return the first error of the message, or the error of the whole request."""
    return _first(_result(reply).get("Errors")) or read_object(reply.body)


def _status(reply: HttpResponse) -> int:
    """Return the status of the message. A request can succeed although its message was refused."""
    status = _error(reply).get("StatusCode")
    is_refused = reply.status in range(200, 300) and _result(reply).get("Status") == "error"
    return status if is_refused and isinstance(status, int) and status in range(400, 500) else reply.status


def _message_id(result: dict[str, Any]) -> str | None:
    given = _first(result.get("To")).get("MessageID")
    return str(given) if isinstance(given, int) and given > 0 else None


def _first(given: Any) -> dict[str, Any]:
    found = given[0] if isinstance(given, list) and given else None
    return found if isinstance(found, dict) else {}


def read_settings(settings: MailjetFields) -> MailjetSettings:
    if settings.mailjet_api_key is None:
        raise missing_setting("MAILJET_API_KEY", PROVIDER, settings)
    if settings.mailjet_secret_key is None:
        raise missing_setting("MAILJET_SECRET_KEY", PROVIDER, settings)
    with about("MAILJET_API_KEY, MAILJET_SECRET_KEY, MAILWRIGHT_MAILJET_URL"):
        return MailjetSettings(
            settings.mailjet_api_key,
            settings.mailjet_secret_key.get_secret_value(),
            without_purpose(settings.mailjet_url),
        )


def make_provider(settings: MailjetFields, clock: Clock, http: HttpClient, *, reports_events: bool) -> Mailjet:
    return Mailjet(read_settings(settings), http, clock, reports_events=reports_events)
